import dataclasses
import math
from pathlib import Path

import pytest
import torch
from refused import refused
from stubborn import Always

from arena.environments import make
from arena.environments.base import Actions, Observation
from arena.play.runner import play, play_pairs, play_pairs_in
from arena.play.series import play_series, resolve_policy, score_interval
from arena.policies import ActorCritic, Architecture, State, save

ROCK, PAPER, SCISSORS = range(3)


class Remembers:
    """Answers recall's question from a state of its own, which it clears where an episode starts."""

    def initial_state(self, rows: int) -> State:
        return (torch.full((rows,), -1),)

    def act(
        self, observation: Observation, state: State, episode_start: torch.Tensor, rng: torch.Generator
    ) -> tuple[Actions, State]:
        memory = state[0].masked_fill(episode_start, -1)
        cue = observation.values[:, :4]
        memory = torch.where(cue.any(dim=-1), cue.argmax(dim=-1), memory)
        assert bool((memory >= 0).all()), "an episode opened without its flag or its cue"
        return {"answer": torch.where(observation.masks["answer"][:, 0], 0, memory + 1)}, (memory,)


class Careful(Always):
    """Plays where nothing records what it does."""

    def act(
        self, observation: Observation, state: State, episode_start: torch.Tensor, rng: torch.Generator
    ) -> tuple[Actions, State]:
        assert torch.is_inference_mode_enabled()
        return super().act(observation, state, episode_start, rng)


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_sides_are_swapped_on_the_same_seed():
    series = play_series("rps", Always(PAPER), Always(ROCK), matches=5, seed=3)

    assert [match.a_is_home for match in series.matches] == [True, False, True, False, True]
    seeds = [match.seed for match in series.matches]
    assert seeds[0] == seeds[1]
    assert seeds[2] == seeds[3]
    assert len(set(seeds)) == 3


def test_scores_are_those_of_the_first_player_on_either_side():
    series = play_series("rps", Always(PAPER), Always(ROCK), matches=4, seed=3)

    assert [match.score for match in series.matches] == pytest.approx([0.5 + 2 / 6] * 4)
    assert series.score == pytest.approx(0.5 + 2 / 6)
    assert series.reasons == {"choice": 4}
    assert series.decisions == 4


@pytest.mark.holds("B2")
def test_matches_are_played_in_inference_mode():
    assert len(play_series("rps", Careful(PAPER), Careful(ROCK), matches=2, seed=3).matches) == 2


def test_every_seed_is_played_once_and_answered_in_order(rng: torch.Generator):
    seeds = [7, 3, 11, 5, 2, 13, 17]

    results = play("recall", Remembers(), Remembers(), seeds, rng, max_envs=3)

    assert [result.seed for result in results] == seeds
    assert [result.decisions for result in results] == [8] * 7


def test_memory_persists_within_a_match_only(rng: torch.Generator):
    random = resolve_policy("recall", "random")

    results = play("recall", Remembers(), random, list(range(40)), rng, max_envs=4)

    assert {result.score for result in results} == {0.5, 1.0}


def test_match_between_policies_without_chance_is_the_same_in_any_batch(rng: torch.Generator):
    cautious = resolve_policy("mech-duel", "lieutenant")
    seeds = list(range(9))

    together = play("mech-duel", cautious, cautious, seeds, rng, max_envs=9)
    in_turn = play("mech-duel", cautious, cautious, seeds, rng, max_envs=2)

    assert together == in_turn


@pytest.mark.parametrize("environment", ["mech-duel", "mech-pack", "mech-company"])
@pytest.mark.parametrize("other", ["random", "turret"])
def test_lieutenants_beat_passive_policies(environment: str, other: str):
    players = [resolve_policy(environment, name) for name in ("lieutenant", other)]

    assert play_series(environment, *players, matches=40, seed=0).score >= 0.95


def test_lieutenant_that_fires_half_the_time_is_weaker_but_no_pushover():
    players = [resolve_policy("mech-duel", name) for name in ("lieutenant", "lieutenant-half", "turret")]

    assert play_series("mech-duel", *players[:2], matches=60, seed=0).score > 0.6
    assert play_series("mech-duel", *players[1:], matches=60, seed=0).score > 0.9


def test_series_repeats_from_its_seed():
    random = resolve_policy("rps", "random")

    first, second = (play_series("rps", random, random, matches=50, seed=9) for _ in range(2))

    assert first == second
    assert first != play_series("rps", random, random, matches=50, seed=10)


