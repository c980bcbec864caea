"""Games of the PettingZoo interface are what they are without the adapter."""

import sys
from dataclasses import dataclass

import broken_walks
import numpy as np
import pytest
import torch
import zoo_games
from refused import refused
from torch import Tensor

from arena.environments import declare, make
from arena.environments.adapters.pettingzoo import HigherReturn, ReturnMargin, TwoSided
from arena.environments.adapters.pettingzoo.declare import inspect_game
from arena.environments.adapters.pettingzoo.library import find_game
from arena.environments.adapters.sides import END, LIMIT
from arena.environments.base import Observation, StepResult
from arena.play.series import play_series
from arena.policies.scripted import RandomPolicy

CONNECT_FOUR, TIC_TAC_TOE, TAG = "pettingzoo:connect_four_v3", "pettingzoo:tictactoe_v3", "mpe2:simple_tag_v3"
RELAY, MEADOW = "zoo_games:relay", "zoo_games:meadow"
PLAIN = {
    CONNECT_FOUR: find_game(CONNECT_FOUR).make,
    TIC_TAC_TOE: find_game(TIC_TAC_TOE).make,
    TAG: find_game(TAG).make,
    RELAY: zoo_games.Relay,
    MEADOW: zoo_games.Meadow,
}


@dataclass(frozen=True)
class Decision:
    """One decision of a match: the seed that opened it, what was seen, what was done (by agent), what came of it."""

    seed: int
    seen: Observation
    actions: dict[str, Tensor]
    step: StepResult


def play_matches(name: str, matches: int) -> list[list[Decision]]:
    """Play matches at random, one after the other."""
    env = make(name, num_envs=1, seed=4)
    rng, player = torch.Generator().manual_seed(0), RandomPolicy(env.spec.heads)
    observation, played = env.reset(), [[]]
    while len(played) <= matches:
        rows, seed = observation.side(slice(0, env.spec.num_agents)), int(env.seeds[0])
        actions, _ = player.act(rows, (), rows.active, rng)
        step = env.step({head: action.unsqueeze(0) for head, action in actions.items()})
        played[-1].append(Decision(seed, observation.rows(torch.tensor([0])), actions, step))
        observation = step.observation
        if bool(step.ended):
            played.append([])
    return played[:-1]


def seats_of(name: str) -> tuple[list[str], int]:
    """Agents in the adapter's order, and how many play at home."""
    declared = declare(name)
    return list(declared.rules["agents"]), declared.agents_per_side[0]


def flat(observation, away: bool) -> Tensor:
    """What the adapter makes of an observation that is one array, or one beside a mask."""
    told = observation["observation"] if isinstance(observation, dict) else observation
    return torch.tensor([*np.ravel(told).astype(np.float32), float(away)])


def expected_score(returns: dict[str, float], name: str) -> float:
    seats, home = seats_of(name)
    sides = [np.mean([returns[each] for each in side]) for side in (seats[:home], seats[home:])]
    return (ReturnMargin(200.0) if name == TAG else HigherReturn()).score(*sides)


@pytest.mark.parametrize("name", [CONNECT_FOUR, TIC_TAC_TOE, RELAY])
def test_sequential_games_are_those_of_the_plain_loop(name: str):
    """The same actions in the loop of PettingZoo's documentation: all that is seen and paid, and how it ends."""
    plain, (seats, home) = PLAIN[name](), seats_of(name)
    for match in play_matches(name, 4):
        plain.reset(seed=match[0].seed & (2**31 - 1))
        decisions, paid, returns = iter(match), torch.zeros(len(seats)), dict.fromkeys(seats, 0.0)
        for agent in plain.agent_iter():
            observation, reward, terminated, truncated, info = plain.last()
            number = seats.index(agent)
            returns[agent] += reward
            assert float(paid[number]) == pytest.approx(reward), "all that the agent was paid since its last turn"
            paid[number] = 0.0
            if terminated or truncated:
                assert match[-1].step.truncated.item() is (truncated and not terminated) or agent == "blue_0"
                plain.step(None)
                continue
            decision = next(decisions)
            values, active = decision.seen.values[0], decision.seen.active[0]
            assert active.tolist() == [each == number for each in range(len(seats))]
            assert torch.equal(values[number], flat(observation, number >= home))
            assert not values[~active].any()
            mask = observation["action_mask"] if isinstance(observation, dict) else info["action_mask"]
            assert decision.seen.masks["action"][0, number].tolist() == [bool(each) for each in mask]
            assert not decision.seen.masks["action"][0, ~active].any()
            plain.step(int(decision.actions["action"][number]))
            paid += decision.step.reward[0]
        assert next(decisions, None) is None
        assert float(match[-1].step.outcome.score) == expected_score(returns, name)
        assert int(match[-1].step.outcome.decisions) == len(match)


