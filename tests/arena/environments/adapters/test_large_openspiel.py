"""OpenSpiel's games that are too large for tables are those of OpenSpiel, one match at a time."""

from collections.abc import Iterator

import numpy as np
import pyspiel
import pytest
import torch
from refused import refused

from arena.environments import declare, make, make_baseline
from arena.environments.adapters.openspiel import declare as layout
from arena.environments.adapters.openspiel.library import TooLargeForTablesError, load_game
from arena.environments.adapters.openspiel.probe import probe_game
from arena.environments.adapters.openspiel.tabular_env import TabularGameEnv
from arena.environments.adapters.openspiel.tree import AWAY, HOME
from arena.environments.adapters.subprocess.env import SyncBatch
from arena.play.series import play_series

CONNECT_FOUR, GOOFSPIEL, ZUMO = "openspiel:connect_four", "openspiel:goofspiel", "openspiel:oshi_zumo"
BACKGAMMON, LIARS_DICE = "openspiel:backgammon", "openspiel:liars_dice(numdice=3)"
LARGE = [CONNECT_FOUR, GOOFSPIEL, ZUMO, BACKGAMMON, LIARS_DICE]
E = 4


def acting(state: pyspiel.State) -> list[int]:
    if state.is_terminal():
        return []
    return [HOME, AWAY] if state.is_simultaneous_node() else [state.current_player()]


def told(state: pyspiel.State, side: int) -> list[float]:
    kind = state.get_game().get_type()
    return (state.information_state_tensor if kind.provides_information_state_tensor else state.observation_tensor)(
        side
    )


class Chance:
    """Follows an environment's match: what chance did is what makes OpenSpiel show what the environment shows."""

    def __init__(self, name: str) -> None:
        self.ways = [load_game(name).new_initial_state()]

    def settle(self, values: np.ndarray, active: np.ndarray) -> None:
        """Keep the ways that chance may have gone by what is seen now."""
        ahead, here = self.ways, []
        while ahead:
            state = ahead.pop()
            if state.is_chance_node():
                ahead += [state.child(outcome) for outcome, _ in state.chance_outcomes()]
            elif acting(state) == np.flatnonzero(active).tolist() and all(
                np.array_equal(np.float32(told(state, side)), values[side, :-1]) for side in acting(state)
            ):
                here.append(state)
        self.ways = here[:20]  # more deals than that look alike to who acts, and differ in nothing that is checked here
        assert here, "nothing in OpenSpiel looks like this"

    def act(self, actions: list[int]) -> None:
        for state in self.ways:
            if state.is_simultaneous_node():
                state.apply_actions(actions)
            else:
                state.apply_action(actions[state.current_player()])


@pytest.mark.parametrize("name", [CONNECT_FOUR, GOOFSPIEL, ZUMO])
def test_matches_are_those_that_openspiel_plays(name: str):
    env, rng = make(name, num_envs=1, seed=3), torch.Generator().manual_seed(0)
    player, observation, ends = make_baseline(name, "random"), env.reset(), 0
    follower = Chance(name)
    for _ in range(60):
        follower.settle(observation.values[0].numpy(), observation.active[0].numpy())
        for side in (HOME, AWAY):
            state = follower.ways[0]
            legal = state.legal_actions(side) if side in acting(state) else []
            assert observation.masks["action"][0, side].nonzero().flatten().tolist() == legal
            assert observation.values[0, side, -1] == (side == AWAY and side in acting(state))
        flat = observation.side(slice(0, 2))
        chosen = player.act(flat, (), ~flat.active, rng)[0]["action"].view(1, 2)
        step = env.step({"action": chosen})
        follower.act(chosen[0].tolist())
        if bool(step.terminated):
            ends += 1
            state = follower.ways[0]
            assert step.reward[0].tolist() == state.returns()
            assert float(step.outcome.score) == 0.5 + state.returns()[HOME] / 2.0
            assert not step.final_observation.active.any()
            follower = Chance(name)
        else:
            assert not step.reward.any()
        observation = step.observation
    assert ends > 0


def test_which_games_are_played_from_tables_follows_from_their_size():
    assert isinstance(make("openspiel:leduc_poker", num_envs=1), TabularGameEnv)
    for name in LARGE:
        assert isinstance(make(name, num_envs=1), SyncBatch)
    assert not layout.has_tables(BACKGAMMON), "it does not name what players know"


