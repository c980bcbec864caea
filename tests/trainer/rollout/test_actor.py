"""Acting in a rollout: native and torch steps, several threads, and one device synchronisation per step."""

import itertools
from collections import Counter
from contextlib import contextmanager
from typing import ClassVar

import pytest
import torch
from fake_games import FakeGame, ScriptedDealer, never, tagged
from refused import refused
from torch.utils._python_dispatch import TorchDispatchMode

from arena.policies import NetworkPolicy
from arena.policies.scripted import RandomPolicy
from trainer.config.schema import EnvironmentSettings, RunSettings
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout import vector_worker
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.collector import RolloutCollector
from trainer.rollout.make_envs import batch_sizes, make_env_batches
from trainer.rollout.thread_team import ThreadTeam

NATIVE = {"encoder_sizes": [16], "recurrent_size": 16}


@pytest.mark.holds("B6")
def test_stored_log_probabilities_are_those_of_the_stored_actions_in_every_chunk(play):
    """The outputs of the native step equal those of the training network, step by step from the stored states."""
    played = play(network=NATIVE, environment={"self_play": 0.5})
    network, rollout = played.learner.network, played.collect()
    for chunk in range(3):
        state = type(network.initial_state(1))(rollout.hidden[chunk], rollout.cell[chunk])
        for t in range(4 * chunk, 4 * chunk + 4):
            with torch.no_grad():
                output = network.step(rollout.observation[t], state, rollout.episode_start[t], rollout.active[t])
                expected = network.distribution(output.parameters, rollout.action_mask[t]).log_prob(
                    rollout.raw_action[t]
                )
            state, acting = output.state, rollout.active[t]
            torch.testing.assert_close(rollout.log_prob[t][acting], expected[acting], atol=1e-5, rtol=0.0)
            torch.testing.assert_close(rollout.value[t][acting], output.value[acting], atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("network", [NATIVE, {"encoder_sizes": [8], "recurrent_size": 6}], ids=["native", "torch"])
def test_every_rollout_acts_with_the_current_weights(play, network):
    played = play(network=network)
    with torch.no_grad():
        played.learner.network.critic.bias += 100.0
        played.learner.network.raw_log_std.fill_(-5.0)
        played.learner.network.actor.bias[:2] = 3.0
    rollout = played.collect()
    assert (rollout.value[rollout.active] > 50.0).all()
    torch.testing.assert_close(
        rollout.raw_action[..., :2], torch.full_like(rollout.raw_action[..., :2], 3.0), atol=0.2, rtol=0.0
    )


@pytest.mark.holds("B3")
@pytest.mark.parametrize("agents_per_side", [(1, 1), (2, 2), (1, 3)])
def test_the_native_step_equals_storing_acting_and_scattering_in_torch(play, agents_per_side):
    def played_by(*, native):
        played = play(agents_per_side, network=NATIVE, environment={"self_play": 0.5}, opponents=[tagged(1.0)])
        (only,) = played.collector.workers
        assert only.actor.has_native_step
        if not native:
            only.actor._native_step = None
        rollouts = [{name: each.clone() for name, each in vars(played.collect()).items()} for _ in range(2)]
        return rollouts, played.game.played

    (rollouts, done), (expected, by_steps) = (played_by(native=native) for native in (True, False))
    for one, other in zip(rollouts, expected, strict=True):
        for name, field in one.items():
            torch.testing.assert_close(
                field, other[name], atol=1e-5, rtol=1e-5, msg=lambda message, at=name: f"{at}: {message}"
            )
    for one, other in zip(done, by_steps, strict=True):
        for name, actions in one.items():
            torch.testing.assert_close(actions, other[name], atol=1e-5, rtol=0.0)


# --- several threads -------------------------------------------------------------------------------------------------


class AwaitedGame(FakeGame):
    """An asynchronous game that records its calls."""

    notes: ClassVar[list[tuple[str, "AwaitedGame"]]] = []

    def send(self, actions):
        self.notes.append(("send", self))
        self._sent = actions

    def receive(self):
        self.notes.append(("receive", self))
        return self.step(self._sent)

    def halves(self):
        return [self]


def played_by(config, workers, *, at_random=False, kind=FakeGame):
    """Two rollouts of several batches of two environments; with `at_random` actions do not depend on observations."""
    settings = config(network=NATIVE, environment={"num_envs": 2 * workers, "self_play": 0.5})
    games = [kind(2) for _ in range(workers)]
    learner = Learner(settings, games[0].spec)
    if at_random:
        torch.nn.init.zeros_(learner.network.actor.weight)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, "fake", games[0].spec.signature))
    chance = Opponent("chance", "chance", RandomPolicy(games[0].spec.heads))
    dealer, episodes = ScriptedDealer([live, chance, tagged(1.0)]), []
    collector = RolloutCollector(
        games,
        learner.network,
        dealer,
        episodes.append,
        learner.rng,
        self_play=settings.environment.self_play_rows,
        device_cache_bytes=2**20,
    )
    rollout = learner.allocate()
    assert collector.rows == learner.rows
    for _ in range(2):
        assert collector.collect(rollout, never)
    results = [(each.assignment.seed, each.score, each.mean_return) for each in episodes]
    return {name: tensor.clone() for name, tensor in vars(rollout).items()}, results, dealer.dealt, games


