import gc
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fake_games import FakeGame, ScriptedDealer, TaggedPolicy, never, tagged
from refused import refused

from arena.environments.base import ItemisedEnvironment, supports
from arena.policies import NetworkPolicy
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import SELF, Opponent
from trainer.process_group import ProcessGroup
from trainer.rollout import collector as collectors
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.collector import RolloutCollector

ROW, DECISION, SEED, AGENT = range(4)


@pytest.mark.holds("B3")
def test_every_entry_of_a_rollout_belongs_to_the_same_decision(play, either_way):
    played = play(sides=1, network=either_way)
    rollout = played.collect()
    rows = torch.arange(3.0)
    for t in range(12):
        observation, reward = rollout.observation[t], rollout.reward[t]
        assert torch.equal(observation[:, ROW], rows)
        assert torch.equal(reward, 1000.0 * rows + 10.0 * observation[:, DECISION])
        assert torch.equal(rollout.episode_start[t], observation[:, DECISION] == 0)
        ended = rollout.terminated[t] | rollout.truncated[t]
        if t < 11:
            assert torch.equal(rollout.episode_start[t + 1], ended)


def test_sampled_actions_are_played_by_the_learners_side(play):
    played = play()
    rollout = played.collect()
    layout = played.learner.network.layout
    side = {row: int(assignment.away) for row, assignment in played.dealer.dealt[:3]}
    moves = layout.to_actions(rollout.raw_action[0])["move"]
    for row in range(3):
        assert torch.equal(played.game.played[0]["move"][row, side[row]], moves[row])


@pytest.mark.holds("J1", "S6")
def test_every_environment_keeps_its_opponent_until_its_own_match_ends(play):
    opponents = [tagged(float(tag)) for tag in range(1, 6)]
    game = FakeGame(4, length=lambda seed: 2 + seed % 5)
    played = play(game=game, opponents=opponents, sides=1, environment={"num_envs": 4})
    for _ in range(3):
        played.collect()
    queues = {row: [a for r, a in played.dealer.dealt if r == row] for row in range(4)}
    position, decision = [0] * 4, [0] * 4
    for actions in game.played:
        for row in range(4):
            assignment = queues[row][position[row]]
            assert actions["move"][row, 1, 0] == assignment.opponent.policy.tag
            decision[row] += 1
            if decision[row] == 2 + assignment.seed % 5:
                position[row], decision[row] = position[row] + 1, 0
    assert sum(position) == len(played.episodes) > 12


@pytest.mark.holds("J2")
def test_results_belong_to_the_opponent_that_played(play):
    played = play(sides=2)
    played.collect()
    dealt = {assignment.seed: (row, assignment) for row, assignment in played.dealer.dealt}
    assert len(played.episodes) > 3
    for episode in played.episodes:
        row, assignment = dealt[episode.assignment.seed]
        assert episode.assignment is assignment
        assert episode.score == assignment.seed % 3 / 2.0
        assert episode.decisions == 2 + assignment.seed % 7
        assert episode.reason == ("limit" if assignment.seed % 2 == 0 else "over")
        agent = int(assignment.away)
        decisions = range(episode.decisions)
        assert episode.mean_return == sum(1000.0 * row + 10.0 * decision + agent for decision in decisions)
        assert episode.learner_score == (1.0 - episode.score if assignment.away else episode.score)


class Pair(ProcessGroup):
    """Two ranks, of which the other one is asked to stop before a number of exchanges."""

    world_size, rank = 2, 0

    def __init__(self, other_stops_at):
        self.exchanges, self.other_stops_at = 0, other_stops_at

    def all_gather(self, values):
        raise NotImplementedError

    def all_reduce_sum(self, values):
        self.exchanges += 1
        return values + float(self.exchanges >= self.other_stops_at)