def test_parallel_games_are_those_of_the_plain_loop():
    plain, (seats, home) = PLAIN[TAG](), seats_of(TAG)
    for match in play_matches(TAG, 2):
        observations, _ = plain.reset(seed=match[0].seed & (2**31 - 1))
        returns = dict.fromkeys(seats, 0.0)
        for decision in match:
            assert decision.seen.active.all()
            for number, agent in enumerate(seats):
                place = slice(0, 16) if number < home else slice(16, 30)
                seen = decision.seen.values[0, number]
                assert torch.equal(seen[place], torch.from_numpy(observations[agent]))
                assert seen[-1] == (number >= home)
                assert int((seen != 0).sum()) <= (place.stop - place.start) + 1, "nothing in the places of other roles"
            taken = {agent: int(decision.actions["action"][number]) for number, agent in enumerate(seats)}
            observations, rewards, _, _, _ = plain.step(taken)
            assert decision.step.reward[0].tolist() == pytest.approx([rewards[each] for each in seats])
            returns = {each: returns[each] + rewards[each] for each in seats}
        assert not plain.agents
        last = match[-1].step
        assert bool(last.truncated), "the time is up"
        assert last.final_observation.active.all(), "it would have gone on for everybody"
        assert torch.equal(last.final_observation.values[0, -1, 16:30], torch.from_numpy(observations[seats[-1]]))
        assert float(last.outcome.score) == pytest.approx(expected_score(returns, TAG), abs=1e-6)


def test_agents_with_different_spaces_are_padded_and_masked():
    spec = declare(MEADOW)
    assert spec.roles == ("wolf", "wolf", "sheep")
    assert [(block.name, block.shape, block.low, block.high) for block in spec.observation] == [
        ("wolf.hunger", (3,), 0.0, 1.0),
        ("wolf.picture", (2, 2, 1), 0.0, 255.0),
        ("sheep.observation", (3,), -np.inf, np.inf),
        ("away", (1,), 0.0, 1.0),
    ]
    (head,) = spec.heads
    assert (head.size, head.masked) == (4, True)
    opening = play_matches(MEADOW, 1)[0][0].seen
    assert opening.values[0, :2, :3].tolist() == [[1.0, 0.0, 0.0]] * 2, "one-hot of the first of three values"
    assert opening.values[0, 0, 3:7].max() > 1.0, "pictures are left in their own range"
    assert opening.masks["action"][0].tolist() == [[True] * 4, [True] * 4, [True, True, False, False]]


def test_agents_that_leave_are_inactive_until_the_match_ends():
    for match in play_matches(MEADOW, 3):
        assert [decision.seen.active[0].tolist() for decision in match] == [[True] * 3] * 2 + [[True, False, True]] * 3
        assert not match[2].seen.values[0, 1].any()
        last, limited = match[-1].step, bool((match[0].seed & (2**31 - 1)) % 2)
        assert (bool(last.truncated), bool(last.terminated)) == (limited, not limited)
        assert last.final_observation.active[0].tolist() == [limited, False, limited]
        assert int(last.outcome.reason) == (LIMIT if limited else END)


@pytest.mark.parametrize(("name", "longest"), [("zoo_games:short_relay", 6), ("zoo_games:short_meadow", 3)])
def test_a_match_is_cut_off_at_its_declared_length(name: str, longest: int):
    assert declare(name).max_decisions == longest
    for match in play_matches(name, 2):
        last = match[-1].step
        assert len(match) == longest
        assert bool(last.truncated)
        assert not bool(last.terminated)
        assert bool(last.final_observation.active[0, 0])
        assert last.final_observation.values[0, 0].any()


def test_pending_rewards_are_paid_at_truncation():
    """Every decision pays a tenth of itself to the mover and all of itself to each of three others."""
    for match in play_matches("zoo_games:short_relay", 2):
        paid = sum(float(decision.step.reward.sum()) for decision in match)
        mover = [int(decision.seen.active[0].nonzero()) for decision in match]
        taken = [int(decision.actions["action"][agent]) + 1 for decision, agent in zip(match, mover, strict=True)]
        assert paid == pytest.approx(3.1 * sum(taken), rel=1e-5)


