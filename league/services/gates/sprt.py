"""Verdicts of gates by a sequential probability ratio test (SPRT), computed from the match log alone.

When results of a worker cease to count, or count again, the gates that have a verdict are judged anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy import Select, exists, select
from sqlalchemy.orm import Session

from arena.evaluation import sprt as arithmetic
from arena.evaluation.sprt import Decision, SprtConfig, SprtResult
from league import wire
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Gate, Lease, Player, Quarantine
from league.errors import UnknownGateError
from league.services.audit import log as audit_log
from league.services.audit.log import RULE, Cause
from league.services.gates import pairs as gate_pairs
from league.services.gates.pairs import GateScores
from league.services.matches import counting

"""Who opens the gates of the rule of promotion, and closes all."""

NUMBERS = ("elo0", "elo1", "alpha", "beta", "least_games")
"""What makes two tests of the same two players the same test."""

STATES: dict[Decision, wire.GateState] = {"accept": "accepted", "reject": "rejected", "continue": "open"}

_DECIDED = "accepted", "rejected"
_REMEMBERED = 64
"""Verdicts that one process remembers, each with its scores."""

_EVALUATED_EVERY = timedelta(seconds=2)
"""How old the answer to those who grant leases may be."""

_WHEN_ALL_IS_OVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Judged:
    """Where a gate stands, by what was played so far."""

    verdict: SprtResult
    lost: int
    waiting: int

    @property
    def state(self) -> wire.GateState:
        """The state that the verdict leads to."""
        return STATES[self.verdict.stop.decision]

    def fields(self) -> dict[str, Any]:
        """Return the figures as the wire has them."""
        stop, lead = self.verdict.stop, self.verdict.lead
        return {
            "games": stop.games,
            "counts": list(stop.counts),
            "llr": stop.llr,
            "lower": stop.lower,
            "upper": stop.upper,
            "elo": lead.elo,
            "elo_low": lead.low,
            "elo_high": lead.high,
            "lost_pairs": self.lost,
        }

    def words(self) -> str:
        """Say where the gate stands in one line."""
        stop, lead = self.verdict.stop, self.verdict.lead
        return (
            f"{self.state} after {stop.games} games: LLR {stop.llr:.2f} in ({stop.lower:.2f}, {stop.upper:.2f}), "
            f"{lead.elo:+.0f} points [{lead.low:+.0f}, {lead.high:+.0f}]"
        )

    def differs(self, gate: Gate) -> bool:
        """Say whether a gate's verdict is another."""
        stop = self.verdict.stop
        told = gate.state, gate.verdict.get("games"), gate.verdict.get("counts")
        return (self.state, stop.games, list(stop.counts)) != told


@dataclass(frozen=True)
class Ending:
    """The state that a gate ends in, its figures then, and why."""

    state: wire.GateState
    figures: dict[str, Any]
    reason: str


@dataclass(frozen=True)
class Closed:
    """A gate that was closed, and why."""

    gate_id: int
    environment: str
    reason: str


class GateEvaluator:
    """Tells those who grant leases which gates need no more pairs; read again every `_EVALUATED_EVERY`."""

    def __init__(self) -> None:
        self._enough: frozenset[int] = frozenset()
        self._evaluated_at = datetime.min.replace(tzinfo=UTC)

    def enough(self, session: Session, now: datetime) -> frozenset[int]:
        """Return the ids of the open gates whose results suffice for a verdict as they came.

        The verdict falls once the pairs before them have come or are lost. Until then more pairs would be wasted.
        """
        if not timedelta(0) <= now - self._evaluated_at < _EVALUATED_EVERY:  # the clock may have been set back
            self._evaluated_at = now
            seen = {gate: _read(session, gate, now) for gate in _open_gates(session)}
            self._enough = frozenset(gate.id for gate, scores in seen.items() if _decision(gate, scores) != "continue")
        return self._enough


def judge(session: Session, gate: Gate, now: datetime) -> Judged:
    """Return a gate's verdict by all of its matches."""
    scores = _read(session, gate, now)
    verdict = _verdict(scores.scores.tobytes(), config(gate))
    pairs = verdict.stop.games // 2
    return Judged(verdict, int(scores.lost[pairs - 1]) if pairs else 0, scores.waiting)


def _open_gates(session: Session) -> Sequence[Gate]:
    return session.scalars(select(Gate).where(Gate.state == "open").order_by(Gate.id)).all()


def _read(session: Session, gate: Gate, now: datetime) -> GateScores:
    return gate_pairs.read(session, gate.id, gate.candidate_id, now)


def judge_open(database: Database, now: datetime) -> list[Closed]:
    """Close the gates whose verdict has fallen, and those of players that are quarantined; return them."""
    with database.read() as session:
        due = [
            gate.id for gate in _open_gates(session) if _ending(session, gate, judge(session, gate, now)) is not None
        ]
    closed = []
    for gate_id in due:
        with database.write() as session:
            locks.acquire(session, Lock.EVENTS)
            gate = require(session, gate_id)
            ending = _ending(session, gate, judge(session, gate, now)) if gate.state == "open" else None
            if ending is not None:
                close(session, gate, ending, RULE, now)
                closed.append(Closed(gate.id, gate.environment, ending.reason))
    return closed


