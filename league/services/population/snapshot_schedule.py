"""Snapshot schedule: decide from payoffs when learners publish snapshots and exploiters are reset.

A trainer sends the step of its learner's last snapshot. The decision for that step is final: if a trainer is killed
before it has acted on a decision, it receives the same one again at the same step. Randomness is derived from the
learner and the step, so equal payoffs give equal decisions, also in a copy of the league.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from arena.matchmaking import roles as arithmetic
from arena.matchmaking.roles import OpponentTable, SnapshotRule
from arena.seeding import derive
from league import wire
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Event, Player, SnapshotDecision
from league.services.audit import log as audit_log
from league.services.audit.log import RULE, Cause
from league.services.population import learners, roles
from league.services.population.cache import Population, PopulationCache
from league.services.population.roles import LearnerRole
from league.services.population.rule_inputs import LearnerInputs, load_inputs
from league.settings import Settings

KIND = "snapshot"
_SEED_LIMIT = 2**63  # seeds fit a signed 64-bit integer
_DIGITS = 6
"""Decimal places of a win rate, rounded before the decision so that the logged evidence reproduces it."""


@dataclass(frozen=True)
class Verdict:
    """A decision that is not stored yet.

    Attributes:
        answer: Response to the trainer.
        environment: Environment of the learner.
        player_id: Player id of the learner.
        evidence: Evidence of the decision, as JSON.
    """

    answer: wire.SnapshotDecision
    environment: str
    player_id: int
    evidence: Mapping[str, Any]


def decide_snapshots(
    database: Database,
    settings: Settings,
    cache: PopulationCache,
    progress_reports: Iterable[wire.LearnerProgress],
    now: datetime,
) -> list[wire.SnapshotDecision]:
    """Return the snapshot decisions that are due for these learners, stored or new.

    Raises:
        UnknownLearnerError: There is no such learner.
    """
    decisions = []
    for progress in progress_reports:
        if progress.since_step is not None:
            decision = _decide_once(database, settings, cache, progress, progress.since_step, now)
            if decision is not None:
                decisions.append(decision)
    return decisions


def link_snapshot(session: Session, learner_id: int, since_step: int, player_id: int) -> None:
    """Link the published snapshot to its decision; a decision that has one already keeps it."""
    which = SnapshotDecision.learner_id == learner_id, SnapshotDecision.since_step == since_step
    open_one = update(SnapshotDecision).where(*which, SnapshotDecision.player_id.is_(None))
    session.execute(open_one.values(player_id=player_id))


def is_reset_after(session: Session, player_id: int | None) -> bool:
    """Return whether the learner was reset after this snapshot."""
    which = SnapshotDecision.player_id == player_id, SnapshotDecision.reset
    return player_id is not None and session.scalar(select(SnapshotDecision.learner_id).where(*which)) is not None


def inconsistent(session: Session, environment: str) -> list[int]:
    """Return the event ids of decisions that their own evidence does not support."""
    query = select(Event, SnapshotDecision).join(SnapshotDecision, SnapshotDecision.event_id == Event.id)
    rows = session.execute(query.where(Event.environment == environment).order_by(Event.id))
    return [event.id for event, row in rows if not _is_supported(row.reset, event.details)]


def _decide_once(
    database: Database,
    settings: Settings,
    cache: PopulationCache,
    progress: wire.LearnerProgress,
    since_step: int,
    now: datetime,
) -> wire.SnapshotDecision | None:
    key = progress.learner_id, since_step
    # The evidence is computed without a write transaction; the lock below only covers the check and the insert.
    with database.read() as session:
        decided = session.get(SnapshotDecision, key)
        if decided is not None:
            return _to_wire(session, decided) if progress.step >= decided.step else None
        verdict = _reach_verdict(session, settings, cache, key, progress.step)
    if verdict is None:
        return None
    with database.write() as session:
        locks.acquire(session, Lock.EVENTS)  # the first decision for a step is final
        decided = session.get(SnapshotDecision, key)
        return _write(session, verdict, now) if decided is None else _to_wire(session, decided)


def _reach_verdict(
    session: Session, settings: Settings, cache: PopulationCache, key: tuple[int, int], step: int
) -> Verdict | None:
    learner_id, since_step = key
    learner = learners.require(session, learner_id)
    own_player = select(Player.id).where(Player.learner_id == learner_id, Player.kind == "learner")
    player_id = session.scalars(own_player).one()
    population = cache.get(session, learner.environment)
    inputs = load_inputs(session, population, settings, player_id)
    own, evidence = inputs.role, _evidence(population, inputs, since_step, step)
    decided = _decide(evidence)
    if decided is None:
        return None
    reset, reason = decided
    start = _reset_checkpoint(population, own) if reset else None
    answer = wire.SnapshotDecision(
        learner_id=learner_id, since_step=since_step, reset=reset, start=start, reason=reason
    )
    return Verdict(answer, learner.environment, player_id, evidence)


def _evidence(population: Population, inputs: LearnerInputs, since_step: int, step: int) -> dict[str, Any]:
    """Return the evidence of a decision in its stored form."""
    own = inputs.role
    indices, _ = population.opponents(own.member.signature, frozenset())
    matchups = population.cached(
        ("matchups", own.member.id), lambda: roles.matchups(population, own, inputs.records, indices)
    )
    # Derived from names and the step instead of ids, which differ in a copy of the league.
    against, chance = matchups.against, derive(0, population.environment, own.name, "reset", since_step) / _SEED_LIMIT
    return {
        "learner": own.name,
        "role": own.rules.role,
        # Stored with the evidence, because the settings may change before the decision is checked.
        "rule": asdict(own.rules.snapshots),
        "since_step": since_step,
        "step": step,
        "began_step": own.reset_step,
        "chance": chance,
        "lineage": own.id,
        "opponents": {
            "player_id": population.ids[indices].tolist(),
            "lineage": against.lineage.tolist(),
            "main": against.main.tolist(),
            "exploiter": against.exploiter.tolist(),
            "step": against.step.tolist(),
            "win_rate": np.round(against.win_rates, _DIGITS).tolist(),
            "recent_win_rate": np.round(against.recent_win_rates, _DIGITS).tolist(),
            "matches": matchups.matches.tolist(),
        },
    }


def _is_supported(reset: bool, evidence: Mapping[str, Any]) -> bool:
    """Return whether the evidence supports a decision."""
    decided = _decide(evidence)
    return decided is not None and decided[0] == reset


def _decide(evidence: Mapping[str, Any]) -> tuple[bool, str] | None:
    """Decide from evidence alone: return whether to reset and the reason for the snapshot, or None if none is due."""
    columns = evidence["opponents"]
    against = OpponentTable(
        win_rates=np.array(columns["win_rate"], dtype=np.float64),
        recent_win_rates=np.array(columns["recent_win_rate"], dtype=np.float64),
        lineage=np.array(columns["lineage"], dtype=np.int64),
        main=np.array(columns["main"], dtype=np.bool_),
        exploiter=np.array(columns["exploiter"], dtype=np.bool_),
        step=np.array(columns["step"], dtype=np.int64),
        own=evidence["lineage"],
    )
    rule, steps = SnapshotRule(**evidence["rule"]), evidence["step"] - evidence["since_step"]
    decision = arithmetic.decide(rule, evidence["role"], steps, against, evidence["chance"])
    return None if decision is None else (decision.reset, decision.reason)


def _reset_checkpoint(population: Population, own: LearnerRole) -> str | None:
    """Return the checkpoint from which a reset learner starts: a main agent's newest one if the rule asks for it."""
    if own.rules.snapshots.start == "first":
        return None
    indices, _ = population.opponents(own.member.signature, frozenset())
    mains = [member for index in indices if (member := population.members[index]).role == "main"]
    return max(mains, key=lambda member: member.id).checkpoint if mains else None


def _to_wire(session: Session, decided: SnapshotDecision) -> wire.SnapshotDecision:
    return wire.SnapshotDecision(
        learner_id=decided.learner_id,
        since_step=decided.since_step,
        reset=decided.reset,
        start=decided.start,
        reason=session.scalars(select(Event.reason).where(Event.id == decided.event_id)).one(),
    )


def _write(session: Session, verdict: Verdict, now: datetime) -> wire.SnapshotDecision:
    answer = verdict.answer
    event_id = audit_log.record(
        session,
        KIND,
        Cause(RULE, answer.reason, now),
        environment=verdict.environment,
        player_id=verdict.player_id,
        details={**verdict.evidence, "reset": answer.reset, "start": answer.start},
    )
    session.add(
        SnapshotDecision(
            learner_id=answer.learner_id,
            since_step=answer.since_step,
            step=verdict.evidence["step"],
            reset=answer.reset,
            start=answer.start,
            event_id=event_id,
            player_id=None,
        )
    )
    return answer