def test_choices_of_every_kind_reach_the_game_as_its_spaces_have_them():
    for name, kinds in {
        "zoo_games:box": [("action", "gaussian", 2)],
        "zoo_games:multi_discrete": [("action_0", "categorical", 2), ("action_1", "categorical", 5)],
        "zoo_games:multi_binary": [("action", "bernoulli", 3)],
    }.items():
        env = make(name, num_envs=2)
        assert [(head.name, head.kind, head.size) for head in env.spec.heads] == kinds
        env.reset()
        for sign in (-1.0, 1.0):
            env.step(
                {
                    head.name: torch.full((2, 2, head.size), sign)
                    if head.kind == "gaussian"
                    else torch.full((2, 2, head.size), sign > 0)
                    if head.kind == "bernoulli"
                    else torch.full((2, 2), head.size - 1 if sign > 0 else 0)
                    for head in env.spec.heads
                }
            )
        low, high = (done["left"] for done in env._stepper._rows._matches[0][2]._env.done)
        expected = {
            "zoo_games:box": ([0.0, -2.0], [10.0, 2.0]),
            "zoo_games:multi_discrete": ([0, 1], [1, 5]),
            "zoo_games:multi_binary": ([0, 0, 0], [1, 1, 1]),
        }[name]
        assert (low.tolist(), high.tolist()) == expected


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "zoo_games:three_sides",
            (3, "a_0", "b_0", "c_0"),
        ),
        ("mpe2:simple_spread_v3", (3, "agent_0", "agent_1", "agent_2")),
        ("zoo_games:unbounded", ("Box", "-inf", "inf")),
        ("zoo_games:texts", ("Text",)),
        ("zoo_games:whole_numbers", ("Box", "int64", "MultiDiscrete")),
        ("zoo_games:number", ("zoo_games:number", "PettingZoo", "TwoSided")),
        (
            "pathlib:PurePosixPath",
            ("PurePosixPath", "PettingZoo", "possible_agents"),
        ),
    ],
)
def test_unsupported_environment_is_rejected(name: str, values: tuple):
    with refused("invalid-game", *values):
        declare(name)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "pettingzoo:chess",
            ("chess", "connect_four_v3"),
        ),
        ("pettingzoo:connect_four_v3(b=1,a=2)", ("pettingzoo:connect_four_v3(a=2,b=1)",)),
        ("pettingzoo:connect_four_v3(1)", ("pettingzoo:connect_four_v3(1)",)),
        ("pettingzoo:connect_four_v3(a=", ("pettingzoo:connect_four_v3(a=",)),
        ("nopackage.nogame:make", ("nopackage.nogame",)),
        ("zoo_games:nothing", ("zoo_games", "nothing")),
    ],
)
def test_unknown_pettingzoo_names_are_rejected(name: str, values: tuple):
    with refused("unknown-environment", *values):
        declare(name)


@pytest.mark.parametrize(("cycles", "decisions"), [(7, 7), (0, 1000), (-1, 1000), (None, 1000), (np.inf, 1000)])
def test_a_game_that_names_no_longest_match_has_the_usual_one(cycles: object, decisions: int):
    game = type("Wandering", (broken_walks.Walk,), {"max_cycles": cycles})
    assert inspect_game("walk", TwoSided(game)).spec.max_decisions == decisions


def test_parameters_reach_the_game_and_are_part_of_its_name():
    assert declare("mpe2:simple_tag_v3(max_cycles=7,num_adversaries=2)").max_decisions == 7
    assert declare("mpe2:simple_tag_v3(max_cycles=7,num_adversaries=2)").agents_per_side == (2, 1)
    with refused("invalid-game", "size"):
        declare("mpe2:simple_tag_v3(size=7)")


def test_missing_package_error_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mpe2", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with refused("missing-package", "mpe2", "echelon-league[mpe2]"):
        find_game(TAG)


@pytest.mark.parametrize(
    ("home", "away"), [(["wolf_0"], ["sheep_0"]), (["wolf_0", "wolf_1", "sheep_0"], []), (["fox_0"], ["sheep_0"])]
)
def test_a_mapping_names_every_agent_once(home: list[str], away: list[str]):
    with refused("invalid-game", "wolf_0", "wolf_1", "sheep_0"):
        inspect_game("meadow", TwoSided(zoo_games.Meadow, home=home, away=away))


def test_illegal_choices_are_refused_before_anything_is_played():
    env = make(TIC_TAC_TOE, num_envs=2)
    env.reset()
    env.step({"action": torch.full((2, 2), 4)})
    with refused("invalid-action", 1, 4, "action", 0):
        env.step({"action": torch.tensor([[4, 0], [4, 4]])})
    with refused("invalid-action", 9, "action", 0):
        env.step({"action": torch.tensor([[4, 9], [4, 4]])})
    step = env.step({"action": torch.tensor([[4, 0], [-7, 0]])})
    assert step.outcome.decisions.tolist() == [2, 2], (
        "what is refused is not played, and whoever waits may say anything"
    )


def test_scores_follow_returns():
    assert [HigherReturn().score(*returns) for returns in ((1.0, -1.0), (0.0, 0.5), (0.3, 0.1 + 0.2))] == [
        1.0,
        0.0,
        0.5,
    ]
    margin = ReturnMargin(10.0)
    assert [margin.score(*returns) for returns in ((0.0, 0.0), (5.0, 0.0), (-40.0, 0.0))] == [0.5, 0.75, 0.0]
    with refused("invalid-input", "ReturnMargin", 0):
        ReturnMargin(0.0)


def test_matches_are_played_by_name_and_in_rounds():
    random = RandomPolicy(declare(TIC_TAC_TOE).heads)
    series = play_series(f"{TIC_TAC_TOE}:rounds=3", random, random, matches=4, seed=0)
    assert set(series.reasons) <= {"points", "level"}
    assert all(15 <= match.decisions <= 27 for match in series.matches)


def test_signature_covers_spaces_and_parameters():
    names = ("zoo_games:short_meadow", MEADOW)
    assert len({declare(name).signature for name in names}) == 2
    scorings = (HigherReturn(), ReturnMargin(1.0), ReturnMargin(2.0))
    specs = [inspect_game("relay", TwoSided(zoo_games.Relay, scoring=scoring)).spec for scoring in scorings]
    assert len({spec.signature for spec in specs}) == 3
