"""Scripted players that a game of the reader's own brings with it. Torch-free."""

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
"""What names them: an attribute of the class, the function or the `TwoSided` that the game is named by."""

RANDOM = "random"
"""Every game has this one."""

NAME = re.compile(r"[\w.+-]+")
MOST = 16
MOST_CHARACTERS = 64


@dataclass(frozen=True)
class Scripted:
    """A scripted player of a game.

    Attributes:
        name: What it is called, unlike any other of the game.
        rating: At which it is held in a league: acting at random is at 1500, and who beats that nine times of ten
            belongs about 380 above it.
        make: Makes it, given the game's spec.

    Raises:
        ArenaError: The name is no player's name, or `random`, or the rating is no number from 0 to 5000.
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
    """Scripted players of a game of the reader's own; this loads the game's module.

    Raises:
        UnknownEnvironmentError: There is no such game.
        ArenaError: What it names are no such players, two of them have one name, or there are too many.
    """
    told = getattr(find(name), ATTRIBUTE, ())
    if not isinstance(told, tuple | list) or not all(isinstance(each, Scripted) for each in told):
        raise GameError(f"{ATTRIBUTE} of {name} is {told!r}: give a list of Scripted(name, rating, make)")
    names = [each.name for each in told]
    if len(set(names)) < len(names) or len(names) > MOST:
        raise GameError(f"{ATTRIBUTE} of {name} are called {', '.join(names)}: give unlike names, {MOST} at most")
    return tuple(told)