def test_progress_counts_every_match_once(rng: torch.Generator):
    heard: list[int] = []

    play("recall", Remembers(), Remembers(), list(range(10)), rng, max_envs=4, on_finished=heard.append)

    assert sum(heard) == 10


def test_no_seeds_means_no_matches(rng: torch.Generator):
    assert play("rps", Always(ROCK), Always(ROCK), [], rng) == []
    with refused("invalid-input", 0):
        play_series("rps", Always(ROCK), Always(ROCK), matches=0, seed=0)


@pytest.mark.parametrize(
    ("wins", "matches", "low", "high"), [(0.0, 10, 0.0, 0.2775), (1.0, 10, 0.7225, 1.0), (0.5, 100, 0.4038, 0.5962)]
)
def test_interval_is_wilsons(wins: float, matches: int, low: float, high: float):
    assert score_interval(wins, matches) == pytest.approx((low, high), abs=5e-5)


def test_interval_has_its_nominal_coverage():
    matches, chance = 60, 0.9
    covered = sum(
        math.comb(matches, wins) * chance**wins * (1 - chance) ** (matches - wins)
        for wins in range(matches + 1)
        if score_interval(wins / matches, matches)[0] <= chance <= score_interval(wins / matches, matches)[1]
    )

    assert 0.93 < covered < 0.98


def test_unknown_name_error_lists_the_known_names():
    with refused("unknown-policy", "bob", "rps", "random"):
        resolve_policy("rps", "bob")
    with refused("unknown-environment", "chess", "rps"):
        resolve_policy("chess", "random")


def test_checkpoint_plays_by_its_path_and_only_where_it_was_trained(tmp_path: Path):
    spec = make("rps", num_envs=1).spec
    path = tmp_path / "policy.safetensors"
    save(path, ActorCritic(Architecture.of(spec, encoder_sizes=(8,), recurrent_size=8)), spec)

    series = play_series("rps", resolve_policy("rps", str(path)), Always(ROCK), matches=6, seed=0)

    assert len(series.matches) == 6
    other = make("recall", num_envs=1).spec
    with refused("invalid-checkpoint", "rps", spec.signature, other.signature):
        resolve_policy("recall", str(path))


def test_checkpoint_of_a_game_with_other_rules_is_rejected(tmp_path: Path):
    spec = make("rps", num_envs=1).spec
    former = dataclasses.replace(spec, rules={"rock": "beats paper"})
    path = tmp_path / "policy.safetensors"
    save(path, ActorCritic(Architecture.of(former, encoder_sizes=(8,), recurrent_size=8)), former)

    with refused("invalid-checkpoint", "rps", former.signature, spec.signature):
        resolve_policy("rps", str(path))


def test_missing_checkpoint_is_named():
    with refused("invalid-checkpoint", "nowhere.safetensors"):
        resolve_policy("rps", "nowhere.safetensors")


def test_every_match_of_pairs_has_players_of_its_own(rng: torch.Generator):
    rock, paper, scissors = Always(ROCK), Always(PAPER), Always(SCISSORS)
    pairs = [(rock, paper), (paper, rock), (rock, rock), (scissors, rock), (paper, scissors)]
    seeds = [5, 4, 3, 2, 1]

    results = play_pairs("rps", pairs, seeds, rng)

    assert [result.seed for result in results] == seeds
    for (home, away), result in zip(pairs, results, strict=True):
        (alone,) = play("rps", home, away, [result.seed], rng)
        assert result == alone


def test_pairs_are_played_as_well_in_an_environment_that_was_played_in(rng: torch.Generator):
    pairs = [(Always(ROCK), Always(PAPER)), (Always(PAPER), Always(ROCK))]
    env = make("rps", num_envs=2, seed=5)
    for seeds in ([5, 4], [3, 2]):
        assert play_pairs_in(env, pairs, seeds, rng) == play_pairs("rps", pairs, seeds, rng)
    with refused("invalid-input", 1, 2, "rps"):
        play_pairs_in(env, pairs[:1], [1], rng)


def test_pairs_without_a_seed_each_are_refused(rng: torch.Generator):
    with refused("invalid-input", 1, 2):
        play_pairs("rps", [(Always(ROCK), Always(PAPER))], [1, 2], rng)
