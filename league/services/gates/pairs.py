"""Pentanomial scores of gates: pairs of matches with sides swapped, in the order in which they were leased.

Two leases on one seed with sides swapped hold pairs: the matches of one sequence. A sequential test may look at them
in an order that was fixed before they were played, and in no other. Quick matches arrive first, and may be won by other
players. So the first pair that is still to come ends what can be judged; one that will not come any more is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from league.db.models import Lease, Match
from league.services.matches import counting

_ON_ITS_WAY = timedelta(seconds=30)
"""How long what was granted or reported by a time may take to be written."""


@dataclass(frozen=True, eq=False)
class GateScores:
    """What a gate has seen by a time.

    Attributes:
        scores: (N,) mean score of the candidate in each pair that can be judged, in [0, 1], first leased first.
        lost: (N,) int64 pairs that were leased before each and will not come.
        waiting: How many pairs are leased and cannot be judged yet.
        arrived: (M,) the scores, and behind them those of later pairs that came before one that is still to come.
    """

    scores: NDArray[np.float64]
    lost: NDArray[np.int64]
    waiting: int
    arrived: NDArray[np.float64]


def read(session: Session, gate_id: int, candidate_id: int, now: datetime) -> GateScores:
    """Read a gate's pairs. Results count that came before their lease's end, from workers that are trusted.

    Args:
        session: A transaction.
        gate_id: Which.
        candidate_id: Whose scores.
        now: The time.
    """
    scores: list[float] = []
    lost: list[int] = []
    later: list[float] = []  # of pairs behind the first that is still to come
    gone = waiting = 0
    for pair in _read_pairs(session, gate_id, candidate_id, now):
        if waiting or not pair.over:
            waiting += 1
            later += [] if pair.score is None else [pair.score]
        elif pair.score is None:
            gone += 1
        else:
            scores.append(pair.score)
            lost.append(gone)
    return GateScores(np.array(scores), np.array(lost, dtype=np.int64), waiting, np.array(scores + later))


@dataclass(frozen=True)
class _Lease:
    id: str
    candidate_at_home: bool
    budget: int
    over: bool


@dataclass(frozen=True)
class _Pair:
    """The candidate's mean score, None while a match is missing; `over` says that what is missing will not come."""

    score: float | None
    over: bool


def _read_pairs(session: Session, gate_id: int, candidate_id: int, now: datetime) -> Iterator[_Pair]:
    """Read the pairs in the order in which they were leased, then by sequence."""
    columns = Lease.id, Lease.seed, Lease.home_id, Lease.budget, Lease.expires_at, Lease.released_at
    leases: dict[int, list[_Lease]] = {}
    for lease_id, seed, home_id, budget, expires_at, released_at in session.execute(
        select(*columns).where(Lease.gate_id == gate_id).order_by(Lease.id)
    ):
        ended_at = min(expires_at, released_at or expires_at)
        lease = _Lease(lease_id, home_id == candidate_id, budget, over=now > ended_at + _ON_ITS_WAY)
        leases.setdefault(seed, []).append(lease)
    played = _played(session, gate_id)
    for two in leases.values():
        for number in range(min(lease.budget for lease in two)):
            yield _pair(two, number, played)


def _played(session: Session, gate_id: int) -> dict[tuple[str, int], float]:
    """Return home's scores by lease and sequence."""
    columns = Match.lease_id, Match.sequence, Match.score
    query = select(*columns).join(Lease, Lease.id == Match.lease_id).where(Lease.gate_id == gate_id)
    rows = session.execute(query.where(~Match.late, _before_release(), *counting.counted(session)))
    return {(lease_id, sequence): score for lease_id, sequence, score in rows}


def _before_release() -> ColumnElement[bool]:
    return or_(Lease.released_at.is_(None), Match.reported_at <= Lease.released_at)


def _pair(leases: Sequence[_Lease], number: int, played: dict[tuple[str, int], float]) -> _Pair:
    scores = []
    for lease in leases:
        score = played.get((lease.id, number))
        if score is not None:
            scores.append(score if lease.candidate_at_home else 1.0 - score)
    if len(scores) == 2:
        return _Pair(sum(scores) / 2, over=True)
    missing = [lease for lease in leases if (lease.id, number) not in played]
    return _Pair(None, over=len(leases) != 2 or any(lease.over for lease in missing))