def assert_same(one, other):
    assert all(torch.equal(tensor, other[0][name]) for name, tensor in one[0].items())
    assert one[1] == other[1]
    assert [(row, each.seed) for row, each in one[2]] == [(row, each.seed) for row, each in other[2]]


def test_results_do_not_depend_on_the_order_in_which_threads_finish(config, monkeypatch):
    """In parallel, in order and in reverse order: bit-equal."""
    threads = played_by(config, 3)
    for order in (range(3), reversed(range(3))):
        turns = list(order)
        monkeypatch.setattr(ThreadTeam, "run_all", lambda self, work, turns=turns: [work(number) for number in turns])
        assert_same(threads, played_by(config, 3))


def test_pipelined_batches_give_the_same_rollout_and_overlap_their_steps(config):
    AwaitedGame.notes.clear()
    pipelined = played_by(config, 2, kind=AwaitedGame)
    assert_same(pipelined, played_by(config, 2))
    one, two = pipelined[3]
    rollout = [("send", one), ("send", two)]
    for _ in range(11):
        rollout += [("receive", one), ("send", one), ("receive", two), ("send", two)]
    rollout += [("receive", one), ("receive", two)]
    assert AwaitedGame.notes == 2 * rollout


def test_stopping_receives_every_step_that_was_sent(play, config):
    AwaitedGame.notes.clear()
    played = play()
    games = [AwaitedGame(3), AwaitedGame(3)]
    collector = RolloutCollector(
        games,
        played.learner.network,
        played.dealer,
        played.episodes.append,
        played.learner.rng,
        self_play=frozenset(),
        device_cache_bytes=2**20,
    )
    answers = iter([False, False, False, True])
    rollout = RolloutBuffer.allocate(played.learner.network, steps=12, rows=6, bptt_horizon=4)
    assert not collector.collect(rollout, lambda: next(answers))
    assert [len(game.played) for game in games] == [3, 3]
    assert [what for what, _ in AwaitedGame.notes[-2:]] == ["receive", "receive"]
    assert {each.decisions for each in played.episodes} == {2, 3}, "matches that ended by then are reported"


def test_batches_fill_consecutive_rows_of_one_rollout(config):
    """Away rows of self-play follow the other rows of their batch; environments are numbered across batches."""
    rollout, results, dealt, games = played_by(config, 2)
    assert rollout["observation"].shape[1] == 6
    assert rollout["observation"][0][:, 0].tolist() == [0, 1, 1, 0, 1, 1]
    assert [row for row, _ in dealt[:8]] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert len(results) == len(dealt) - 8
    assert [int(seed) for game in games for seed in game.seeds] != [0, 1, 2, 3]


def test_every_batch_and_every_chunk_has_different_action_noise(config):
    drawn = played_by(config, 2, at_random=True)[0]["raw_action"][..., :2].unflatten(0, (3, 4)).unflatten(2, (2, 3))
    parts = [drawn[chunk, :, batch] for chunk in range(3) for batch in range(2)]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(parts, 2))


def test_an_error_in_one_thread_is_raised_after_all_threads_finished(config):
    done = []

    def work(number):
        if number == 1:
            raise ValueError("broken")
        done.append(number)

    with ThreadTeam(3) as several, refused(ValueError, "broken"):
        several.run_all(work)
    assert sorted(done) == [0, 2]


