"""OpenSpiel games by name, and checks of which are supported."""

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena.errors import ArenaError, GameError, MissingPackageError, UnknownEnvironmentError

if TYPE_CHECKING:
    from pyspiel import Game, State

PREFIX = "openspiel:"

MAX_STATE_FLOATS = 4096
"""Largest information state tensor, in floats; beyond it the observation tensor is used, if there is one."""


def load_game(name: str) -> "Game":
    """Load `openspiel:GAME` or `openspiel:GAME(PARAMETER=VALUE,...)`.

    Raises:
        ArenaError: OpenSpiel is not installed, or the game is of an unsupported type.
        UnknownEnvironmentError: OpenSpiel has no such game or parameters, or spells them differently.
    """
    pyspiel = _import(name)
    written = name.removeprefix(PREFIX)
    if written.partition("(")[0] not in pyspiel.registered_names():
        raise UnknownEnvironmentError(
            f"OpenSpiel has no game {written!r}: choose a name of pyspiel.registered_names(), such as kuhn_poker"
        )
    try:
        game = pyspiel.load_game(written)
    except pyspiel.SpielError as error:
        raise UnknownEnvironmentError(
            f"OpenSpiel cannot load {written!r} ({error}): write parameters that the game has, without spaces, such as "
            "liars_dice(dice_sides=4)"
        ) from error
    _require_one_spelling(name, game)
    _require_playable(name, game, pyspiel)
    return game


class TooLargeForTablesError(ArenaError):
    """A game is too large for tables and has no exact values."""

    code = "no-game-tables"


def has_information_states(game: "Game") -> bool:
    """Return whether players observe their information state (perfect recall), not only the current observation."""
    kind = game.get_type()
    if not kind.provides_information_state_tensor:
        return False
    return not kind.provides_observation_tensor or game.information_state_tensor_size() <= MAX_STATE_FLOATS


def is_stochastic(game: "Game") -> bool:
    """Return whether the game is stochastic."""
    kind = game.get_type()
    return bool(kind.chance_mode != type(kind).ChanceMode.DETERMINISTIC)


def state_tensor(state: "State", side: int) -> NDArray[np.float32]:
    """Return a side's flat information state or observation tensor."""
    read_tensor = (
        state.information_state_tensor if has_information_states(state.get_game()) else state.observation_tensor
    )
    return np.array(read_tensor(side), dtype=np.float32)


def require_names(name: str, game: "Game") -> None:
    """Check that a game can be unrolled into tables.

    Raises:
        TooLargeForTablesError: OpenSpiel does not name the information states, or the tensors are incomplete.
    """
    kind = game.get_type()
    rules = {
        "OpenSpiel does not name its information states": kind.provides_information_state_string,
        "its information states are incomplete": has_information_states(game)
        or kind.information == type(kind).Information.PERFECT_INFORMATION,
    }
    for reason, satisfied in rules.items():
        if not satisfied:
            raise TooLargeForTablesError(
                f"{name} has no tables: {reason}; choose another game, such as {PREFIX}kuhn_poker, or play this one "
                "without exact values"
            )


def _import(name: str) -> ModuleType:
    try:
        import pyspiel
    except ImportError as error:
        raise MissingPackageError(
            f"{name} needs OpenSpiel, which does not load here ({error}): pip install 'echelon-league[openspiel]'"
        ) from error
    module: ModuleType = pyspiel
    return module


def _require_one_spelling(name: str, game: "Game") -> None:
    """Reject a second spelling of a game, because names identify games."""
    spelling = PREFIX + str(game).removesuffix("()")
    if name != spelling:
        raise UnknownEnvironmentError(f"{name!r} has another spelling in OpenSpiel: write {spelling}")


def _require_playable(name: str, game: "Game", pyspiel: ModuleType) -> None:
    of, kind = pyspiel.GameType, game.get_type()
    tells = kind.provides_information_state_tensor or kind.provides_observation_tensor
    rules = {
        f"it has {game.num_players()} players, and a match has 2": game.num_players() == 2,
        f"its gains are of kind {kind.utility.name}, and have to be ZERO_SUM": kind.utility == of.Utility.ZERO_SUM,
        "its dynamics are those of a mean field": kind.dynamics != of.Dynamics.MEAN_FIELD,
        "OpenSpiel does not provide its chance probabilities": kind.chance_mode != of.ChanceMode.SAMPLED_STOCHASTIC,
        "OpenSpiel has no information state tensor for it": tells,
    }
    for reason, satisfied in rules.items():
        if not satisfied:
            raise GameError(f"{name} cannot be played here: {reason}; choose another game, such as {PREFIX}kuhn_poker")