@pytest.mark.parametrize(
    ("own_decision", "other_exchange", "decisions", "exchanges"),
    [(99, 99, 12, 3), (99, 2, 4, 2), (5, 99, 8, 3), (8, 99, 8, 3), (0, 99, 0, 1)],
)
def test_ranks_stop_together_and_exchange_once_per_chunk(play, own_decision, other_exchange, decisions, exchanges):
    """Chunks of 4 steps: a rank that stopped alone would leave the others waiting forever."""
    played, ranks = play(sides=1), Pair(other_exchange)
    game = FakeGame(3)
    collector = RolloutCollector(
        [game],
        played.learner.network,
        played.dealer,
        played.episodes.append,
        played.learner.rng,
        self_play=frozenset(),
        device_cache_bytes=2**20,
        process_group=ranks,
    )
    filled = collector.collect(played.rollout, lambda: len(game.played) >= own_decision)
    assert (filled, len(game.played), ranks.exchanges) == (decisions == 12, decisions, exchanges)


class Failing(ScriptedDealer):
    """Fails after `count` matches."""

    def __init__(self, opponents, count):
        super().__init__(opponents)
        self.count = count

    def next_match(self, row):
        if len(self.dealt) == self.count:
            raise OSError("no more")
        return super().next_match(row)


def test_if_the_match_source_fails_every_match_is_either_pending_or_reported(play):
    """The saved state must neither repeat a reported match nor lose one."""
    for count in range(8, 12):
        played = play(sides=1)
        dealer = Failing(played.dealer.opponents, count)
        collector = RolloutCollector(
            [FakeGame(3)],
            played.learner.network,
            dealer,
            played.episodes.append,
            played.learner.rng,
            self_play=frozenset(),
            device_cache_bytes=2**20,
        )
        with pytest.raises(OSError, match="no more"):
            collector.collect(played.rollout, never)
        assigned = [episode.assignment for episode in played.episodes]
        pending = [each for row in collector.pending for each in row]
        assert sorted(each.seed for each in assigned + pending) == list(range(count))


class Itemised(FakeGame):
    """Says that rewards are row, decision and number of the agent."""

    component_names = ("row", "decision", "agent")

    def step(self, actions):
        shape = (self.num_envs, self.spec.num_agents)
        parts = (1000.0 * torch.arange(self.num_envs), 10.0 * self.decision)
        agents = torch.arange(self.spec.num_agents).expand(shape)
        self.components = torch.stack([*(part.unsqueeze(1).expand(shape) for part in parts), agents], dim=-1).float()
        return super().step(actions)

    components = torch.zeros(0)


@pytest.mark.parametrize("agents_per_side", [(1, 1), (2, 2), (1, 3)])
def test_reward_components_add_up_to_the_mean_return(play, agents_per_side):
    played = play(game=Itemised(3, agents_per_side), environment={"num_envs": 3})
    played.collect()
    assert supports(played.game, ItemisedEnvironment)
    dealt = {assignment.seed: row for row, assignment in played.dealer.dealt}
    assert len(played.episodes) > 3
    for episode in played.episodes:
        agents = range(sum(agents_per_side))[played.game.spec.side(episode.assignment.away)]
        assert list(episode.components) == ["row", "decision", "agent"]
        assert sum(episode.components.values()) == pytest.approx(episode.mean_return)
        assert episode.components["row"] == 1000.0 * dealt[episode.assignment.seed] * episode.decisions
        assert episode.components["agent"] == pytest.approx(episode.decisions * sum(agents) / len(agents))


def test_an_environment_without_itemised_rewards_has_no_components(play):
    played = play()
    played.collect()
    assert not supports(played.game, ItemisedEnvironment)
    assert all(episode.components == {} for episode in played.episodes)


@pytest.mark.holds("J1", "T6")
def test_an_opponents_state_is_reset_at_its_own_episode_start(play):
    opponents = [tagged(float(tag)) for tag in range(1, 4)]
    played = play(opponents=opponents)
    played.collect()
    played.collect()
    calls = [call for opponent in opponents for call in opponent.policy.calls]
    assert len(calls) > 30
    for observation, count, episode_start in calls:
        assert torch.equal(count.squeeze(1), observation.values[:, DECISION])
        assert torch.equal(episode_start, observation.values[:, DECISION] == 0)