def test_torch_uses_one_thread_per_team_thread_and_all_of_them_afterwards():
    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        with ThreadTeam(2) as both:
            both.run_all(lambda number: seen.append(torch.get_num_threads()))
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
        with ThreadTeam(1) as one:
            one.run_all(lambda number: seen.append(torch.get_num_threads()))
        assert seen[2:] == [2]
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("num_envs", "agents", "threads", "sizes"),
    [
        (64, 1, 2, [64]),
        (256, 10, 2, [128, 128]),
        (257, 10, 2, [128, 129]),
        (256, 10, 1, [256]),
        (1024, 1, 4, [512, 512]),
        (1, 5000, 4, [1]),
    ],
)
def test_threads_get_batches_only_above_the_minimum_size(num_envs, agents, threads, sizes):
    assert batch_sizes(num_envs, agents, threads) == sizes


def test_batches_have_different_seeds():
    one, other = make_env_batches(EnvironmentSettings(name="rps", num_envs=1024), RunSettings(threads=2, seed=5))
    assert (one.num_envs, other.num_envs) == (512, 512)
    assert not torch.equal(one.next_seeds, other.next_seeds)


# --- waiting for a device --------------------------------------------------------------------------------------------

WAITS = {
    "aten::_local_scalar_dense",
    "aten::item",
    "aten::is_nonzero",
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
}
"""Operations that synchronise with the device: they copy numbers to the host, or need them to know a shape."""

LOOK = "aten::is_nonzero"
"""The check on the CPU whether anything ended. From a GPU all end flags are copied in one transfer instead."""


class Watching(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.waits = Counter()

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = function._schema.name
        by_flags = name == "aten::index" and any(
            each is not None and each.dtype in (torch.bool, torch.uint8) for each in arguments[1]
        )
        if name in WAITS or by_flags:
            self.waits[name] += 1
        return function(*arguments, **(options or {}))


@contextmanager
def watching_the_learner(monkeypatch):
    """Count synchronisations of the vector worker, without those of the game."""
    watch = Watching()
    step = FakeGame.step

    def unwatched(self, actions):
        with torch.utils._python_dispatch._disable_current_modes():
            return step(self, actions)

    monkeypatch.setattr(FakeGame, "step", unwatched)
    with watch:
        yield watch


@pytest.mark.holds("I4")
@pytest.mark.parametrize("agents_per_side", [(1, 1), (1, 3)])
def test_a_step_synchronises_with_the_device_once(play, monkeypatch, agents_per_side):
    """Matches that end, or are truncated, add no further synchronisation."""
    game = FakeGame(4, agents_per_side, length=lambda seed: 3, limited=lambda seed: seed % 2 == 0)
    played = play(game=game, environment={"num_envs": 4, "self_play": 0.5}, opponents=[tagged(1.0)])
    (only,), learner = played.collector.workers, played.learner
    rollout, ended = learner.allocate(), 0
    with watching_the_learner(monkeypatch) as watch:
        for t in range(8):
            only.step(rollout, t, learner.rng)
            ended += 0 if only.finished is None else len(only.finished.rows)
    assert ended == 8
    assert rollout.truncated.any()
    assert rollout.terminated.any()
    assert watch.waits == {LOOK: 8}


@pytest.mark.holds("I4")
def test_on_a_device_endings_are_copied_without_a_check_first(config, play, monkeypatch):
    """The code path of a GPU gives the same results as that of the host."""
    on_host = played_by(config, 1)
    monkeypatch.setattr(vector_worker, "HOST", torch.device("meta"))
    assert_same(on_host, played_by(config, 1))
    played = play(opponents=[tagged(1.0)])
    (only,), learner = played.collector.workers, played.learner
    rollout = learner.allocate()
    with watching_the_learner(monkeypatch) as watch:
        only.step(rollout, 0, learner.rng)
    assert not watch.waits


@pytest.mark.holds("I4", "S16")
def test_rollout_and_update_pin_no_memory_and_empty_no_cache(play, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("it costs, and gains nothing")

    monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    played = play(environment={"self_play": 0.5})
    played.learner.learn(played.collect(), never)
