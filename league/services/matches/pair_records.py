"""Pair records (payoffs): wins, draws and losses of pairs of players, stored up to the last period."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sqlalchemy import ColumnElement, Select, SQLColumnExpression, bindparam, delete, or_, select
from sqlalchemy.orm import Session

from arena.evaluation import payoff as arithmetic
from league.db import bulk_insert
from league.db.arrays import read_columns
from league.db.models import Payoff
from league.services.matches import log as match_log
from league.services.matches.indexing import distinct, indices
from league.services.matches.log import MatchArrays

Pair = tuple[int, int]
_COLUMNS = ("low_id", "high_id", "matches", "games", "points", "wins", "draws", "losses")
_SELECTED = select(*(getattr(Payoff, name) for name in _COLUMNS)).order_by(Payoff.low_id, Payoff.high_id)
_OF_PLAYER = _SELECTED.where(or_(Payoff.low_id == bindparam("player"), Payoff.high_id == bindparam("player")))


@dataclass(frozen=True)
class PairCount:
    """A pair's record from the lower id's point of view; see `league.db.models.Payoff`."""

    matches: int = 0
    games: float = 0.0
    points: float = 0.0
    wins: float = 0.0
    draws: float = 0.0
    losses: float = 0.0


@dataclass(frozen=True, eq=False)
class PairRecords:
    """Records of K pairs as columns, in order of (low, high); see `PairCount`.

    Attributes:
        low: (K,) int64 lower id of each pair.
        high: (K,) int64 higher id.
        matches: (K,) int64 number of matches.
        games: (K,) float64 discounted number of games, as are points, wins, draws and losses.
    """

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    matches: NDArray[np.int64]
    games: NDArray[np.float64]
    points: NDArray[np.float64]
    wins: NDArray[np.float64]
    draws: NDArray[np.float64]
    losses: NDArray[np.float64]

    def __len__(self) -> int:
        return self.low.size

    def advance(self, games: MatchArrays) -> "PairRecords":
        """Return the records with matches added, newest last."""
        different = games.home != games.away
        home, away, learning = games.home[different], games.away[different], games.training[different]
        low, high = np.minimum(home, away), np.maximum(home, away)
        score = np.where(home == low, games.score[different], 1.0 - games.score[different])
        # Pairs are numbered within the players that occur, so that codes stay small enough for lookup tables.
        players = distinct(self.low, self.high, np.array(games.players, dtype=np.int64))
        stored, reported = _codes(players, self.low, self.high), _codes(players, low, high)
        codes = distinct(stored, reported)
        cell = indices(codes, reported)
        new = arithmetic.count_results(cell, score, learning, codes.size)
        # Each training match discounts the older record of its pair, because a learner changes.
        discount = np.power(arithmetic.DECAY, np.bincount(cell, weights=learning, minlength=codes.size))
        index = indices(codes, stored)

        def discounted(old: NDArray[np.float64], added: NDArray[np.float64]) -> NDArray[np.float64]:
            spread = np.zeros(codes.size)
            spread[index] = old
            return spread * discount + added

        matches = np.bincount(cell, minlength=codes.size)
        matches[index] += self.matches
        return PairRecords(
            low=players[codes // players.size],
            high=players[codes % players.size],
            matches=matches,
            games=discounted(self.games, new.games),
            points=discounted(self.points, new.points),
            wins=discounted(self.wins, new.wins),
            draws=discounted(self.draws, new.draws),
            losses=discounted(self.losses, new.losses),
        )

    def among(self, games: MatchArrays) -> "PairRecords":
        """Return the records of the pairs in these matches."""
        players = distinct(self.low, self.high)
        low, high = np.minimum(games.home, games.away), np.maximum(games.home, games.away)
        different = low != high
        played = np.isin(_codes(players, self.low, self.high), _codes(players, low[different], high[different]))
        return PairRecords(*(column[played] for column in self._columns()))

    def counts(self) -> dict[Pair, PairCount]:
        """Return the records by pair."""
        rows = zip(*(column.tolist() for column in self._columns()), strict=True)
        return {(low, high): PairCount(*numbers) for low, high, *numbers in rows}

    def rows(self, environment: str) -> list[dict[str, Any]]:
        """Return the records as rows of the table."""
        columns = [column.tolist() for column in self._columns()]
        return [dict(zip(_COLUMNS, row, strict=True), environment=environment) for row in zip(*columns, strict=True)]

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.low, self.high, self.matches, self.games, self.points, self.wins, self.draws, self.losses


_NO_IDS, _NO_NUMBERS = np.zeros(0, dtype=np.int64), np.zeros(0)
NO_RECORDS = PairRecords(_NO_IDS, _NO_IDS, _NO_IDS, *(_NO_NUMBERS,) * 5)


def _codes(players: NDArray[np.int64], low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number pairs in order of (low, high), given all player ids in ascending order."""
    return indices(players, low) * players.size + indices(players, high)


def read(session: Session, environment: str, matches_min: int = 0) -> PairRecords:
    """Read the records up to the last closed period, of pairs with at least `matches_min` matches."""
    own = Payoff.environment == environment
    return _read(session, own if matches_min == 0 else own & (Payoff.matches >= matches_min))


