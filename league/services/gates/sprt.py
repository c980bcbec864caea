"""Verdicts of gates by a sequential probability ratio test (SPRT), computed from the match log alone.

When a worker is quarantined or reinstated, gates with a verdict are evaluated again.
"""

import sys
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

NUMBERS = ("elo0", "elo1", "alpha", "beta", "least_games")
"""Settings that identify a test of two players."""

STATES: dict[Decision, wire.GateState] = {"accept": "accepted", "reject": "rejected", "continue": "open"}

_DECIDED = "accepted", "rejected"
_CACHED_VERDICTS = 64
"""Number of cached verdicts, each with its scores."""

FIRST_PAIRS = 16
"""Number of pairs that a gate of the promotion rule gets before a result has arrived."""

_EVALUATED_EVERY = timedelta(seconds=2)
"""Maximum age of the cached evaluation that lease requests use."""

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a gate over its matches so far."""

    verdict: SprtResult
    lost: int
    waiting: int

    @property
    def state(self) -> wire.GateState:
        """State of the gate according to the test."""
        return STATES[self.verdict.stop.decision]

    def fields(self) -> dict[str, Any]:
        """Return the numbers as fields of the response body."""
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
        """Return a one-line summary."""
        stop, lead = self.verdict.stop, self.verdict.lead
        return (
            f"{self.state} after {stop.games} games: LLR {stop.llr:.2f} in ({stop.lower:.2f}, {stop.upper:.2f}), "
            f"{lead.elo:+.0f} points [{lead.low:+.0f}, {lead.high:+.0f}]"
        )

    def differs(self, gate: Gate) -> bool:
        """Return whether a gate's stored verdict differs from this one."""
        stop = self.verdict.stop
        stored = gate.state, gate.verdict.get("games"), gate.verdict.get("counts")
        return (self.state, stop.games, list(stop.counts)) != stored


@dataclass(frozen=True)
class Ending:
    """Final state of a gate, its numbers and the reason."""

    state: wire.GateState
    numbers: dict[str, Any]
    reason: str


@dataclass(frozen=True)
class Closed:
    """A gate that was closed, with the reason."""

    gate_id: int
    environment: str
    reason: str


class GateEvaluator:
    """Cached number of pairs that open gates need, for lease requests; refreshed every `_EVALUATED_EVERY`."""

    def __init__(self) -> None:
        self._needs: dict[int, int] = {}
        self._evaluated_at = datetime.min.replace(tzinfo=UTC)

    def needs(self, session: Session, now: datetime) -> dict[int, int]:
        """Return the number of pairs to lease now for each open gate, by id.

        It is 0 if enough results for a verdict have arrived. The verdict follows when the pending pairs before them are
        complete or lost. A gate of the promotion rule gets as many pending pairs as have arrived, and at least
        `FIRST_PAIRS`: pairs that are pending at the verdict are lost to rating matches. Gates that a user opened are
        not limited, because someone waits for them.
        """
        if not timedelta(0) <= now - self._evaluated_at < _EVALUATED_EVERY:  # the clock may have been set back
            self._evaluated_at = now
            self._needs = {gate.id: _needs(gate, _read(session, gate, now)) for gate in _open_gates(session)}
        return self._needs


def evaluate(session: Session, gate: Gate, now: datetime) -> Evaluation:
    """Evaluate a gate over all of its matches."""
    scores = _read(session, gate, now)
    verdict = _verdict(scores.scores.tobytes(), config(gate))
    pairs = verdict.stop.games // 2
    # A game is one match, and a pair two: lost pairs are counted up to the pair at which the test stopped.
    return Evaluation(verdict, int(scores.lost[pairs - 1]) if pairs else 0, scores.waiting)


def _open_gates(session: Session) -> Sequence[Gate]:
    return session.scalars(select(Gate).where(Gate.state == "open").order_by(Gate.id)).all()


def _read(session: Session, gate: Gate, now: datetime) -> GateScores:
    return gate_pairs.read(session, gate.id, gate.candidate_id, now)


def close_decided(database: Database, now: datetime) -> list[Closed]:
    """Close the gates that have a verdict, or a quarantined player; return them."""
    with database.read() as session:
        due = [
            gate.id for gate in _open_gates(session) if _ending(session, gate, evaluate(session, gate, now)) is not None
        ]
    closed = []
    for gate_id in due:
        with database.write() as session:
            locks.acquire(session, Lock.EVENTS)
            gate = require(session, gate_id)
            # Evaluated again under the lock: another process may have closed the gate, or its results may have
            # changed.
            ending = _ending(session, gate, evaluate(session, gate, now)) if gate.state == "open" else None
            if ending is not None:
                close(session, gate, ending, RULE, now)
                closed.append(Closed(gate.id, gate.environment, ending.reason))
    return closed


def reevaluate_decided(database: Database, now: datetime) -> None:
    """Evaluate gates with a verdict again if a worker that leased matches of them was ever quarantined.

    A gate with a wrong verdict gets the right one or is reopened. The consequences of the wrong one are not undone; the
    audit log contains the change.
    """
    with database.read() as session:
        gate_ids = session.scalars(_touched_by_quarantines()).all()
    for gate_id in gate_ids:
        with database.write() as session:
            locks.acquire(session, Lock.EVENTS)
            gate = require(session, gate_id)
            evaluation = evaluate(session, gate, now)
            if evaluation.state != gate.state:
                _overturn(session, gate, evaluation, now)


