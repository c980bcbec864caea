"""The match log as arrays, oldest first, without excluded and unrated matches."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, SQLColumnExpression, func, select, union_all
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db import locks
from league.db.arrays import fetch_arrays, read_columns
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Environment, Match, Period
from league.services.matches import counting
from league.services.matches.indexing import distinct

_AT_ONCE = 1_000_000  # ids per query, which limits the database's memory to about 50 MB

MAX_WAIT_S = 0.25
"""Maximum time in seconds for which a reader blocks writers of matches."""


@dataclass(frozen=True, eq=False)
class MatchArrays:
    """M matches of one environment, oldest first.

    Attributes:
        home: (M,) int64 player ids.
        away: (M,) int64 player ids.
        score: (M,) float64 home scores, in [0, 1].
        training: (M,) true for training matches, false for rating matches.
    """

    home: NDArray[np.int64]
    away: NDArray[np.int64]
    score: NDArray[np.float64]
    training: NDArray[np.bool_]

    def __len__(self) -> int:
        return self.home.size

    @cached_property
    def players(self) -> list[int]:
        """Ids of all players, ascending."""
        players: list[int] = distinct(self.home, self.away).tolist()
        return players


def read(session: Session, environment: str, after: int, through: int | None) -> MatchArrays:
    """Read the matches with ids in (after, through], or to the end of the log if `through` is None."""
    columns = Match.home_id, Match.away_id, Match.score, Match.kind == "training"
    # The score is copied below: a view would hold the memory of all columns.
    home, away, score, training = _read_columns(session, environment, after, through, *columns)
    return MatchArrays(home.astype(np.int64), away.astype(np.int64), score.copy(), training.astype(np.bool_))


def last_of(
    session: Session, player_id: int, through: int, count: int, *, after: int = 0, from_step: int = 0
) -> MatchArrays:
    """Read a player's last matches against others, at most `count`, of those with ids in (after, through].

    Args:
        session: A transaction.
        player_id: The player.
        through: Id of the last match to consider.
        count: Maximum number of matches.
        after: Id of the match before the first one to consider.
        from_step: For a learner, only matches reported at this step or later.
    """
    which = Match.home_id != Match.away_id, Match.id > after, Match.id <= through, *counting.rated(session)
    columns = Match.id, Match.home_id, Match.away_id, Match.score, (Match.kind == "training").label("training")
    since = [Match.learner_step >= from_step] if from_step else []

    def last_on(side: InstrumentedAttribute[int]) -> Select[Any]:
        query = select(*columns).where(side == player_id, *which, *since).order_by(Match.id.desc()).limit(count)
        return select(query.subquery())

    # One limited query per side: each walks the index of its column from the end, which an OR of both could not.
    both = union_all(last_on(Match.home_id), last_on(Match.away_id)).subquery()
    newest_first = select(both).order_by(both.c.id.desc()).limit(count)
    _, home, away, score, training = read_columns(session, newest_first, len(columns))[:, ::-1]
    return MatchArrays(home.astype(np.int64), away.astype(np.int64), score.copy(), training.astype(np.bool_))


def ids(session: Session, environment: str, after: int, through: int | None) -> NDArray[np.int64]:
    """Read the ids of the matches that `read` returns."""
    ids: NDArray[np.int64] = _read_columns(session, environment, after, through, Match.id)[0].astype(np.int64)
    return ids


def rated_through(session: Session, environment: str) -> int:
    """Return the id of the last match in the newest closed period, 0 before the first."""
    return session.scalar(select(func.max(Period.last_match_id)).where(Period.environment == environment)) or 0


def end(session: Session, environment: str) -> int:
    """Return the id of the environment's last match, 0 without one."""
    return session.scalar(select(func.max(Match.id)).where(Match.environment == environment)) or 0


def settled_after(database: Database, match_id: int) -> int:
    """Return the largest id up to which every match is committed, at least `match_id`.

    PostgreSQL assigns ids before transactions commit, so a lower id may become visible after a higher one. Writers hold
    the shared INTAKE lock until they commit, so this waits for the current holders. Writers must not wait long for
    readers: after `MAX_WAIT_S` it returns `match_id`, and the caller tries again later.
    """
    with database.read() as session:
        last = session.scalar(select(func.max(Match.id))) or 0
        environments = session.scalars(select(Environment.name)).all()
    if last <= match_id:
        return match_id
    finished = (locks.wait_for_holders(database, Lock.INTAKE, environment, MAX_WAIT_S) for environment in environments)
    return last if all(finished) else match_id


def _read_columns(
    session: Session, environment: str, after: int, through: int | None, *columns: SQLColumnExpression[Any]
) -> NDArray[np.float64]:
    """Read (columns, M) values of the rated matches, oldest first."""
    last = end(session, environment) if through is None else through
    which = Match.environment == environment, *counting.rated(session)
    query = select(*columns).where(*which).order_by(Match.id)
    parts = [
        # Ranges of ids rather than LIMIT/OFFSET: each query seeks directly to its start.
        fetch_arrays(session, query.where(Match.id > start, Match.id <= min(start + _AT_ONCE, last)), len(columns))
        for start in range(after, last, _AT_ONCE)
    ]
    return np.concatenate(parts, axis=1) if parts else np.empty((len(columns), 0))
