"""Pentanomial scores of gates: pairs of matches with swapped sides, in the order of their leases.

Two leases with one seed and swapped sides contain the pairs: the matches with equal sequence numbers. A sequential test
must evaluate pairs in an order that was fixed before they were played. Short matches arrive first and may favour one
player, so the order of arrival would bias the test. Evaluation therefore stops at the first pending pair; a pair that
can no longer arrive is skipped.
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
"""Maximum delay between the time of a grant or report and its commit."""


@dataclass(frozen=True, eq=False)
class GateScores:
    """Scores of a gate so far.

    Attributes:
        scores: (N,) mean score of the candidate in each pair that can be evaluated, in [0, 1], in the order of leases.
        lost: (N,) int64 number of lost pairs before each of them.
        waiting: Number of leased pairs that cannot be evaluated yet.
        arrived: (M,) the scores, followed by those of complete pairs after the first pending one.
    """

    scores: NDArray[np.float64]
    lost: NDArray[np.int64]
    waiting: int
    arrived: NDArray[np.float64]

    @property
    def pending(self) -> int:
        """Number of leased pairs that are not complete."""
        return self.waiting - (self.arrived.size - self.scores.size)


def read(session: Session, gate_id: int, candidate_id: int, now: datetime) -> GateScores:
    """Read a gate's pairs. Results count if they were reported before the lease ended, by workers without quarantine.

    Args:
        session: A transaction.
        gate_id: Id of the gate.
        candidate_id: Player id of the candidate.
        now: Current time.
    """
    scores: list[float] = []
    lost: list[int] = []
    later: list[float] = []  # complete pairs after the first pending one
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
    """The candidate's mean score, None while a match is missing.

    `over` means that the missing match can no longer arrive.
    """

    score: float | None
    over: bool


def _read_pairs(session: Session, gate_id: int, candidate_id: int, now: datetime) -> Iterator[_Pair]:
    """Read the pairs in the order of their leases, then by sequence."""
    columns = Lease.id, Lease.seed, Lease.home_id, Lease.budget, Lease.expires_at, Lease.released_at
    leases: dict[int, list[_Lease]] = {}
    for lease_id, seed, home_id, budget, expires_at, released_at in session.execute(
        select(*columns).where(Lease.gate_id == gate_id).order_by(Lease.id)
    ):
        # After a release no result is expected, even if the lease has not expired.
        ended_at = min(expires_at, released_at or expires_at)
        lease = _Lease(lease_id, home_id == candidate_id, budget, over=now > ended_at + _ON_ITS_WAY)
        leases.setdefault(seed, []).append(lease)
    played = _played(session, gate_id)
    for two in leases.values():
        for number in range(min(lease.budget for lease in two)):
            yield _pair(two, number, played)


def _played(session: Session, gate_id: int) -> dict[tuple[str, int], float]:
    """Return the home scores by lease and sequence."""
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
