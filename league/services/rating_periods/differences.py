"""Differences between stored rows and those computed from the match log, bit for bit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["rating", "rating at home", "rating away", "period", "start", "payoff", "side payoff"]
Row = Mapping[str, float | None]
"""Columns of a row by name."""

Rows = Mapping[tuple[int, ...], Row]
"""Rows by player ids."""

_MISSING_ROW: Row = {}


@dataclass(frozen=True)
class Difference:
    """A stored row that differs from the computed one.

    Attributes:
        kind: Kind of row: a rating after a period, a period's summary, a snapshot's initial rating or a pair record; in
        asymmetric games also a rating on one side, or a pair record with the first player at home.
        period: Number of the period; None for initial ratings and payoffs.
        player_ids: Players of the row; empty for a period.
        stored: Stored values of the columns that differ; empty if the row is missing.
        computed: Computed values of these columns; empty if there should be no row.
    """

    kind: Kind
    period: int | None
    player_ids: Sequence[int]
    stored: Row
    computed: Row

    def __str__(self) -> str:
        of_players = f" of player {' and '.join(map(str, self.player_ids))}" if self.player_ids else ""
        when = "" if self.period is None else f" {'after period ' if of_players else ''}{self.period}"
        return (
            f"{self.kind}{of_players}{when}: stored {_format_row(self.stored)}, computed {_format_row(self.computed)}"
        )


class Differences:
    """Counts differences and stores the first one.

    Attributes:
        count: Number of rows that differ.
        first: The first difference, or None.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: Difference | None = None

    def compare(self, kind: Kind, period: int | None, stored: Rows, computed: Rows) -> bool:
        """Compare rows; return whether any differ."""
        before = self.count
        for players in sorted(stored.keys() | computed.keys()):
            one, other = stored.get(players, _MISSING_ROW), computed.get(players, _MISSING_ROW)
            if one != other:
                self.count += 1
                self.first = self.first or Difference(
                    kind, period, players, _changed_columns(one, other), _changed_columns(other, one)
                )
        return self.count > before


def _changed_columns(row: Row, other: Row) -> Row:
    return {name: value for name, value in row.items() if other.get(name) != value}


def _format_row(row: Row) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items()) or "none"