@pytest.mark.holds("B4")
def test_the_learners_state_is_reset_for_exactly_the_rows_that_ended(play, either_way):
    """Rows whose episode goes on are bit-equal to a run in which no other row ever ends."""
    lengths = {0: 5, 1: 100, 2: 100}
    games = FakeGame(3, length=lambda seed: lengths.get(seed, 100)), FakeGame(3, length=lambda seed: 100)
    ending, endless = (play(sides=1, game=game, opponents=[tagged(1.0)], network=either_way) for game in games)
    one, other = ending.collect(), endless.collect()
    assert one.terminated[:, 0].any() | one.truncated[:, 0].any()
    for field in ("hidden", "cell", "value"):
        assert torch.equal(getattr(one, field)[:, 1:], getattr(other, field)[:, 1:])
    network, t = ending.learner.network, 5
    assert one.episode_start[t].tolist() == [True, False, False]
    forgetful = network.step(one.observation[t], network.initial_state(3), one.episode_start[t], one.active[t])
    torch.testing.assert_close(one.value[t, 0], forgetful.value[0], rtol=1e-4, atol=1e-5)
    assert not torch.isclose(one.value[t, 1:], forgetful.value[1:]).any()


@pytest.mark.holds("B5")
def test_state_crosses_rollouts_inside_an_episode(play, either_way):
    """Two rollouts of T equal one of 2T."""
    long = play(game=FakeGame(3, length=lambda seed: 9), rollout={"num_steps": 24}, network=either_way)
    short = play(game=FakeGame(3, length=lambda seed: 9), network=either_way)
    whole = long.collect()
    first = {name: tensor.clone() for name, tensor in vars(short.collect()).items()}
    second = vars(short.collect())
    for name in ("value", "log_prob", "raw_action", "observation", "hidden", "episode_start", "final_value"):
        assert torch.equal(torch.cat([first[name], second[name]]), getattr(whole, name)), name


@pytest.mark.holds("B1", "B2", "S2", "S3")
def test_a_rollout_records_no_graph_and_acts_in_inference_mode(play, either_way):
    class Watching(TaggedPolicy):
        def act(self, observation, state, episode_start, rng):
            assert torch.is_inference_mode_enabled()
            return super().act(observation, state, episode_start, rng)

    played = play(opponents=[Opponent("watching", "watching", Watching(1.0))], network=either_way)
    rollout = played.collect()
    assert not played.learner.network.training
    for name, tensor in vars(rollout).items():
        assert not tensor.requires_grad, name
        assert tensor.grad_fn is None, name


@pytest.mark.parametrize("agents_per_side", [(2, 2), (1, 3), (3, 1)])
def test_teams_have_a_row_for_every_agent_and_spare_rows_never_act(play, agents_per_side):
    played = play(agents_per_side, opponents=[tagged(1.0)])
    rollout = played.collect()
    seats = max(agents_per_side)
    assert rollout.reward.shape == (12, 3 * seats)
    sides = {row: int(assignment.away) for row, assignment in played.dealer.dealt[:3]}
    for row in range(3):
        size = agents_per_side[sides[row]]
        first = 0 if sides[row] == 0 else agents_per_side[0]
        assert rollout.active[0].view(3, seats)[row].tolist() == [place < size for place in range(seats)]
        agents = rollout.observation[0].view(3, seats, 4)[row, :size, AGENT]
        assert agents.tolist() == list(range(first, first + size))
        moves = played.game.played[0]["move"][row]
        theirs = [n for n in range(sum(agents_per_side)) if not first <= n < first + size]
        assert (moves[theirs] == 1.0).all()
        mine = played.learner.network.layout.to_actions(rollout.raw_action[0])["move"].view(3, seats, 2)[row, :size]
        assert torch.equal(moves[first : first + size], mine)


def test_a_team_match_is_assigned_and_reported_once_for_all_agents(play):
    played = play((10, 10), environment={"num_envs": 2})
    rollout = played.collect()
    assert rollout.reward.shape == (12, 2 * 10)
    assert len(played.episodes) > 2
    assert len({episode.assignment.sequence for episode in played.episodes}) == len(played.episodes)
    current_and_next = 2 * 2
    assert len(played.dealer.dealt) == current_and_next + len(played.episodes)


def test_stopping_takes_effect_at_the_next_step(play):
    played = play()
    answers = iter([False, False, True])
    assert not played.collector.collect(played.rollout, lambda: next(answers))
    assert len(played.game.played) == 2