def find_wrong_verdicts(session: Session, environment: str) -> list[int]:
    """Return the ids of gates whose stored verdict differs from the match log."""
    decided = Gate.environment == environment, Gate.state.in_(_DECIDED)
    return [
        gate.id
        for gate in session.scalars(select(Gate).where(*decided).order_by(Gate.id))
        # At the end of time no pair is pending any more, so each gate has its final verdict.
        if evaluate(session, gate, _END_OF_TIME).differs(gate)
    ]


def find_wrong_leases(session: Session, environment: str) -> list[str]:
    """Return the ids of leases that refer to a gate but not to its two players."""
    two = (Gate.candidate_id, Gate.champion_id)
    right = Gate.id == Lease.gate_id, Lease.home_id.in_(two), Lease.away_id.in_(two), Lease.home_id != Lease.away_id
    own = Lease.environment == environment, Lease.gate_id.is_not(None)
    return list(session.scalars(select(Lease.id).where(*own, ~exists().where(*right)).order_by(Lease.id)))


def require(session: Session, gate_id: int) -> Gate:
    """Return the gate with an id.

    Raises:
        UnknownGateError: There is no such gate.
    """
    gate = session.get(Gate, gate_id)
    if gate is None:
        raise UnknownGateError(gate_id, "no gate has this id", "list them with GET /gates")
    return gate


def last_of(session: Session, test: Gate | wire.GateCreate) -> Gate | None:
    """Return the newest gate with the same test of the same two players."""
    same = (getattr(Gate, name) == getattr(test, name) for name in ("candidate_id", "champion_id", *NUMBERS))
    return session.scalar(select(Gate).where(*same).order_by(Gate.id.desc()).limit(1))


def config(test: Gate | wire.Gate | wire.GateCreate) -> SprtConfig:
    """Return the test configuration.

    Raises:
        ValueError: The settings are invalid.
    """
    return SprtConfig(**{name: getattr(test, name) for name in NUMBERS})


def close(session: Session, gate: Gate, ending: Ending, actor: str, now: datetime) -> None:
    """Close a gate."""
    gate.state, gate.verdict = ending.state, ending.numbers
    gate.closed_reason, gate.closed_at = ending.reason, now
    session.flush()
    record(session, gate, actor, ending.reason, now)


def record(session: Session, gate: Gate, actor: str, reason: str, now: datetime) -> None:
    """Record a change of a gate in the audit log."""
    audit_log.record(
        session,
        counting.GATE,
        Cause(actor, reason, now),
        environment=gate.environment,
        player_id=gate.candidate_id,
        details={"gate": gate.id, "state": gate.state, "against": gate.champion_id},
    )


def _needs(gate: Gate, scores: GateScores) -> int:
    if _verdict(scores.arrived.tobytes(), config(gate)).stop.decision != "continue":
        return 0
    if gate.actor != RULE:
        return sys.maxsize
    return max(0, max(FIRST_PAIRS, scores.arrived.size) - scores.pending)


@lru_cache(maxsize=_CACHED_VERDICTS)
def _verdict(scores: bytes, numbers: SprtConfig) -> SprtResult:
    """Run the test on float64 scores; cached, because most gates are read far more often than they change."""
    # Scores arrive as bytes, because arrays cannot be keys of a cache.
    return arithmetic.run_sprt(np.frombuffer(scores), numbers)


def _ending(session: Session, gate: Gate, evaluation: Evaluation) -> Ending | None:
    """Return the final state of an open gate, or None while it continues."""
    if evaluation.state != "open":
        return Ending(evaluation.state, evaluation.fields(), evaluation.words())
    quarantined = Player.id.in_((gate.candidate_id, gate.champion_id)), Player.standing == "quarantined"
    out = session.scalar(select(Player.name).where(*quarantined).limit(1))
    return None if out is None else Ending("cancelled", evaluation.fields(), f"{out} was quarantined")


def _touched_by_quarantines() -> Select[int]:
    distrusted = exists().where(Quarantine.worker_id == Lease.worker_id)
    leased = exists().where(Lease.gate_id == Gate.id, distrusted)
    return select(Gate.id).where(Gate.state.in_(_DECIDED), leased).order_by(Gate.id)


def _overturn(session: Session, gate: Gate, evaluation: Evaluation, now: datetime) -> None:
    before = gate.state
    reason = f"it was {before}; the results of a worker were excluded or included again: {evaluation.words()}"
    last = last_of(session, gate)
    if evaluation.state != "open":
        close(session, gate, Ending(evaluation.state, evaluation.fields(), reason), RULE, now)
    # At most one gate of a test may be open: a newer one exists, so this one cannot be reopened.
    elif last is not None and last.id != gate.id:
        close(session, gate, Ending("cancelled", evaluation.fields(), reason), RULE, now)
    else:
        gate.state, gate.verdict, gate.closed_reason, gate.closed_at = "open", {}, None, None
        session.flush()
        record(session, gate, RULE, reason, now)
