"""The match log as arrays, in the order that it was written."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league.db.models import Match


@dataclass(frozen=True, eq=False)
class Games:
    """M matches of one environment, oldest first.

    Attributes:
        home: (M,) int64 player ids.
        away: (M,) int64 player ids.
        score: (M,) float64 of home, in [0, 1].
        training: (M,) true for training matches, false for rating matches.
    """

    home: NDArray[np.int64]
    away: NDArray[np.int64]
    score: NDArray[np.float64]
    training: NDArray[np.bool_]

    def __len__(self) -> int:
        return self.home.size

    def players(self) -> list[int]:
        """Name everybody who played, in ascending order."""
        return [int(player) for player in np.union1d(self.home, self.away)]


def read(session: Session, environment: str, after: int, through: int | None) -> Games:
    """Read the matches with ids in (after, through]; to the end of the log where `through` is None."""
    query = select(Match.home_id, Match.away_id, Match.score, Match.kind == "training")
    query = query.where(Match.environment == environment, Match.id > after)
    if through is not None:
        query = query.where(Match.id <= through)
    rows = session.execute(query.order_by(Match.id)).all()
    columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
    return Games(
        home=np.array(columns[0], dtype=np.int64),
        away=np.array(columns[1], dtype=np.int64),
        score=np.array(columns[2], dtype=np.float64),
        training=np.array(columns[3], dtype=np.bool_),
    )


def end(session: Session, environment: str) -> int:
    """Return the id of the environment's last match; 0 where there is none."""
    return session.scalar(select(func.max(Match.id)).where(Match.environment == environment)) or 0
