"""How the learner acts: in one native call where that runs, side by side on several threads, waiting for nothing."""

import itertools
from collections import Counter
from contextlib import contextmanager
from typing import ClassVar

import pytest
import torch
from fake_games import FakeGame, ScriptedDealer, never, tagged
from torch.utils._python_dispatch import TorchDispatchMode

from arena.policies import NetworkPolicy
from arena.policies.scripted import RandomPolicy
from trainer import crew
from trainer.batches import batch_sizes, open_batches
from trainer.collector import Collector
from trainer.hands import Hands
from trainer.learner import Learner
from trainer.opponents import SELF, Opponent
from trainer.rollout import Rollout
from trainer.settings import EnvironmentSettings, RunSettings

NATIVE = {"encoder_sizes": [16], "recurrent_size": 16}


def test_stored_log_probabilities_are_those_of_the_stored_actions_in_every_chunk(play):
    """What the native call said agrees with the network that learns, step by step from the stored states."""
    played = play(network=NATIVE, environment={"self_play": 0.5})
    network, rollout = played.learner.network, played.collect()
    for chunk in range(3):
        state = type(network.initial_state(1))(rollout.hidden[chunk], rollout.cell[chunk])
        for t in range(4 * chunk, 4 * chunk + 4):
            with torch.no_grad():
                output = network.step(rollout.observation[t], state, rollout.episode_start[t], rollout.active[t])
                expected = network.distribution(output.parameters, rollout.mask[t]).log_prob(rollout.raw[t])
            state, acting = output.state, rollout.active[t]
            torch.testing.assert_close(rollout.log_prob[t][acting], expected[acting], atol=1e-5, rtol=0.0)
            torch.testing.assert_close(rollout.value[t][acting], output.value[acting], atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("network", [NATIVE, {"encoder_sizes": [8], "recurrent_size": 6}], ids=["native", "torch"])
def test_every_rollout_acts_with_the_weights_of_the_moment(play, network):
    played = play(network=network)
    with torch.no_grad():
        played.learner.network.critic.bias += 100.0
        played.learner.network.raw_log_std.fill_(-5.0)
        played.learner.network.actor.bias[:2] = 3.0
    rollout = played.collect()
    assert (rollout.value[rollout.active] > 50.0).all()
    torch.testing.assert_close(rollout.raw[..., :2], torch.full_like(rollout.raw[..., :2], 3.0), atol=0.2, rtol=0.0)


@pytest.mark.parametrize("agents_per_side", [(1, 1), (2, 2), (1, 3)])
def test_a_native_call_does_what_perceiving_deciding_and_acting_do_one_by_one(play, agents_per_side):
    def played_by(*, native):
        played = play(agents_per_side, network=NATIVE, environment={"self_play": 0.5}, opponents=[tagged(1.0)])
        (only,) = played.collector.crews
        assert only.acting.in_one_piece
        if not native:
            only.acting._decide = None
        rollouts = [{name: each.clone() for name, each in vars(played.collect()).items()} for _ in range(2)]
        return rollouts, played.game.played

    (rollouts, done), (expected, by_steps) = (played_by(native=native) for native in (True, False))
    for one, other in zip(rollouts, expected, strict=True):
        for name, field in one.items():
            torch.testing.assert_close(
                field, other[name], atol=1e-5, rtol=1e-5, msg=lambda told, at=name: f"{at}: {told}"
            )
    for one, other in zip(done, by_steps, strict=True):
        for name, actions in one.items():
            torch.testing.assert_close(actions, other[name], atol=1e-5, rtol=0.0)


# --- several threads -------------------------------------------------------------------------------------------------


class AwaitedGame(FakeGame):
    """A game that somebody else plays, who notes what is asked of whom."""

    notes: ClassVar[list[tuple[str, "AwaitedGame"]]] = []

    def send(self, actions):
        self.notes.append(("send", self))
        self._sent = actions

    def receive(self):
        self.notes.append(("receive", self))
        return self.step(self._sent)

    def halves(self):
        return [self]


def played_by(config, crews, *, at_random=False, kind=FakeGame):
    """What so many batches of two environments each come to; at random the learner does not look at anything."""
    settings = config(network=NATIVE, environment={"num_envs": 2 * crews, "self_play": 0.5})
    games = [kind(2) for _ in range(crews)]
    learner = Learner(settings, games[0].spec)
    if at_random:
        torch.nn.init.zeros_(learner.network.actor.weight)
    live = Opponent(SELF, "self", NetworkPolicy(learner.network, "fake", games[0].spec.signature))
    chance = Opponent("chance", "chance", RandomPolicy(games[0].spec.heads))
    dealer, episodes = ScriptedDealer([live, chance, tagged(1.0)]), []
    collector = Collector(
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
    told = [(each.assignment.seed, each.score, each.earned) for each in episodes]
    return {name: tensor.clone() for name, tensor in vars(rollout).items()}, told, dealer.dealt, games


def same(one, other):
    assert all(torch.equal(tensor, other[0][name]) for name, tensor in one[0].items())
    assert one[1] == other[1]
    assert [(row, each.seed) for row, each in one[2]] == [(row, each.seed) for row, each in other[2]]


def test_what_threads_come_to_does_not_hang_on_who_is_faster(config, monkeypatch):
    """Side by side, one after the other, and the last one first: the same to the last bit."""
    threads = played_by(config, 3)
    for order in (range(3), reversed(range(3))):
        turns = list(order)
        monkeypatch.setattr(Hands, "each", lambda self, work, turns=turns: [work(number) for number in turns])
        same(threads, played_by(config, 3))


def test_batches_that_others_play_come_to_the_same_and_one_is_played_while_the_next_is_decided(config):
    AwaitedGame.notes.clear()
    relayed = played_by(config, 2, kind=AwaitedGame)
    same(relayed, played_by(config, 2))
    one, two = relayed[3]
    rollout = [("send", one), ("send", two)]
    for _ in range(11):
        rollout += [("receive", one), ("send", one), ("receive", two), ("send", two)]
    rollout += [("receive", one), ("receive", two)]
    assert AwaitedGame.notes == 2 * rollout


def test_stopping_leaves_nothing_under_way_where_others_play(play, config):
    AwaitedGame.notes.clear()
    played = play()
    games = [AwaitedGame(3), AwaitedGame(3)]
    collector = Collector(
        games,
        played.learner.network,
        played.dealer,
        played.episodes.append,
        played.learner.rng,
        self_play=frozenset(),
        device_cache_bytes=2**20,
    )
    answers = iter([False, False, False, True])
    rollout = Rollout.allocate(played.learner.network, steps=12, rows=6, chunk=4)
    assert not collector.collect(rollout, lambda: next(answers))
    assert [len(game.played) for game in games] == [3, 3]
    assert [what for what, _ in AwaitedGame.notes[-2:]] == ["receive", "receive"]
    assert {each.decisions for each in played.episodes} == {2, 3}, "who was over by then is told"


def test_a_batch_of_its_own_is_a_part_of_the_same_rollout(config):
    """Rows of self-play come behind the others of their batch; numbers of environments run on from batch to batch."""
    rollout, told, dealt, games = played_by(config, 2)
    assert rollout["observation"].shape[1] == 6
    assert rollout["observation"][0][:, 0].tolist() == [0, 1, 1, 0, 1, 1]
    assert [row for row, _ in dealt[:8]] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert len(told) == len(dealt) - 8
    assert [int(seed) for game in games for seed in game.seeds] != [0, 1, 2, 3]


def test_every_batch_has_chance_of_its_own_and_other_in_every_chunk(config):
    drawn = played_by(config, 2, at_random=True)[0]["raw"][..., :2].unflatten(0, (3, 4)).unflatten(2, (2, 3))
    parts = [drawn[chunk, :, batch] for chunk in range(3) for batch in range(2)]
    assert not any(torch.equal(one, other) for one, other in itertools.combinations(parts, 2))


def test_an_error_in_any_batch_is_the_collectors_and_nobody_is_left_at_work(config):
    done = []

    def work(number):
        if number == 1:
            raise ValueError("broken")
        done.append(number)

    with Hands(3) as several, pytest.raises(ValueError, match="broken"):
        several.each(work)
    assert sorted(done) == [0, 2]


def test_torch_takes_one_thread_in_each_hand_and_all_of_them_afterwards():
    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(2)
        with Hands(2) as both:
            both.each(lambda number: seen.append(torch.get_num_threads()))
        assert seen == [1, 1]
        assert torch.get_num_threads() == 2
        with Hands(1) as one:
            one.each(lambda number: seen.append(torch.get_num_threads()))
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
def test_a_thread_gets_a_batch_of_its_own_where_it_pays(num_envs, agents, threads, sizes):
    assert batch_sizes(num_envs, agents, threads) == sizes


def test_batches_are_opened_with_seeds_of_their_own():
    one, other = open_batches(EnvironmentSettings(name="rps", num_envs=1024), RunSettings(threads=2, seed=5))
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
"""Operations for which the host waits for a device: they bring numbers over, or need them to know a shape."""

LOOK = "aten::is_nonzero"
"""Asking whether anything has ended. A GPU is not asked: it gets to send the table of what has ended, in one piece."""


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
    """Count what the crew waits for, but not what the game does: it is no part of the trainer."""
    watch = Watching()
    step = FakeGame.step

    def unwatched(self, actions):
        with torch.utils._python_dispatch._disable_current_modes():
            return step(self, actions)

    monkeypatch.setattr(FakeGame, "step", unwatched)
    with watch:
        yield watch


@pytest.mark.parametrize("agents_per_side", [(1, 1), (1, 3)])
def test_a_step_waits_for_a_device_once(play, monkeypatch, agents_per_side):
    """One look at what has ended; matches that end, or are cut, add none."""
    game = FakeGame(4, agents_per_side, length=lambda seed: 3, limited=lambda seed: seed % 2 == 0)
    played = play(game=game, environment={"num_envs": 4, "self_play": 0.5}, opponents=[tagged(1.0)])
    (only,), learner = played.collector.crews, played.learner
    rollout, ended = learner.allocate(), 0
    with watching_the_learner(monkeypatch) as watch:
        for t in range(8):
            only.step(rollout, t, learner.rng)
            ended += len(only.ended)
    assert ended == 8
    assert rollout.truncated.any()
    assert rollout.terminated.any()
    assert watch.waits == {LOOK: 8}


def test_a_device_sends_what_has_ended_without_being_asked_first(config, play, monkeypatch):
    """The same as on the host, by the road that a GPU takes."""
    on_host = played_by(config, 1)
    monkeypatch.setattr(crew, "HOST", torch.device("meta"))
    same(on_host, played_by(config, 1))
    played = play(opponents=[tagged(1.0)])
    (only,), learner = played.collector.crews, played.learner
    rollout = learner.allocate()
    with watching_the_learner(monkeypatch) as watch:
        only.step(rollout, 0, learner.rng)
    assert not watch.waits


def test_rollout_and_update_pin_no_memory_and_empty_no_cache(play, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("it costs, and gains nothing")

    monkeypatch.setattr(torch.Tensor, "pin_memory", refuse)
    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    played = play(environment={"self_play": 0.5})
    played.learner.learn(played.collect(), never)
