"""Matches of several rounds of a game."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from fake_games import FakeGame
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from stubborn import Always

from arena.environments import RoundsSpec, baselines, declare, make, make_baseline, names
from arena.environments.base import (
    Actions,
    CountsBytes,
    CurriculumEnvironment,
    Environment,
    ItemisedEnvironment,
    Observation,
    ShapedEnvironment,
    supports,
)
from arena.environments.mech.replay.recorder import MechMatches
from arena.environments.wrappers.counting import PURPOSE_ROUND
from arena.environments.wrappers.rounds import Rounds
from arena.play.recording import RecordFirstMatch
from arena.play.runner import play
from arena.play.series import play_series, resolve_policy
from arena.policies import ActorCritic, Architecture, save
from arena.seeding import derive

E = 6
KUHN, LEDUC = "openspiel:kuhn_poker", "openspiel:leduc_poker"
ROCK, PAPER, SCISSORS = range(3)


def random_actions(env: Environment, observation: Observation, rng: torch.Generator) -> Actions:
    rows = observation.side(slice(0, env.spec.num_agents))
    actions, _ = make_baseline(env.spec.name, "random").act(rows, (), ~rows.active, rng)
    return {name: action.unflatten(0, (env.num_envs, -1)) for name, action in actions.items()}


def assert_same(one: Observation, other: Observation) -> None:
    assert torch.equal(one.values, other.values)
    assert torch.equal(one.active, other.active)
    assert all(torch.equal(mask, other.masks[name]) for name, mask in one.masks.items())


@pytest.mark.parametrize("game", [KUHN, LEDUC, "recall", "rps"])
@given(seed=st.integers(0, 2**63 - 1))
@settings(max_examples=5, deadline=None)
def test_one_round_equals_the_game_except_for_the_margin(game: str, seed: int):
    plain, rounds = make(game, num_envs=E, seed=seed), make(f"{game}:rounds=1", num_envs=E, seed=seed)
    rng, observation = torch.Generator().manual_seed(seed), plain.reset()
    assert_same(observation, rounds.reset())
    for _ in range(3 * plain.spec.max_decisions):
        actions = random_actions(plain, observation, rng)
        one, other = plain.step(actions), rounds.step(actions)
        assert_same(one.observation, other.observation)
        assert_same(one.final_observation, other.final_observation)
        for name in ("reward", "terminated", "truncated", "ended", "over"):
            assert torch.equal(getattr(one, name), getattr(other, name)), name
        assert torch.equal((one.outcome.score - 0.5).sign(), 2.0 * (other.outcome.score - 0.5))
        assert torch.equal(one.outcome.decisions, other.outcome.decisions)
        assert torch.equal(plain.seeds, rounds.seeds)
        assert torch.equal(plain.next_seeds, rounds.next_seeds)
        observation = one.observation


@pytest.mark.parametrize("game", [KUHN, LEDUC, "rps"])
@given(rounds=st.integers(1, 5), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=5, deadline=None)
def test_round_seeds_derive_from_the_match_seed(game: str, rounds: int, seed: int):
    """Kept by hand beside it: which round every row is in, home's returns, which are whole numbers, and decisions."""
    matches, plain = make(f"{game}:rounds={rounds}", num_envs=E, seed=seed), make(game, num_envs=E)
    rng, observation = torch.Generator().manual_seed(seed), matches.reset()
    plain.reset(matches.seeds)
    number, returns, decisions = [0] * E, [0.0] * E, [0] * E
    ended_matches = 0
    for _ in range(3 * matches.spec.max_decisions):
        for row, played in enumerate(number):
            follows = derive(derive(int(matches.seeds[row]), PURPOSE_ROUND), played + 1)
            plain.next_seeds[row] = int(matches.next_seeds[row]) if played + 1 == rounds else follows
        actions = random_actions(plain, observation, rng)
        one, other = plain.step(actions), matches.step(actions)
        assert_same(one.observation, other.observation)
        assert torch.equal(one.reward, other.reward)
        assert torch.equal(one.terminated, other.terminated)
        for row in range(E):
            returns[row] += float(one.reward[row, 0])
            decisions[row] += 1
            assert other.outcome.decisions[row] == decisions[row]
            number[row] += int(one.ended[row])
            assert other.over[row] == (number[row] == rounds)
            if not other.over[row]:
                continue
            assert other.outcome.score[row] == (1.0 if returns[row] > 0 else 0.0 if returns[row] < 0 else 0.5)
            assert matches.spec.reasons[other.outcome.reason[row]] == ("points" if returns[row] else "level")
            number[row], returns[row], decisions[row] = 0, 0.0, 0
            ended_matches += 1
        observation = other.observation
    assert ended_matches >= 3 * E


