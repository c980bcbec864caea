"""Which of a game's agents play for which side, and who has won."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arena.environments.spec import SIDES
from arena.errors import GameError, InputError

DEFAULT_DECISIONS = 1000
"""Longest match of a game without a limit of its own, in turns of each agent."""

REASONS = ("end", "limit")
END, LIMIT = range(len(REASONS))
"""Reasons for the end of a match: the game's rules, or its longest match."""

LEVEL = 1e-6
"""Returns that differ by less are equal: sums of rewards are rounded."""


@runtime_checkable
class Scoring(Protocol):
    """Says what a match was worth, from what both sides earned in it."""

    def score(self, home: float, away: float) -> float:
        """Home's score in [0, 1].

        Args:
            home: Sum of rewards of the match, mean of home's agents.
            away: The same of away's.
        """
        ...

    @property
    def rule(self) -> Mapping[str, Any]:
        """What it does, as JSON values: part of the environment's signature."""
        ...


@dataclass(frozen=True)
class HigherReturn:
    """Who earned more has won; equal returns are a draw."""

    def score(self, home: float, away: float) -> float:
        """1, 0.5 or 0."""
        if math.isclose(home, away, rel_tol=LEVEL, abs_tol=LEVEL):
            return 0.5
        return 1.0 if home > away else 0.0

    @property
    def rule(self) -> Mapping[str, Any]:
        """Its name."""
        return {"rule": "higher_return"}


@dataclass(frozen=True)
class ReturnMargin:
    """How much more home earned, as a share of a whole victory: 0.5 + (home - away) / (2 whole), within [0, 1].

    Attributes:
        whole: Difference of returns that counts as a whole victory, above 0.

    Raises:
        ArenaError: `whole` is not above 0 or not finite.
    """

    whole: float

    def __post_init__(self) -> None:
        if not 0.0 < self.whole < math.inf:
            raise InputError(
                f"ReturnMargin was given {self.whole}: give the difference that is a whole victory, above 0"
            )

    def score(self, home: float, away: float) -> float:
        """The share, in [0, 1]."""
        return min(1.0, max(0.0, 0.5 + (home - away) / (2.0 * self.whole)))

    @property
    def rule(self) -> Mapping[str, Any]:
        """Its name and number."""
        return {"rule": "return_margin", "whole": self.whole}


@dataclass(frozen=True)
class TwoSided:
    """A game of the PettingZoo interface, as a match of two sides.

    Attributes:
        make: Makes an AEC or a parallel environment, a new one with every call.
        home: Agents of the home side; empty for both where the agents make two sides by themselves: there are two of
            them, or two prefixes in their names (`red_0`, `red_1`, `blue_0`, `blue_1`).
        away: Agents of the away side.
        max_decisions: Decisions after which a match is cut off; None for the game's own `max_cycles`, or 1,000. A
            decision is one agent's turn in an AEC environment, and one of all agents in a parallel one.
        scoring: Says who has won.
        images: Blocks of the observation that are images whatever they look like, by name, and whether their channels
            are their "first" or their "last" axis.
        chosen_from: Choices whose last options are the members of a set, by the action's name, and the set's.
        reproducible: Whether the same seed and the same actions give the same match.
        baselines: Scripted players that it brings, each an `arena.environments.adapters.custom.Scripted`.
        alike_sides: Whether both sides are alike, so that players are not rated on each. None lets the game tell: sides
            that act at once are alike if their agents have the same spaces, whatever they are called (`red`, `blue`).
            True also where they take turns (chance decides who begins), False where one side has an advantage.
        zero_sum: Whether the rewards of a match add up to 0 over all agents; None says nothing of it.
        chance: Whether anything of a match follows from its seed; None says nothing of it.
    """

    make: Callable[[], Any]
    home: Sequence[str] = ()
    away: Sequence[str] = ()
    max_decisions: int | None = None
    scoring: Scoring = HigherReturn()
    reproducible: bool = True
    baselines: Sequence[Any] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    chosen_from: Mapping[str, str] = field(default_factory=dict)
    alike_sides: bool | None = None
    zero_sum: bool | None = None
    chance: bool | None = None


def assign_sides(name: str, agents: Sequence[str], game: TwoSided) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Agents of the home and of the away side, each in the game's order.

    Raises:
        ArenaError: The agents make no two sides by themselves, or those that were named are not exactly the game's.
    """
    home, away = (game.home, game.away) if game.home or game.away else _sides_by_themselves(name, agents)
    named = [*home, *away]
    if len(set(named)) < len(named) or set(named) != set(agents) or not (home and away):
        raise GameError(
            f"{name} has the agents {_listed(agents)}, and TwoSided(home={list(home)}, away={list(away)}) was given: "
            "name each of them on exactly one side, and somebody on both"
        )
    return tuple(each for each in agents if each in set(home)), tuple(each for each in agents if each in set(away))


def prefix(agent: str) -> str:
    """What an agent is called without its number: `red` of `red_0`."""
    return re.sub(r"[_-]?\d+$", "", agent) or agent


def _sides_by_themselves(name: str, agents: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    if len(agents) == SIDES:
        return agents[:1], agents[1:]
    teams: dict[str, list[str]] = {}
    for agent in agents:
        teams.setdefault(prefix(agent), []).append(agent)
    if len(teams) != SIDES:
        kinds = f"{len(teams)} kinds" if len(teams) > 1 else "one kind"
        raise GameError(
            f"{name} cannot be played by two sides as it is: its {len(agents)} agents ({_listed(agents)}) are of "
            f"{kinds} by their names; say who plays for whom by TwoSided(make, home=[...], away=[...])"
        )
    home, away = teams.values()
    return home, away


def _listed(agents: Sequence[str]) -> str:
    shown = 6
    return ", ".join(agents[:shown]) + (f" and {len(agents) - shown} more" if len(agents) > shown else "")
