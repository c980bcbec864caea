"""What rating periods leave behind, and what the next one makes of it: the one place where a period is computed.

Closing a period, rebuilding the past and asking what another rule would have given all run through here, so that they
cannot differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from league.services import rating, refit
from league.services.match_log import Games
from league.services.payoffs import NO_RECORDS, Records
from league.services.rating import Entry, Rule


@dataclass(frozen=True)
class Roster:
    """Everybody who may take part, by id: as a newcomer, and the snapshot each descends from."""

    newcomers: Mapping[int, Entry]
    parents: Mapping[int, int | None]

    def starting(self, starts: Mapping[int, Entry]) -> Self:
        """Return the roster with some players starting elsewhere."""
        return replace(self, newcomers={**self.newcomers, **starts}) if starts else self


@dataclass(frozen=True)
class Ledger:
    """The state after a period.

    Attributes:
        entries: Everybody rated so far, by id.
        records: What pairs scored so far.
        fitted: Games of each frozen player when the whole history was last fitted, by id.
    """

    entries: Mapping[int, Entry]
    records: Records
    fitted: Mapping[int, int]

    def after(self, closing: "Closing") -> Self:
        """Return the state after one more period."""
        entries = {**self.entries, **closing.entries}
        fitted = games_of_frozen(entries) if closing.refitted else self.fitted
        return type(self)(entries, closing.records, fitted)


EMPTY = Ledger({}, NO_RECORDS, {})


@dataclass(frozen=True)
class Closing:
    """What a period changes: entries by id, all records, and whether the whole history was fitted at its end."""

    entries: Mapping[int, Entry]
    records: Records
    refitted: bool


def close(ledger: Ledger, roster: Roster, games: Games, rule: Rule) -> Closing:
    """Rate a period's matches on top of what the periods before left."""
    taking_part = {player: ledger.entries.get(player, roster.newcomers[player]) for player in games.players}
    taking_part |= {player: entry for player, entry in ledger.entries.items() if not entry.frozen}
    changed = rating.advance(taking_part, games, rule)
    records = ledger.records.advance(games)
    entries = {**ledger.entries, **changed}
    due = refit.is_due(entries, ledger.fitted, rule.refit)
    if due:
        fitted = refit.fit(entries, roster.parents, records, rule.refit)
        reseeded = refit.reseeded(entries, fitted, rule)
        changed |= {player: entry for player, entry in reseeded.items() if entry != entries[player]}
    return Closing(changed, records, due)


def games_of_frozen(entries: Mapping[int, Entry]) -> dict[int, int]:
    """Count the games of the frozen players."""
    return {player: entry.games for player, entry in entries.items() if entry.frozen}