@pytest.mark.holds("B3", "G6")
@pytest.mark.parametrize(
    ("field", "change", "values"),
    [
        ("values", lambda values: values[..., :3], ("(3, 2, 3)", "(3, 2, 4)")),
        ("active", lambda active: active[:, 0], ("(3,)", "(3, 2)")),
        (
            "masks",
            lambda masks: masks | {"choice": masks["choice"][..., :2]},
            ("choice", "(3, 2, 2)", "(3, 2, 3)"),
        ),
        (
            "masks",
            lambda masks: {name: mask for name, mask in masks.items() if name != "move"},
            ("move",),
        ),
    ],
)
def test_an_observation_of_the_wrong_shape_is_rejected_with_its_name(play, field, change, values):
    class Wrong(FakeGame):
        def _observe(self):
            observation = super()._observe()
            return replace(observation, **{field: change(getattr(observation, field))})

    with refused("environment-fault", *values):
        play(game=Wrong(3))


@pytest.mark.holds("B3")
@pytest.mark.parametrize(
    ("field", "change", "values"),
    [
        ("reward", lambda reward: reward[:, :1], ("(3, 1)", "(3, 2)")),
        ("reward", lambda reward: reward[:, 0], ("(3,)", "(3, 2)")),
        ("terminated", lambda ended: ended.unsqueeze(1).expand(3, 2), ("(3, 2)", "(3,)")),
        ("truncated", lambda ended: ended[:1], ("(1,)", "(3,)")),
        (
            "final_observation",
            lambda seen: replace(seen, values=seen.values[..., :3]),
            ("(3, 2, 3)", "(3, 2, 4)"),
        ),
    ],
)
def test_a_step_of_the_wrong_shape_is_rejected_with_its_name(play, field, change, values):
    class Wrong(FakeGame):
        def step(self, actions):
            step = super().step(actions)
            object.__setattr__(step, field, change(getattr(step, field)))  # the tests' own check of shapes sees nothing
            return step

    with refused("environment-fault", *values):
        play(game=Wrong(3)).collect()


@pytest.mark.holds("F4")
def test_stored_masks_are_the_environments_and_actions_obey_them(play):
    class Watched(FakeGame):
        def reset(self, seeds=None):
            self.shown = [super().reset(seeds)]
            return self.shown[0]

        def step(self, actions):
            step = super().step(actions)
            self.shown.append(step.observation)
            return step

    game = Watched(3)
    played = play(sides=1, game=game)
    rollout, layout = played.collect(), played.learner.network.layout
    for t in range(12):
        assert torch.equal(rollout.action_mask[t], layout.pack_masks(game.shown[t])[:, 0])
        actions, masks = layout.to_actions(rollout.raw_action[t]), game.shown[t].masks
        assert bool(masks["choice"][:, 0].gather(1, actions["choice"].unsqueeze(1)).all())
        assert not bool((actions["switch"] & ~masks["switch"][:, 0]).any())


@pytest.mark.holds("F3")
def test_an_active_agent_without_a_legal_option_is_rejected_by_head_and_environment(play):
    class Stuck(FakeGame):
        def _masks(self):
            masks = super()._masks()
            masks["choice"][1, 0] &= self.decision[1] != 2
            return masks

    with refused("environment-fault", "choice", 0, 1):
        play(sides=1, game=Stuck(3, length=lambda seed: 100)).collect()


class Strange(FakeGame):
    """Shows or pays an agent of match 2 what is no number, in the third decision; `limited` by its longest match."""

    def __init__(self, what, agent):
        super().__init__(3, length=lambda seed: 3 if what == "final" else 100, limited=lambda seed: True)
        self.what, self.agent = what, agent

    def step(self, actions):
        third = bool(self.decision[2] == 2)
        step = super().step(actions)
        if third:
            shown = step.final_observation if self.what == "final" else step.observation
            place = step.reward[2] if self.what == "reward" else shown.values[2, :, 3]
            place[self.agent] = torch.nan
        return step