def test_next_seed_opens_the_next_match_and_no_round_before_it():
    env = make("rps:rounds=3", num_envs=2, seed=1)
    env.reset(torch.tensor([7, 8]))
    play_rock = {"choice": torch.zeros(2, 2, dtype=torch.int64)}
    env.step(play_rock)
    env.next_seeds[1] = 99
    drawn = int(env.next_seeds[0])
    assert env.step(play_rock).over.tolist() == [False, False]
    assert env.seeds.tolist() == [7, 8]
    assert env.step(play_rock).over.tolist() == [True, True]
    assert env.seeds.tolist() == [drawn, 99]
    assert 99 not in env.next_seeds.tolist()


def test_reset_forgets_the_rounds_that_were_played():
    env = make("rps:rounds=2", num_envs=1)
    home_wins = {"choice": torch.tensor([[PAPER, ROCK]])}
    env.reset()
    env.step(home_wins)
    env.reset()
    draw = env.step({"choice": torch.tensor([[ROCK, ROCK]])})
    assert not draw.over.any()
    step = env.step({"choice": torch.tensor([[ROCK, PAPER]])})
    assert step.over.all()
    assert (step.outcome.score.item(), step.outcome.decisions.item()) == (0.0, 2)


def in_rounds(game: FakeGame, rounds: int) -> Environment:
    return Rounds(game, RoundsSpec.of(f"fake:rounds={rounds}", game.spec, rounds), seed=0)


def test_limit_that_cuts_a_round_does_not_end_the_match():
    """Every round is cut off by the limit after 2 decisions."""
    env = in_rounds(FakeGame(2, length=lambda seed: 2, limited=lambda seed: True), 3)
    env.reset()
    idle = {"move": torch.zeros(2, 2, 2), "switch": torch.zeros(2, 2, 2).bool(), "choice": torch.zeros(2, 2).long()}
    steps = [env.step(idle) for _ in range(6)]
    assert [step.truncated.all().item() for step in steps] == [False, True] * 3
    assert [step.over.all().item() for step in steps] == [False] * 5 + [True]
    assert not any(step.terminated.any() for step in steps)


def test_rounds_forward_optional_capabilities():
    duel, cards = make("mech-duel:rounds=2", num_envs=2), make(f"{KUHN}:rounds=2", num_envs=2)
    plain = make("mech-duel", num_envs=2)

    for kind in (ItemisedEnvironment, ShapedEnvironment, CurriculumEnvironment):
        assert supports(duel, kind)
        assert not supports(cards, kind)
    assert duel.component_names == plain.component_names
    assert duel.shaping_gamma == plain.shaping_gamma
    assert supports(duel, CountsBytes)
    assert duel.shared_bytes == plain.shared_bytes
    assert duel.own_bytes > plain.own_bytes
    assert not isinstance(duel, MechMatches), "a recording of mechs shows one round"


@pytest.mark.parametrize("game", names())
def test_rounds_are_declared_as_the_game_but_for_the_match(game: str):
    plain, match = declare(game), declare(f"{game}:rounds=20")

    others = {"name", "max_decisions", "reasons"}
    assert {field.name for field in fields(plain) if getattr(plain, field.name) != getattr(match, field.name)} == others
    assert match.signature == plain.signature
    assert match.max_decisions == 20 * plain.max_decisions
    assert baselines(match.name) == baselines(game)