@pytest.fixture
def forgetful() -> Iterator[None]:
    """What is known of games is found out anew, before the test and after it."""
    known = (layout.has_tables, layout.tree_of, layout.declare_openspiel)
    for each in known:
        each.cache_clear()
    yield
    for each in known:
        each.cache_clear()


@pytest.mark.usefixtures("forgetful")
def test_a_game_that_is_larger_than_estimated_is_played_all_the_same(monkeypatch: pytest.MonkeyPatch):
    def unroll(name: str, game: pyspiel.Game) -> None:
        raise TooLargeForTablesError(name)

    monkeypatch.setattr(layout, "unroll", unroll)
    assert isinstance(make("openspiel:kuhn_poker", num_envs=1), SyncBatch)


@pytest.mark.parametrize(("name", "histories"), [("kuhn_poker", 58), ("leduc_poker", 9457), ("tic_tac_toe", 549_946)])
def test_histories_are_estimated_without_counting_them(name: str, histories: int):
    assert probe_game(load_game(f"openspiel:{name}")).histories == pytest.approx(histories, rel=0.5)


def test_sides_wait_for_each_other_in_turns_and_act_together_otherwise():
    for name, in_turns in ((CONNECT_FOUR, True), (LIARS_DICE, True), (GOOFSPIEL, False), (ZUMO, False)):
        env = make(name, num_envs=E)
        assert env.spec.turn_based is in_turns
        assert (env.reset().active.sum(dim=1) == (1 if in_turns else 2)).all()


@pytest.mark.integration
def test_chance_follows_from_the_seed_and_the_number_of_processes_changes_nothing():
    alone, apart = (make(BACKGAMMON, num_envs=E, processes=processes) for processes in (0, 2))
    seeds, player = torch.tensor([5, 6, 5, 6]), make_baseline(BACKGAMMON, "random")
    one, other = alone.reset(seeds), apart.reset(seeds)
    assert torch.equal(one.values[0], one.values[2])
    assert not torch.equal(one.values[0], one.values[1]), "other dice"
    rng = torch.Generator().manual_seed(0)
    for _ in range(30):
        assert torch.equal(one.values, other.values)
        assert torch.equal(one.masks["action"], other.masks["action"])
        flat = one.side(slice(0, 2))
        chosen = {"action": player.act(flat, (), ~flat.active, rng)[0]["action"].view(E, 2)}
        one, other = alone.step(chosen).observation, apart.step(chosen).observation


def test_truncated_match_shows_final_observations_to_both_sides():
    env = make(CONNECT_FOUR, num_envs=1)
    env._stepper._rows._limit = 3
    env.reset()
    for _ in range(3):
        step = env.step({"action": torch.zeros(1, 2, dtype=torch.int64)})
    assert bool(step.truncated)
    assert float(step.outcome.score) == 0.5
    assert env.spec.reasons[int(step.outcome.reason)] == "limit"
    assert step.final_observation.active.all()
    assert step.final_observation.values[0, :, :-1].any(dim=-1).all()


def test_illegal_choices_are_refused_with_the_legal_ones():
    env = make(CONNECT_FOUR, num_envs=1)
    env.reset()
    for _ in range(6):
        env.step({"action": torch.zeros(1, 2, dtype=torch.int64)})
    with refused("invalid-action", 0, "action", 1, 2, 3, 4, 5, 6):
        env.step({"action": torch.zeros(1, 2, dtype=torch.int64)})


def test_large_game_is_rejected_where_tables_are_needed():
    with refused("no-game-tables", "connect_four", "3e+27", "600,000"):
        layout.tree_of(CONNECT_FOUR)
    with refused("no-game-tables", "OpenSpiel"):
        layout.tree_of(BACKGAMMON)
    with refused("invalid-input", "kuhn_poker", 2):
        make("openspiel:kuhn_poker", num_envs=1, processes=2)


def test_they_are_played_by_name():
    random = make_baseline(GOOFSPIEL, "random")
    series = play_series(f"{GOOFSPIEL}:rounds=2", random, random, matches=4, seed=0)
    assert len(series.matches) == 4
    assert declare(GOOFSPIEL).signature != declare("openspiel:goofspiel(num_cards=12)").signature