def of_player(session: Session, player_id: int) -> PairRecords:
    """Read one player's records up to the last closed period."""
    return _records(session, _OF_PLAYER, {"player": player_id})


def current(session: Session, environment: str) -> PairRecords:
    """Read the records up to now, unrated matches included."""
    closed = match_log.rated_through(session, environment)
    return read(session, environment).advance(match_log.read(session, environment, closed, None))


def write(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    """Upsert records as returned by `PairRecords.rows`."""
    bulk_insert.put(session, Payoff, rows, key=(Payoff.low_id, Payoff.high_id), fixed=(Payoff.environment,))


def rewrite(session: Session, environment: str, records: PairRecords) -> None:
    """Replace all records of an environment."""
    session.execute(delete(Payoff).where(Payoff.environment == environment))
    write(session, records.rows(environment))


def against(
    records: PairRecords, player: int, opponents: Sequence[int] | NDArray[np.int64]
) -> tuple[arithmetic.WinCounts, NDArray[np.int64]]:
    """Return a player's win counts against K others from its point of view, shape (K,), and the numbers of matches.

    Args:
        records: All records of this player; see `of_player`.
        player: Id of the player.
        opponents: (K,) ids of the others.
    """
    low = records.low == player
    others = np.where(low, records.high, records.low)
    order = np.argsort(others)
    opponent_ids = np.array(opponents, dtype=np.int64)
    # An id above all others is found one past the end, so the index is clamped and the ids are compared.
    index = np.minimum(np.searchsorted(others, opponent_ids, sorter=order), max(len(records) - 1, 0))
    known = others[order][index] == opponent_ids if len(records) else np.zeros(opponent_ids.size, dtype=np.bool_)
    found = order[index[known]]

    def column(own: NDArray[Any], turned: NDArray[Any]) -> NDArray[Any]:
        cells = np.zeros(opponent_ids.size, dtype=own.dtype)
        cells[known] = np.where(low, own, turned)[found]
        return cells

    return _as_counts(records, column)


def matrix(records: PairRecords, players: Sequence[int]) -> tuple[arithmetic.WinCounts, NDArray[np.int64]]:
    """Return the win counts among P players, shape (P, P), and the numbers of matches."""
    return _as_counts(records, _square(records.low, records.high, players))


def _as_counts(
    records: PairRecords, view: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
) -> tuple[arithmetic.WinCounts, NDArray[np.int64]]:
    """Return records as win counts and numbers of matches.

    `view` arranges a column, given its values from the lower and from the higher id's point of view.
    """
    counts = arithmetic.WinCounts(
        games=view(records.games, records.games),
        points=view(records.points, records.games - records.points),
        wins=view(records.wins, records.losses),
        draws=view(records.draws, records.draws),
        losses=view(records.losses, records.wins),
    )
    return counts, view(records.matches, records.matches)


def pair_games(session: Session, environment: str, players: Sequence[int]) -> csr_array:
    """Return the sparse (P, P) numbers of matches between P players up to the last closed period."""
    columns: tuple[SQLColumnExpression[Any], ...] = Payoff.low_id, Payoff.high_id, Payoff.matches
    query = select(*columns).where(Payoff.environment == environment)
    low, high, matches = read_columns(session, query, len(columns))
    among, row, column = _pair_indices(low.astype(np.int64), high.astype(np.int64), players)
    cells = np.concatenate([row, column]), np.concatenate([column, row])
    return csr_array((np.tile(matches[among].astype(np.float64), 2), cells), shape=2 * (len(players),))


def _square(
    low: NDArray[np.int64], high: NDArray[np.int64], players: Sequence[int]
) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]:
    """Return a function that arranges columns of pairs, seen from the lower and the higher id, as (P, P) matrices."""
    among, row, column = _pair_indices(low, high, players)

    def square(of_low: NDArray[Any], of_high: NDArray[Any]) -> NDArray[Any]:
        cells = np.zeros((len(players), len(players)), dtype=of_low.dtype)
        cells[row, column], cells[column, row] = of_low[among], of_high[among]
        return cells

    return square


def _pair_indices(
    low: NDArray[np.int64], high: NDArray[np.int64], players: Sequence[int]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return which pairs are among P players, and the indices of their lower and higher ids in `players`."""
    ids = np.array(players, dtype=np.int64)
    order = np.argsort(ids)
    among = np.isin(low, ids) & np.isin(high, ids)
    row, column = (order[np.searchsorted(ids, side[among], sorter=order)] for side in (low, high))
    return among, row, column


def _read(session: Session, which: ColumnElement[bool]) -> PairRecords:
    return _records(session, _SELECTED.where(which), {})


def _records(session: Session, query: Select[Any], parameters: Mapping[str, Any]) -> PairRecords:
    low, high, matches, *numbers = read_columns(session, query, len(_COLUMNS), parameters)
    return PairRecords(low.astype(np.int64), high.astype(np.int64), matches.astype(np.int64), *numbers)
