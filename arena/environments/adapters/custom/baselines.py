"""Scripted baselines of a user-defined game. Torch-free."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.environments.adapters.custom.lookup import find
from arena.environments.spec import EnvironmentSpec
from arena.errors import GameError

if TYPE_CHECKING:
    from arena.policies.protocol import Policy

ATTRIBUTE = "baselines"
"""Attribute with the baselines, on the class, function or `TwoSided` that names the game."""

RANDOM = "random"
"""Baseline of every game."""

NAME = re.compile(r"[\w.+-]+")
MOST = 16
MOST_CHARACTERS = 64


@dataclass(frozen=True)
class Scripted:
    """A scripted baseline of a game.

    Attributes:
        name: Unique name within the game.
        rating: Fixed rating in a league. Random play is 1500, and a player that wins nine of ten games against it
            belongs about 380 points higher.
        make: Constructor, given the game's spec.

    Raises:
        ArenaError: The name is invalid or `random`, or the rating is not from 0 to 5000.
    """

    name: str
    rating: float
    make: "Callable[[EnvironmentSpec], Policy]"

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name) or len(self.name) > MOST_CHARACTERS or self.name == RANDOM:
            raise GameError(
                f"a scripted player is called {self.name!r}: give it up to {MOST_CHARACTERS} letters, digits, '_', "
                f"'.', '+' and '-', and not {RANDOM!r}, which every game has"
            )
        if not 0.0 <= self.rating <= 5000.0 or math.isnan(self.rating):
            raise GameError(f"scripted player {self.name!r} is rated {self.rating}: give a number from 0 to 5000")


def scripted_players(name: str) -> tuple[Scripted, ...]:
    """Return the scripted baselines of a user-defined game; this imports the game's module.

    Raises:
        UnknownEnvironmentError: There is no such game.
        ArenaError: An entry is not a `Scripted`, names are not unique, or there are too many.
    """
    entries = getattr(find(name), ATTRIBUTE, ())
    if not isinstance(entries, tuple | list) or not all(isinstance(each, Scripted) for each in entries):
        raise GameError(f"{ATTRIBUTE} of {name} is {entries!r}: give a list of Scripted(name, rating, make)")
    names = [each.name for each in entries]
    if len(set(names)) < len(names) or len(names) > MOST:
        raise GameError(f"{ATTRIBUTE} of {name} are called {', '.join(names)}: give unlike names, {MOST} at most")
    return tuple(entries)
