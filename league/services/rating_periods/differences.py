"""Differences between stored rows and what the match log gives, bit for bit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rating", "rating at home", "rating away", "period", "start", "payoff", "side payoff"]
Row = Mapping[str, float]
"""A row's columns by name."""

Rows = Mapping[tuple[int, ...], Row]
"""Rows by the ids of their players."""

_LACKING: Row = {}


@dataclass(frozen=True)
class Difference:
    """A row that the log says otherwise.

    Attributes:
        kind: Of what: a rating after a period, a period's summary, where a snapshot starts, the record of a pair;
            where sides are unlike, a rating on one of them, or the record of a pair with the first at home.
        period: The period's number; None for starts and payoffs.
        player_ids: Whose it is; nobody's for a period.
        stored: The columns that differ as they are stored; none where the row is not there.
        computed: The same columns as the log says; none where it knows of no such row.
    """

    kind: Kind
    period: int | None
    player_ids: Sequence[int]
    stored: Row
    computed: Row

    def __str__(self) -> str:
        whose = f" of player {' and '.join(map(str, self.player_ids))}" if self.player_ids else ""
        when = "" if self.period is None else f" {'after period ' if whose else ''}{self.period}"
        return f"{self.kind}{whose}{when}: stored {_told(self.stored)}, computed {_told(self.computed)}"


class Differences:
    """Counts differences and keeps the first one.

    Attributes:
        count: How many rows differ.
        first: The first of them; None where there is none.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Difference | None = None

    def compare(self, kind: Kind, period: int | None, stored: Rows, computed: Rows) -> bool:
        """Say whether any rows differ."""
        before = self.count
        for players in sorted(stored.keys() | computed.keys()):
            one, other = stored.get(players, _LACKING), computed.get(players, _LACKING)
            if one != other:
                self.count += 1
                self.first = self.first or Difference(kind, period, players, _unlike(one, other), _unlike(other, one))
        return self.count > before


def _unlike(row: Row, other: Row) -> Row:
    return {name: value for name, value in row.items() if other.get(name) != value}


def _told(row: Row) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items()) or "none"
