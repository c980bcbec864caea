"""PettingZoo games by name: `pettingzoo:connect_four_v3`, `magent2:battle_v4(map_size=16)`."""

import ast
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, cast

from arena.environments.adapters.sides import ReturnMargin, TwoSided
from arena.errors import GameError, MissingPackageError, UnknownEnvironmentError


@dataclass(frozen=True)
class Library:
    """A package of games.

    Attributes:
        package: Import name.
        extra: Requirement that installs it.
        folders: Packages with one module per game, and the requirement that installs the games' dependencies.
        example: Name of one game.
    """

    package: str
    extra: str
    folders: Mapping[str, str]
    example: str


LIBRARIES: dict[str, Library] = {
    "pettingzoo": Library(
        "pettingzoo",
        "echelon-league[pettingzoo]",
        {f"pettingzoo.{kind}": f"pettingzoo[{kind}]" for kind in ("classic", "butterfly", "sisl", "atari")},
        "connect_four_v3",
    ),
    "mpe2": Library("mpe2", "echelon-league[mpe2]", {"mpe2": "mpe2"}, "simple_tag_v3"),
    "magent2": Library("magent2", "echelon-league[magent2]", {"magent2.environments": "magent2"}, "battle_v4"),
}
"""Packages, by the prefix before the colon."""

_POKER = {"alike_sides": True, "zero_sum": True, "chance": True}

KNOWN: Mapping[str, Mapping[str, Any]] = {
    "pettingzoo:connect_four_v3": {"max_decisions": 42, "zero_sum": True, "chance": False},
    "pettingzoo:tictactoe_v3": {"max_decisions": 9, "zero_sum": True, "chance": False},
    # at most two rounds of four choices each; at most 14 chips change hands, which the game pays as 7; the first player
    # is random
    "pettingzoo:leduc_holdem_v4": {"max_decisions": 8, "scoring": ReturnMargin(14.0), **_POKER},
    "pettingzoo:texas_holdem_v4": _POKER,
    "pettingzoo:texas_holdem_no_limit_v6": _POKER,
    # ten touches more than none, at 10 per adversary and -10 for the prey
    "mpe2:simple_tag_v3": {"scoring": ReturnMargin(200.0)},
    # archers and knights have the same spaces but different weapons
    "pettingzoo:knights_archers_zombies_v11": {"alike_sides": False},
}
"""Facts about some games that they do not declare themselves, as fields of `TwoSided`."""


def find_game(name: str) -> TwoSided:
    """Find `LIBRARY:GAME` or `LIBRARY:GAME(PARAMETER=VALUE,...)`.

    Raises:
        ArenaError: The library or a dependency of the game is not installed.
        UnknownEnvironmentError: The library has no such game, or the parameters are not in canonical form.
    """
    library, _, written = name.partition(":")
    game, parameters = _split(name, written)
    maker = _find_maker(name, LIBRARIES[library], game)
    known = KNOWN.get(f"{library}:{game}", {})
    return replace(TwoSided(partial(_make, name, maker, parameters)), **known)


def _split(name: str, written: str) -> tuple[str, dict[str, Any]]:
    """Return the game's name and parameters; only the canonical spelling is accepted, because names identify games."""
    game, opened, rest = written.partition("(")
    if not opened:
        return game, {}
    try:
        given = {each.arg: ast.literal_eval(each.value) for each in _call(f"game({rest}").keywords if each.arg}
    except (SyntaxError, ValueError) as error:
        raise UnknownEnvironmentError(
            f"{name!r} is not written as a game with parameters: write {game}(first=1,second='b')"
        ) from error
    spelling = f"{game}({','.join(f'{key}={given[key]!r}' for key in sorted(given))})"
    if written != spelling:
        raise UnknownEnvironmentError(f"{name!r} has another spelling: write {name.partition(':')[0]}:{spelling}")
    return game, given


def _call(written: str) -> ast.Call:
    match ast.parse(written, mode="eval").body:
        case ast.Call() as call:
            return call
        case _:
            raise ValueError(written)


def _find_maker(name: str, library: Library, game: str) -> Callable[..., Any]:
    """Return the game's constructor, preferably of the parallel environment, because its agents act at once."""
    if importlib.util.find_spec(library.package) is None:
        raise MissingPackageError(
            f"{name} needs {library.package}, which is not installed: pip install '{library.extra}'"
        )
    for folder, extra in library.folders.items():
        path = f"{folder}.{game}"
        if game.isidentifier() and importlib.util.find_spec(path) is not None:
            module = _import(name, path, extra)
            maker = getattr(module, "parallel_env", None) or getattr(module, "env", None)
            if maker is not None:
                return cast("Callable[..., Any]", maker)
    raise UnknownEnvironmentError(
        f"{library.package} has no game {game!r}: choose one by its name and version, such as {library.example}"
    )


def _import(name: str, path: str, extra: str) -> ModuleType:
    """Import a game's module without deprecation warnings, which all PettingZoo releases before 1.27 emit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return importlib.import_module(path)
        except ImportError as error:
            raise MissingPackageError(f"{name} does not load ({error}): pip install '{extra}'") from error


def _make(name: str, maker: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        return maker(**parameters)
    except TypeError as error:
        raise GameError(f"{name} cannot be made ({error}): write parameters that the game has") from error
