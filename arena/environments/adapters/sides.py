"""Assignment of a game's agents to sides, and scoring of matches."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arena.environments.spec import SIDES
from arena.errors import GameError, InputError

DEFAULT_DECISIONS = 1000
"""Longest match of a game without its own limit, in turns of each agent."""

REASONS = ("end", "limit")
END, LIMIT = range(len(REASONS))
"""Reasons of a match's end: termination by the game, or the decision limit."""

LEVEL = 1e-6
"""Tolerance for equal returns, because sums of rewards are rounded."""


@runtime_checkable
class Scoring(Protocol):
    """Maps both sides' returns to a score."""

    def score(self, home: float, away: float) -> float:
        """Return home's score in [0, 1].

        Args:
            home: Mean return of home's agents in the match.
            away: Mean return of away's agents.
        """
        ...

    @property
    def rule(self) -> Mapping[str, Any]:
        """JSON description of the rule, part of the environment's signature."""
        ...


@dataclass(frozen=True)
class HigherReturn:
    """The side with the higher return wins; equal returns are a draw."""

    def score(self, home: float, away: float) -> float:
        """Return 1, 0.5 or 0."""
        # The relative tolerance is for large returns, the absolute one for returns near 0.
        if math.isclose(home, away, rel_tol=LEVEL, abs_tol=LEVEL):
            return 0.5
        return 1.0 if home > away else 0.0

    @property
    def rule(self) -> Mapping[str, Any]:
        """Name of the rule."""
        return {"rule": "higher_return"}


@dataclass(frozen=True)
class ReturnMargin:
    """Margin of returns as a share of a whole victory: 0.5 + (home - away) / (2 whole), within [0, 1].

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
        """Return the score, in [0, 1]."""
        return min(1.0, max(0.0, 0.5 + (home - away) / (2.0 * self.whole)))

    @property
    def rule(self) -> Mapping[str, Any]:
        """Name and parameter of the rule."""
        return {"rule": "return_margin", "whole": self.whole}


@dataclass(frozen=True)
class TwoSided:
    """A PettingZoo game as a match of two sides.

    Attributes:
        make: Creates a new AEC or parallel environment with every call.
        home: Agents of the home side. Empty for both sides if there are two agents, or two prefixes in their names
            (`red_0`, `red_1`, `blue_0`, `blue_1`).
        away: Agents of the away side.
        max_decisions: Decisions after which a match is truncated. None for the game's own `max_cycles`, or 1,000. A
            decision is one agent's turn in an AEC environment, and one of all agents in a parallel one.
        scoring: Derives the score from returns.
        images: Observation blocks that are images, by name, with their channel axis "first" or "last".
        chosen_from: Sets whose members are a choice's last options, by action name.
        reproducible: Whether the same seed and actions give the same match.
        baselines: Scripted baselines, each an `arena.environments.adapters.custom.Scripted`.
        alike_sides: Whether the sides are symmetric, so that players need no rating per side. None derives it:
            simultaneous sides are symmetric if their agents have the same spaces, whatever their names. Use True also
            for turn-based games with a random first player, False if one side has an advantage.
        zero_sum: Whether the rewards of a match sum to 0 over all agents. None if unknown.
        chance: Whether the game is stochastic, so that a match depends on its seed. None if unknown.
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
    """Return the agents of the home and of the away side, each in the game's order.

    Raises:
        ArenaError: The agents do not form two sides, or the named agents are not exactly the game's.
    """
    home, away = (game.home, game.away) if game.home or game.away else _sides_by_themselves(name, agents)
    named = [*home, *away]
    if len(set(named)) < len(named) or set(named) != set(agents) or not (home and away):
        raise GameError(
            f"{name} has the agents {_listed(agents)}, and TwoSided(home={list(home)}, away={list(away)}) was given: "
            "assign each agent to exactly one side, and at least one agent to each side"
        )
    return tuple(each for each in agents if each in set(home)), tuple(each for each in agents if each in set(away))


def prefix(agent: str) -> str:
    """Return an agent's name without its number: `red` of `red_0`."""
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
            f"{kinds} by their names; assign them with TwoSided(make, home=[...], away=[...])"
        )
    home, away = teams.values()
    return home, away


def _listed(agents: Sequence[str]) -> str:
    shown = 6
    return ", ".join(agents[:shown]) + (f" and {len(agents) - shown} more" if len(agents) > shown else "")
