"""Rating state between periods, and its update: the only code that computes a period.

Closing, rebuilding and what-if all use it, so that they cannot differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import NO_RECORDS, PairRecords
from league.services.ratings import history_fit
from league.services.ratings import period as rating_period
from league.services.ratings.period import PlayerRating, RatingConfig, Roster
from league.services.ratings.sides import NO_SIDE_STATE, Seats, SideState


@dataclass(frozen=True)
class RatingState:
    """State after a period.

    Attributes:
        entries: All players rated so far, by id.
        records: Pair records so far.
        fitted: Games of each frozen player at the last fit of the whole history, by id.
        sides: The same by side, in asymmetric games.
    """

    entries: Mapping[int, PlayerRating]
    records: PairRecords
    fitted: Mapping[int, int]
    sides: SideState

    def after(self, closing: "RatingUpdate") -> Self:
        """Return the state after one more period."""
        entries = {**self.entries, **closing.entries}
        fitted = games_of_frozen(entries) if closing.refitted else self.fitted
        sides = SideState({**self.sides.entries, **closing.sides.entries}, closing.sides.records)
        return type(self)(entries, closing.records, fitted, sides)

    def seats(self, roster: Roster) -> Seats:
        """Return all seats."""
        return Seats(self.sides, {**roster.newcomers, **self.entries}, roster)


EMPTY = RatingState({}, NO_RECORDS, {}, NO_SIDE_STATE)


@dataclass(frozen=True)
class RatingUpdate:
    """Changes of a period: entries by id, all pair records, and whether the whole history was fitted at its end.

    `sides` are the changed entries of seats, and all records of seats.
    """

    entries: Mapping[int, PlayerRating]
    records: PairRecords
    refitted: bool
    sides: SideState


def apply_period(state: RatingState, roster: Roster, games: MatchArrays, rule: RatingConfig) -> RatingUpdate:
    """Rate a period's matches, given the state after the previous period."""
    taking_part = {player: state.entries.get(player, roster.newcomers[player]) for player in games.players}
    # Learners without a match in the period take part too: their deviation grows with time.
    taking_part |= {player: entry for player, entry in state.entries.items() if not entry.frozen}
    changed = rating_period.rate_matches(taking_part, games, rule)
    sides = state.seats(roster).close(games, rule) if rule.unlike_sides else SideState({}, state.sides.records)
    records = state.records.advance(games)
    entries = {**state.entries, **changed}
    # The fit costs far more than a period, so it runs only after enough new games.
    due = history_fit.is_due(entries, state.fitted, rule.refit)
    closing = RatingUpdate(changed, records, due, sides)
    return _refitted(state.after(closing), closing, roster, rule) if due else closing


def _refitted(after: RatingState, closing: RatingUpdate, roster: Roster, rule: RatingConfig) -> RatingUpdate:
    """Fit the whole history at a period's end, and that of each side."""
    sides = closing.sides
    if rule.unlike_sides:
        refitted = after.seats(roster).refitted(rule)
        sides = SideState({**sides.entries, **_changes(refitted, after.sides.entries)}, sides.records)
    fitted = history_fit.fit(after.entries, roster.parents, closing.records, rule.refit)
    reseeded = _changes(history_fit.reseeded(after.entries, fitted, rule), after.entries)
    return replace(closing, entries={**closing.entries, **reseeded}, sides=sides)


def _changes(new: Mapping[int, PlayerRating], old: Mapping[int, PlayerRating]) -> dict[int, PlayerRating]:
    """Return the entries that have changed."""
    return {player: entry for player, entry in new.items() if entry != old[player]}


def games_of_frozen(entries: Mapping[int, PlayerRating]) -> dict[int, int]:
    """Return the numbers of games of the frozen players."""
    return {player: entry.games for player, entry in entries.items() if entry.frozen}
