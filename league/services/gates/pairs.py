"""Pentanomial scores of gates: pairs of matches with sides swapped, in the order in which they were leased.

Two leases on one seed with sides swapped hold pairs: the matches of one sequence. A sequential test may look at them
in an order that was fixed before they were played, and in no other. Quick matches arrive first, and may be won by other
players. So the first pair that is still to come ends what can be judged; one that will not come any more is left out.

What is judged once stays judged, unless workers come to be trusted or not. So a reader who has read a gate before goes
on from where it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, or_, select
from sqlalchemy.orm import Session

from league.db.models import Lease, Match, Quarantine
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


@dataclass(frozen=True, eq=False)
class Settled:
    """The first pairs of a gate, which nothing changes any more.

    Attributes:
        after: Id of the lease after which leases hold others; "" where nothing is settled.
        seeds: Those of settled pairs with a lease after it, each with its last one.
        scores: Of the pairs that came.
        lost: How many pairs before each will not come.
        gone: How many will not come altogether.
        distrusted: The quarantines of workers that this holds under.
    """

    after: str
    seeds: Mapping[int, str]
    scores: Sequence[float]
    lost: Sequence[int]
    gone: int
    distrusted: Sequence[Any]


NOTHING = Settled("", {}, (), (), 0, ())


def read(
    session: Session, gate_id: int, candidate_id: int, now: datetime, settled: Settled = NOTHING
) -> tuple[GateScores, Settled]:
    """Read a gate's pairs. Results count that came before their lease's end, from workers that are trusted.

    Args:
        session: A transaction.
        gate_id: Which.
        candidate_id: Whose scores.
        now: The time.
        settled: What an earlier reading found settled, from where this one goes on.

    Returns:
        The scores, and what is settled now.
    """
    distrusted = _distrusted(session)
    known = settled if settled.distrusted == distrusted else replace(NOTHING, distrusted=distrusted)
    games = _games(session, gate_id, candidate_id, now, known)
    walk = _Walk(list(known.scores), list(known.lost), known.gone)
    done = list(takewhile(lambda game: game.settled(now), games))
    walk.take(done)
    if done:
        known = _settled(walk, known, done)
    walk.take(games[len(done) :])
    return walk.result(), known


@dataclass(frozen=True)
class _Lease:
    id: str
    candidate_at_home: bool
    budget: int
    granted_at: datetime
    over: bool


@dataclass(frozen=True)
class _Pair:
    """The candidate's mean score, None while a match is missing; `over` says that what is missing will not come."""

    score: float | None
    over: bool


@dataclass(frozen=True)
class _Game:
    """The leases of one seed, and the pairs that they hold, by sequence."""

    seed: int
    leases: Sequence[_Lease]
    pairs: Sequence[_Pair]

    def settled(self, now: datetime) -> bool:
        """Say whether nothing changes about it any more, and leases that are still to be written come after it."""
        written = now > max(lease.granted_at for lease in self.leases) + _ON_ITS_WAY
        return written and all(pair.over for pair in self.pairs)


@dataclass
class _Walk:
    """Goes through pairs in order; those behind the first that is still to come have merely arrived."""

    scores: list[float]
    lost: list[int]
    gone: int
    ahead: list[float] = field(default_factory=list)
    waiting: int = 0

    def take(self, games: Iterable[_Game]) -> None:
        """Take the pairs of the next games."""
        for pair in chain.from_iterable(game.pairs for game in games):
            if self.waiting or not pair.over:
                self.waiting += 1
                self.ahead += [] if pair.score is None else [pair.score]
            elif pair.score is None:
                self.gone += 1
            else:
                self.scores.append(pair.score)
                self.lost.append(self.gone)

    def result(self) -> GateScores:
        """Return what was seen."""
        return GateScores(
            scores=np.array(self.scores),
            lost=np.array(self.lost, dtype=np.int64),
            waiting=self.waiting,
            arrived=np.array(self.scores + self.ahead),
        )


def _distrusted(session: Session) -> tuple[Any, ...]:
    """Return what says whose results do not count."""
    columns = Quarantine.id, Quarantine.since, Quarantine.until
    return tuple(map(tuple, session.execute(select(*columns).order_by(Quarantine.id))))


def _settled(walk: _Walk, known: Settled, games: Sequence[_Game]) -> Settled:
    """Return what is settled where a walk has come to the end of settled games."""
    after = games[-1].leases[0].id
    last = dict(known.seeds) | {game.seed: game.leases[-1].id for game in games}
    return Settled(
        after=after,
        seeds={seed: lease for seed, lease in last.items() if lease > after},
        scores=tuple(walk.scores),
        lost=tuple(walk.lost),
        gone=walk.gone,
        distrusted=known.distrusted,
    )


def _games(session: Session, gate_id: int, candidate_id: int, now: datetime, known: Settled) -> list[_Game]:
    """Read the games that are not settled, first leased first."""
    columns = Lease.id, Lease.seed, Lease.home_id, Lease.budget, Lease.granted_at, Lease.expires_at, Lease.released_at
    own = Lease.gate_id == gate_id, Lease.id > known.after
    leases: dict[int, list[_Lease]] = {}
    for lease_id, seed, home_id, budget, granted_at, expires_at, released_at in session.execute(
        select(*columns).where(*own).order_by(Lease.id)
    ):
        ended_at = min(expires_at, released_at or expires_at)
        lease = _Lease(lease_id, home_id == candidate_id, budget, granted_at, over=now > ended_at + _ON_ITS_WAY)
        leases.setdefault(seed, []).append(lease)
    played = _played(session, own)
    return [_Game(seed, two, _pairs(two, played)) for seed, two in leases.items() if seed not in known.seeds]


def _played(session: Session, own: Iterable[ColumnElement[bool]]) -> dict[tuple[str, int], float]:
    """Return home's scores by lease and sequence."""
    columns = Match.lease_id, Match.sequence, Match.score
    query = select(*columns).join(Lease, Lease.id == Match.lease_id).where(*own)
    rows = session.execute(query.where(~Match.late, _before_release(), *counting.counted(session)))
    return {(lease_id, sequence): score for lease_id, sequence, score in rows}


def _before_release() -> ColumnElement[bool]:
    return or_(Lease.released_at.is_(None), Match.reported_at <= Lease.released_at)


def _pairs(leases: Sequence[_Lease], played: dict[tuple[str, int], float]) -> list[_Pair]:
    """Return the pairs that the two leases of one seed hold, by sequence."""
    return [_pair(leases, number, played) for number in range(min(lease.budget for lease in leases))]


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