@pytest.mark.parametrize("agent", [0, 1], ids=["learner", "opponent"])
@pytest.mark.parametrize(
    ("what", "values"),
    [
        ("seen", ("agent", "match 2", "seed 2", "decision 3")),
        ("final", ("agent", "match 2", "decision 3")),
        ("reward", ("match 2", "seed 2", "decision 3")),
    ],
)
def test_nan_in_an_observation_or_reward_ends_the_run_with_its_name(play, what, values, agent):
    """At once, before the update, on either side."""
    name = ("agent 0 (home, player)", "agent 1 (away, player)")[agent]
    played = play(sides=1, game=Strange(what, agent), opponents=[tagged(1.0)])
    with refused("invalid-game", name, "nan", *values):
        played.collect()


def test_system_exit_in_an_environment_is_reported(play):
    class Leaving(FakeGame):
        def step(self, actions):
            raise SystemExit(0)

    with refused("invalid-game", "SystemExit", "test_collector.py"):
        play(game=Leaving(3)).collect()


@pytest.mark.holds("F3")
def test_an_inactive_agent_needs_no_legal_option(play):
    class Emptied(FakeGame):
        def _masks(self):
            return {name: mask & self._active().unsqueeze(-1) for name, mask in super()._masks().items()}

    rollout = play(sides=1, game=Emptied(3, (2, 2), length=lambda seed: 6)).collect()
    assert not rollout.action_mask[~rollout.active].any()


@pytest.mark.holds("B1")
def test_rollouts_leak_no_tensors(play, either_way):
    """Three matches in each of them, of which every second one is cut off by a limit."""
    opponent = tagged(1.0)
    played = play(sides=1, game=FakeGame(3, length=lambda seed: 4), opponents=[opponent], network=either_way)

    def tensors():
        played.collect()
        played.game.played.clear()
        opponent.policy.calls.clear()
        gc.collect()
        return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

    played.collect()
    gc.collect()
    gc.freeze()  # only what is made from here on is looked through
    try:
        tensors()
        before = tensors()
        assert [tensors() for _ in range(3)] == [before] * 3
    finally:
        gc.unfreeze()


@pytest.mark.holds("B11")
def test_buffer_tensors_are_never_reallocated(play):
    played = play()
    places = {name: tensor.data_ptr() for name, tensor in vars(played.collect()).items()}
    played.collect()
    assert {name: tensor.data_ptr() for name, tensor in vars(played.rollout).items()} == places


def test_self_play_acts_with_the_current_weights(play):
    played = play()
    live = Opponent(SELF, "self", NetworkPolicy(played.learner.network, "fake", played.game.spec.signature))
    state, seen = live.policy.initial_state(3), AgentIndex(played.game.spec, 3, played.game.device).learner
    observation = seen.observe(played.game.reset())
    starts = torch.ones(3, dtype=torch.bool)

    def moves():
        return live.policy.act(observation, state, starts, torch.Generator().manual_seed(1))[0]["move"]

    before = moves()
    with torch.no_grad():
        played.learner.network.actor.bias += 1.0
    assert not torch.equal(before, moves())
    assert MatchAssignment(live, False, 0, None, 0, self_play_match=False).opponent.key == SELF


class OnGPU(torch.Generator):
    """A generator that says that it is a GPU's."""

    device = torch.device("cuda:1")


def test_every_batch_draws_on_the_device_of_the_runs_generator(play, monkeypatch):
    """torch refuses a generator of another device than that of the numbers that it draws."""
    made, drawn = [], []

    def make(device="cpu"):
        made.append(torch.device(device))
        return torch.Generator()

    def draw(*arguments, generator, device="cpu"):
        drawn.append((generator.device, torch.device(device)))
        return torch.randint(*arguments)

    monkeypatch.setattr(collectors, "torch", SimpleNamespace(**vars(torch) | {"Generator": make, "randint": draw}))
    network, games = play().learner.network, [FakeGame(2), FakeGame(1)]
    dealer, rollout = ScriptedDealer([tagged(1.0)]), RolloutBuffer.allocate(network, steps=12, rows=3, bptt_horizon=4)
    collector = RolloutCollector(games, network, dealer, print, OnGPU(), self_play=frozenset(), device_cache_bytes=0)
    assert collector.collect(rollout, never)
    gpu = OnGPU.device
    assert made == [gpu] * 2
    assert drawn == [(gpu, gpu)] * 6, "a seed for each of two batches and three chunks"