@pytest.mark.parametrize("count", ["0", "1001", "-1", "020", "2.5", "", "ten", "²", "2:rounds=3", "9" * 5000])
def test_invalid_number_of_rounds_is_rejected(count: str):
    for ask in (declare, lambda name: make(name, num_envs=1), lambda name: make_baseline(name, "random")):
        with refused("unknown-environment", 1, "1,000", "rps:rounds=20"):
            ask(f"rps:rounds={count}")
    assert baselines(f"rps:rounds={count}") == baselines("rps")


def test_rounds_of_an_unknown_game_are_refused_with_the_known_ones():
    with refused("unknown-environment", "chess"):
        declare("chess:rounds=3")


def test_matches_of_rounds_are_paired_and_swapped_and_last_as_long_as_all_rounds():
    series = play_series("rps:rounds=5", Always(PAPER), Always(ROCK), matches=4, seed=3)

    assert [match.score for match in series.matches] == [1.0] * 4
    assert [match.a_is_home for match in series.matches] == [True, False, True, False]
    assert [match.decisions for match in series.matches] == [5] * 4
    assert series.matches[0].seed == series.matches[1].seed != series.matches[2].seed
    assert series.reasons == {"points": 4}
    assert play_series("rps:rounds=5", Always(ROCK), Always(ROCK), matches=2, seed=3).reasons == {"level": 2}


def test_rounds_are_the_same_in_any_batch():
    """Players without chance: what differs between rounds is the game's."""
    policy, seeds = Remembers(), list(range(9))
    rng = torch.Generator().manual_seed(0)

    together = play("recall:rounds=3", policy, resolve_policy("recall", "random"), seeds, rng, max_envs=9)
    assert {result.decisions for result in together} == {24}
    in_turn = [play("recall:rounds=3", policy, policy, seeds, rng, max_envs=size) for size in (9, 2)]
    assert in_turn[0] == in_turn[1]


class Remembers:
    """Answers recall's question, and finds its memory cleared whenever a round opens."""

    def initial_state(self, rows: int) -> tuple[torch.Tensor, ...]:
        return (torch.full((rows,), -1),)

    def act(
        self, observation: Observation, state: tuple[torch.Tensor, ...], episode_start: torch.Tensor, rng: object
    ) -> tuple[Actions, tuple[torch.Tensor, ...]]:
        cue = observation.values[:, :4]
        assert torch.equal(cue.any(dim=-1), episode_start), "a cue is shown where an episode opens"
        memory = torch.where(episode_start, cue.argmax(dim=-1), state[0])
        return {"answer": torch.where(observation.masks["answer"][:, 0], 0, memory + 1)}, (memory,)


def test_recording_of_a_match_holds_all_of_its_rounds():
    watcher = RecordFirstMatch()
    series = play_series(f"{KUHN}:rounds=4", *players(KUHN), matches=2, seed=5, watcher=watcher)

    recording = watcher.finish(("one", "other"))
    assert recording.header.environment == f"{KUHN}:rounds=4"
    assert recording.header.seed == series.matches[0].seed
    assert len(recording.steps) == recording.header.outcome.decisions == series.matches[0].decisions >= 8
    paid = [step.rewards[0] for step in recording.steps if any(step.rewards)]
    assert len(paid) == 4, "nobody leaves a round of Kuhn poker with what it came with"
    assert recording.header.outcome.score == (sum(paid) > 0) + 0.5 * (sum(paid) == 0)


def players(game: str) -> list[object]:
    return [make_baseline(game, "random"), make_baseline(game, "random")]


def test_weights_of_rounds_play_the_game_and_the_other_way_round(tmp_path: Path):
    for trained, played in ((f"{KUHN}:rounds=20", KUHN), (KUHN, f"{KUHN}:rounds=20")):
        spec, path = declare(trained), tmp_path / f"{len(trained)}.safetensors"
        save(path, ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)

        policy = resolve_policy(played, str(path))

        assert policy.environment == trained
        assert len(play_series(played, policy, make_baseline(played, "random"), matches=2, seed=0).matches) == 2
