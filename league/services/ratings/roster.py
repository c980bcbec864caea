"""Roster: the players that a rating period may take in."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from league.services.ratings.period import PlayerRating


@dataclass(frozen=True)
class Roster:
    """Everybody who may take part, by id: as a newcomer, the snapshot each descends from, and whose snapshot it is.

    `learners` has the learner's own player of each snapshot.
    """

    newcomers: Mapping[int, PlayerRating]
    parents: Mapping[int, int | None]
    learners: Mapping[int, int]

    def starting(self, starts: Mapping[int, PlayerRating]) -> Self:
        """Return the roster with some players starting elsewhere."""
        return replace(self, newcomers={**self.newcomers, **starts}) if starts else self