def judge_again(database: Database, now: datetime) -> None:
    """Judge the gates anew that have a verdict and results of workers who are or were not trusted.

    A gate whose verdict does not hold gets the right one, or goes on. What followed from the old one is for people to
    put right: the audit log tells.
    """
    with database.read() as session:
        concerned = session.scalars(_touched_by_quarantines()).all()
    for gate_id in concerned:
        with database.write() as session:
            locks.acquire(session, Lock.EVENTS)
            gate = require(session, gate_id)
            judged = judge(session, gate, now)
            if judged.state != gate.state:
                _overturn(session, gate, judged, now)


def judged_wrongly(session: Session, environment: str) -> list[int]:
    """Return the ids of gates whose verdict is not what the log says."""
    decided = Gate.environment == environment, Gate.state.in_(_DECIDED)
    return [
        gate.id
        for gate in session.scalars(select(Gate).where(*decided).order_by(Gate.id))
        if judge(session, gate, _WHEN_ALL_IS_OVER).differs(gate)
    ]


def leased_wrongly(session: Session, environment: str) -> list[str]:
    """Return the ids of leases that name a gate and do not seat its two players."""
    two = (Gate.candidate_id, Gate.champion_id)
    right = Gate.id == Lease.gate_id, Lease.home_id.in_(two), Lease.away_id.in_(two), Lease.home_id != Lease.away_id
    own = Lease.environment == environment, Lease.gate_id.is_not(None)
    return list(session.scalars(select(Lease.id).where(*own, ~exists().where(*right)).order_by(Lease.id)))


def require(session: Session, gate_id: int) -> Gate:
    """Return a gate.

    Raises:
        UnknownGateError: There is no such gate.
    """
    gate = session.get(Gate, gate_id)
    if gate is None:
        raise UnknownGateError(gate_id, "no gate has this id", "list them with GET /gates")
    return gate


def last_of(session: Session, test: Gate | wire.GateCreate) -> Gate | None:
    """Return the newest gate of the same test of the same two."""
    same = (getattr(Gate, name) == getattr(test, name) for name in ("candidate_id", "champion_id", *NUMBERS))
    return session.scalar(select(Gate).where(*same).order_by(Gate.id.desc()).limit(1))


def config(test: Gate | wire.GateCreate) -> SprtConfig:
    """Return what is tested, and how surely.

    Raises:
        ValueError: The numbers are no test.
    """
    return SprtConfig(**{name: getattr(test, name) for name in NUMBERS})


def close(session: Session, gate: Gate, ending: Ending, actor: str, now: datetime) -> None:
    """End a gate."""
    gate.state, gate.verdict = ending.state, ending.figures
    gate.closed_reason, gate.closed_at = ending.reason, now
    session.flush()
    record(session, gate, actor, ending.reason, now)


def record(session: Session, gate: Gate, actor: str, reason: str, now: datetime) -> None:
    """Write down in the audit log what became of a gate."""
    audit_log.record(
        session,
        counting.GATE,
        Cause(actor, reason, now),
        environment=gate.environment,
        player_id=gate.candidate_id,
        details={"gate": gate.id, "state": gate.state, "against": gate.champion_id},
    )


def _decision(gate: Gate, seen: GateScores) -> Decision:
    """Return what the results say as they came."""
    return _verdict(seen.arrived.tobytes(), config(gate)).stop.decision


@lru_cache(maxsize=_REMEMBERED)
def _verdict(scores: bytes, numbers: SprtConfig) -> SprtResult:
    """Judge float64 scores; most gates are looked at far more often than they change."""
    return arithmetic.run_sprt(np.frombuffer(scores), numbers)


def _ending(session: Session, gate: Gate, judged: Judged) -> Ending | None:
    """Return how an open gate is to end; None while it goes on."""
    if judged.state != "open":
        return Ending(judged.state, judged.fields(), judged.words())
    quarantined = Player.id.in_((gate.candidate_id, gate.champion_id)), Player.standing == "quarantined"
    out = session.scalar(select(Player.name).where(*quarantined).limit(1))
    return None if out is None else Ending("cancelled", judged.fields(), f"{out} was quarantined")


def _touched_by_quarantines() -> Select[int]:
    distrusted = exists().where(Quarantine.worker_id == Lease.worker_id)
    leased = exists().where(Lease.gate_id == Gate.id, distrusted)
    return select(Gate.id).where(Gate.state.in_(_DECIDED), leased).order_by(Gate.id)


def _overturn(session: Session, gate: Gate, judged: Judged, now: datetime) -> None:
    before = gate.state
    reason = f"it was {before}; the results of a worker were excluded or included again: {judged.words()}"
    last = last_of(session, gate)
    if judged.state != "open":
        close(session, gate, Ending(judged.state, judged.fields(), reason), RULE, now)
    elif last is not None and last.id != gate.id:
        close(session, gate, Ending("cancelled", judged.fields(), reason), RULE, now)
    else:
        gate.state, gate.verdict, gate.closed_reason, gate.closed_at = "open", {}, None, None
        session.flush()
        record(session, gate, RULE, reason, now)
