"""Which games have unlike sides, and what these are called."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import zoo_games
from gymnasium.spaces import Box, Discrete
from refused import refused

from arena.environments import declare
from arena.environments.adapters.pettingzoo import TwoSided
from arena.environments.adapters.pettingzoo.declare import inspect_game
from arena.environments.adapters.vector import Autoreset, TensorGame
from arena.environments.adapters.vector import declare as tensors
from arena.environments.spec import NAME_MAX, RoundsSpec

PLAIN = declare("rps")


@pytest.mark.parametrize(
    ("game", "sides"),
    [
        ("rps", None),
        ("mech-duel", None),
        ("mech-company", None),
        ("openspiel:kuhn_poker", ("first", "second")),
        ("openspiel:kuhn_poker:rounds=3", ("first", "second")),
        ("pettingzoo:connect_four_v3", ("first", "second")),
        ("pettingzoo:leduc_holdem_v4", None),
        ("pettingzoo:texas_holdem_v4", None),
        ("mpe2:simple_tag_v3", ("3 adversary", "agent")),
        ("magent2:battle_v4(map_size=16)", None),
        ("pettingzoo:knights_archers_zombies_v11", ("2 archer", "2 knight")),
    ],
)
def test_sides_are_unlike_where_spaces_differ_or_one_begins(game: str, sides: tuple[str, str] | None) -> None:
    assert declare(game).unlike_sides == sides


def test_the_order_of_the_agents_of_a_side_does_not_matter() -> None:
    mixed = replace(PLAIN, agents_per_side=(2, 2), roles=("scout", "tank", "tank", "scout"))
    assert mixed.unlike_sides is None
    assert replace(mixed, turn_based=True).unlike_sides == ("first", "second")


def test_a_side_of_several_roles_is_called_by_all_of_them() -> None:
    hunt = replace(PLAIN, agents_per_side=(3, 1), roles=("wolf", "dog", "wolf", "sheep"))
    assert hunt.unlike_sides == ("2 wolf + dog", "sheep")


def test_no_name_is_longer_than_the_league_takes() -> None:
    crowd = replace(PLAIN, agents_per_side=(30, 1), roles=(*(f"specialist {number}" for number in range(30)), "lone"))
    home, _ = crowd.unlike_sides or ("", "")
    assert len(home) == NAME_MAX
    assert home.endswith("...")


RED_AND_BLUE = partial(zoo_games.Duel, Discrete(2), agents=("red", "blue"))
TEAMS = partial(zoo_games.Duel, Discrete(2), agents=("red_0", "red_1", "blue_0", "blue_1"))


@pytest.mark.parametrize("make", [RED_AND_BLUE, TEAMS, partial(zoo_games.Duel, Discrete(2))])
def test_agents_with_equal_spaces_make_symmetric_sides(make: Callable[[], object]) -> None:
    spec = inspect_game("game", TwoSided(make)).spec
    assert spec.alike_sides is True
    assert spec.unlike_sides is None


def test_game_can_declare_asymmetric_sides() -> None:
    plain, unlike = (inspect_game("game", TwoSided(RED_AND_BLUE, alike_sides=alike)).spec for alike in (None, False))
    assert unlike.unlike_sides == ("red", "blue")
    assert unlike.signature == plain.signature, "policies still meet"
    twins = partial(zoo_games.Duel, Discrete(2), agents=("agent_0", "agent_1"))
    assert inspect_game("game", TwoSided(twins, alike_sides=False)).spec.unlike_sides == ("home", "away")


@pytest.mark.parametrize("make", [zoo_games.Relay, zoo_games.Meadow])
def test_sides_that_take_turns_or_have_other_spaces_are_unlike_by_themselves(make: Callable[[], object]) -> None:
    assert inspect_game("game", TwoSided(make)).spec.unlike_sides is not None


@pytest.mark.parametrize("make", [zoo_games.Relay, partial(zoo_games.Duel, Discrete(2))])
def test_declaring_symmetric_sides_keeps_the_signature(make: Callable[[], object]) -> None:
    told, plain = (inspect_game("game", TwoSided(make, alike_sides=alike)).spec for alike in (True, False))
    assert plain.unlike_sides is not None
    assert told.unlike_sides is None
    assert told.signature == plain.signature
    assert RoundsSpec.of("rounds", told, 3).unlike_sides is None


@pytest.mark.parametrize(
    "game",
    [
        TwoSided(zoo_games.Meadow, alike_sides=True),
        TwoSided(zoo_games.Relay, home=["red_0"], away=["red_1", "blue_0", "blue_1"], alike_sides=True),
    ],
)
def test_symmetric_sides_require_equal_agents(game: TwoSided) -> None:
    with refused("invalid-game", "alike_sides"):
        inspect_game("game", game)


def test_symmetric_sides_require_equal_team_sizes() -> None:
    with refused("invalid-game", "agents_per_side", "(2, 1)", "alike_sides"):
        replace(PLAIN, agents_per_side=(2, 1), roles=("player",) * 3, alike_sides=True)


class Still:
    """A game of tensors in which nothing happens."""

    observation_space, action_space = Box(0.0, 1.0, (1,)), Discrete(2)

    def __init__(self, num_envs: int) -> None:
        self.seen = np.zeros((num_envs, 2, 1))

    def reset(self, seed: object, options: object = None) -> np.ndarray:
        return self.seen

    def step(self, actions: object) -> None: ...


@pytest.mark.parametrize(
    ("game", "sides"),
    [
        (TensorGame(Still), None),
        (TensorGame(Still, autoreset=Autoreset.NEXT_STEP), None),
        (TensorGame(Still, turn_based=True), ("first", "second")),
        (TensorGame(Still, turn_based=True, alike_sides=True), None),
        (TensorGame(Still, agents_per_side=(2, 1)), ("2 player", "player")),
        (TensorGame(Still, alike_sides=False), ("home", "away")),
    ],
)
def test_games_of_tensors_have_unlike_sides_where_they_take_turns(game: TensorGame, sides: object) -> None:
    assert tensors.inspect_game("still", game).spec.unlike_sides == sides
