"""Ratings of each side on its own, where the two sides of a game are unlike.

A player then has two seats, home and away, each with a rating of its own: what happens in a match is between one's home
and the other's away. On seats everything is as it is on players: periods, the fit of the whole history, descent. Only a
baseline, which anchors the scale, is held by the mean of its two.

The overall rating knows nothing of sides: the league swaps them on every pair, so that what a side gives cancels. Where
results of one side went missing it does not cancel, and where players had one side far more often than the other, only
59 % and 33 % of 95 % intervals held the truth (`studies.sides`); taking off what sides gave held 96 %, at twice the
time of a period. Seats need the fit: with periods alone, 21 to 43 % of the 95 % intervals of sides hold the truth, with
the fit 95 to 99 %.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena.ratings.glicko2 import START_DEVIATION
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import NO_RECORDS, PairRecords
from league.services.ratings import history_fit
from league.services.ratings import period as rating_period
from league.services.ratings.history_fit import Fitted
from league.services.ratings.period import PlayerRating, RatingConfig, Roster
from league.wire import Side

SIDES: tuple[Side, Side] = ("home", "away")

_AWAY = 2**40
"""What is added to a player's id for its away seat: every home seat comes before every away seat."""


@dataclass(frozen=True)
class SideState:
    """What is known of seats after a period: entries of those rated so far, and what pairs of seats scored.

    Of a pair, the lower is a home seat and the higher an away seat.
    """

    entries: Mapping[int, PlayerRating]
    records: PairRecords


NO_BOOKS = SideState({}, NO_RECORDS)


def seat_of(player: int, side: str) -> int:
    """Return the id of a player's seat on a side."""
    return player if side == "home" else player + _AWAY


def away_seats(players: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of players' away seats."""
    return players + _AWAY


def owner(seat: int) -> tuple[int, Side]:
    """Return whose seat an id is, and on which side."""
    return (seat, "home") if seat < _AWAY else (seat - _AWAY, "away")


def seated(games: MatchArrays) -> MatchArrays:
    """Return matches as matches of seats, without those of a player against itself."""
    apart = games.home != games.away
    away = away_seats(games.away[apart])
    return MatchArrays(home=games.home[apart], away=away, score=games.score[apart], training=games.training[apart])


@dataclass(frozen=True, eq=False)
class Seats:
    """Everybody's seats at one time.

    Attributes:
        books: What is known of them.
        overall: Everybody's overall rating at that time, by player; of those without one yet, as newcomers.
        roster: Who descends from whom.
    """

    books: SideState
    overall: Mapping[int, PlayerRating]
    roster: Roster

    def entry(self, seat: int) -> PlayerRating:
        """Return a seat's entry; one that is not rated yet starts at its player's rating.

        A snapshot's starts as far from it as its learner's is now. Of whose sides nothing is known, nothing is sure.
        """
        known = self.books.entries.get(seat)
        if known is not None:
            return known
        player, side = owner(seat)
        own, learner = self.overall[player], self.roster.learners.get(player)
        model = None if learner is None else self.books.entries.get(seat_of(learner, side))
        if learner is None or model is None:
            return replace(own, deviation=max(own.deviation, START_DEVIATION), games=0, score=0.0)
        lead = model.rating - self.overall[learner].rating
        deviation = max(own.deviation, model.deviation)
        return replace(own, rating=own.rating + lead, deviation=deviation, games=0, score=0.0)

    def close(self, games: MatchArrays, rule: RatingConfig) -> SideState:
        """Rate the seats in a period; return the entries that changed and all records."""
        played = seated(games)
        taking_part = {each: self.entry(each) for each in played.players}
        taking_part |= {each: entry for each, entry in self.books.entries.items() if not entry.frozen}
        changed = rating_period.rate_matches(_loose(taking_part), played, rule)
        return SideState(self._held(changed), self.books.records.advance(played))

    def refitted(self, rule: RatingConfig) -> dict[int, PlayerRating]:
        """Return the seats of frozen players as a fit of the whole history has them, by seat."""
        parents = {
            seat_of(player, side): None if parent is None else seat_of(parent, side)
            for player, parent in self.roster.parents.items()
            for side in SIDES
        }
        entries = _loose(self.books.entries)
        fitted = history_fit.fit(entries, parents, self.books.records, rule.refit)
        return self._held(history_fit.reseeded(entries, self._anchored(fitted), rule))

    def _anchored(self, fitted: Fitted) -> Fitted:
        """Move a fit so that the baselines' seats are on average where they are now; that much is certain."""
        anchors = [place for place, seat in enumerate(fitted.ids) if self.books.entries[seat].kind == "baseline"]
        if not anchors:
            return fitted
        present = [self.entry(fitted.ids[place]).rating for place in anchors]
        fit = fitted.fit.relative_to(np.array(anchors))
        return Fitted(fitted.ids, replace(fit, rating=fit.rating - (fit.rating[anchors] - present).mean()))

    def _held(self, changed: Mapping[int, PlayerRating]) -> dict[int, PlayerRating]:
        """Return seats that changed, those of each baseline with the mean where its rating is."""
        held = dict(changed)
        for player in sorted({owner(seat)[0] for seat in changed}):
            middle = self.overall[player]
            if middle.kind == "baseline":
                home, away = (changed.get(seat, self.entry(seat)) for seat in (seat_of(player, side) for side in SIDES))
                half = 0.5 * (home.rating - away.rating)
                held[seat_of(player, "home")] = replace(home, kind="baseline", rating=middle.rating + half)
                held[seat_of(player, "away")] = replace(away, kind="baseline", rating=middle.rating - half)
        return held


def _loose(entries: Mapping[int, PlayerRating]) -> dict[int, PlayerRating]:
    """Return entries of seats, those of baselines as of players whose rating evidence moves."""
    return {
        seat: replace(entry, kind="snapshot") if entry.kind == "baseline" else entry for seat, entry in entries.items()
    }
