"""Ratings of each side, in asymmetric games.

A player then has two seats, home and away, with separate ratings, and a match is between one player's home seat and the
other's away seat. Periods, the fit of the whole history and lineages apply to seats as they do to players. Only
baselines, which anchor the scale, are fixed by the mean of their two seats.

The overall rating ignores sides: matches are played in pairs with swapped sides, so their effects cancel. If results of
one side are missing, or players had one side far more often, the effects do not cancel, and only 59 % and 33 % of 95 %
intervals contained the true value (`studies.sides`). Subtracting the effects of sides raised this to 96 %, at twice the
time of a period. Ratings of seats need the fit: the 95 % intervals contain the true value in 21 to 43 % of cases
without it and in 95 to 99 % with it.
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
"""Offset from a player's id to its away seat; all home seats precede all away seats."""


@dataclass(frozen=True)
class SideState:
    """State of seats after a period: their ratings and the records of pairs of seats.

    In each pair the lower id is a home seat and the higher id an away seat.
    """

    entries: Mapping[int, PlayerRating]
    records: PairRecords


NO_SIDE_STATE = SideState({}, NO_RECORDS)


def seat_of(player: int, side: str) -> int:
    """Return the id of a player's seat on a side."""
    return player if side == "home" else player + _AWAY


def away_seats(players: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the ids of players' away seats."""
    return players + _AWAY


def owner(seat: int) -> tuple[int, Side]:
    """Return the player and the side of a seat."""
    return (seat, "home") if seat < _AWAY else (seat - _AWAY, "away")


def seated(games: MatchArrays) -> MatchArrays:
    """Return matches as matches of seats, without self-play."""
    different = games.home != games.away
    away = away_seats(games.away[different])
    return MatchArrays(
        home=games.home[different], away=away, score=games.score[different], training=games.training[different]
    )


@dataclass(frozen=True, eq=False)
class Seats:
    """All seats at one time.

    Attributes:
        state: Their state.
        overall: Overall ratings of all players at that time; initial ratings of unrated ones.
        roster: Players with their lineages.
    """

    state: SideState
    overall: Mapping[int, PlayerRating]
    roster: Roster

    def entry(self, seat: int) -> PlayerRating:
        """Return a seat's rating.

        The seat of an unrated snapshot starts at its player's rating plus its learner's current difference between seat
        and overall rating. Otherwise it starts at the player's rating with the full initial deviation.
        """
        known = self.state.entries.get(seat)
        if known is not None:
            return known
        player, side = owner(seat)
        own, learner = self.overall[player], self.roster.learners.get(player)
        learner_seat = None if learner is None else self.state.entries.get(seat_of(learner, side))
        if learner is None or learner_seat is None:
            # The overall rating is the best guess of the mean, but it has no information about the difference between
            # sides.
            return replace(own, deviation=max(own.deviation, START_DEVIATION), games=0, score=0.0)
        difference = learner_seat.rating - self.overall[learner].rating
        deviation = max(own.deviation, learner_seat.deviation)
        return replace(own, rating=own.rating + difference, deviation=deviation, games=0, score=0.0)

    def close(self, games: MatchArrays, rule: RatingConfig) -> SideState:
        """Rate the seats in a period; return the changed entries and all records."""
        played = seated(games)
        taking_part = {each: self.entry(each) for each in played.players}
        taking_part |= {each: entry for each, entry in self.state.entries.items() if not entry.frozen}
        changed = rating_period.rate_matches(_unanchored(taking_part), played, rule)
        return SideState(self._centre_baselines(changed), self.state.records.advance(played))

    def refitted(self, rule: RatingConfig) -> dict[int, PlayerRating]:
        """Return the seats of frozen players after a fit of the whole history, by seat."""
        parents = {
            seat_of(player, side): None if parent is None else seat_of(parent, side)
            for player, parent in self.roster.parents.items()
            for side in SIDES
        }
        entries = _unanchored(self.state.entries)
        fitted = history_fit.fit(entries, parents, self.state.records, rule.refit)
        return self._centre_baselines(history_fit.reseeded(entries, self._anchored(fitted), rule))

    def _anchored(self, fitted: Fitted) -> Fitted:
        """Shift a fit so that the mean rating of the baselines' seats is unchanged."""
        anchors = [index for index, seat in enumerate(fitted.ids) if self.state.entries[seat].kind == "baseline"]
        if not anchors:
            return fitted
        present = [self.entry(fitted.ids[index]).rating for index in anchors]
        fit = fitted.fit.relative_to(np.array(anchors))
        shifted = replace(fit, rating=fit.rating - (fit.rating[anchors] - present).mean())
        return replace(fitted, fit=shifted)

    def _centre_baselines(self, changed: Mapping[int, PlayerRating]) -> dict[int, PlayerRating]:
        """Return changed seats, with those of each baseline centred on its fixed rating."""
        centred = dict(changed)
        for player in sorted({owner(seat)[0] for seat in changed}):
            overall = self.overall[player]
            if overall.kind == "baseline":
                home, away = (changed.get(seat, self.entry(seat)) for seat in (seat_of(player, side) for side in SIDES))
                # Only the difference between the seats is estimated; their mean is the baseline's fixed rating.
                half = 0.5 * (home.rating - away.rating)
                centred[seat_of(player, "home")] = replace(home, kind="baseline", rating=overall.rating + half)
                centred[seat_of(player, "away")] = replace(away, kind="baseline", rating=overall.rating - half)
        return centred


def _unanchored(entries: Mapping[int, PlayerRating]) -> dict[int, PlayerRating]:
    """Return entries of seats, with baselines treated as snapshots so that results can change their seats."""
    return {
        seat: replace(entry, kind="snapshot") if entry.kind == "baseline" else entry for seat, entry in entries.items()
    }
