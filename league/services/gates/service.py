"""Gates: open, cancel, list and show sequential tests of two frozen players.

A gate is open until it has a verdict or is cancelled. Evaluators play its matches.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from arena.evaluation.sprt import Decision, SprtConfig
from arena.population.promotion import GateResult
from league import wire
from league.db import locks
from league.db.bulk_insert import among
from league.db.locks import Lock
from league.db.models import Gate, Lease, Match, Player, Quarantine, Worker
from league.errors import GateConflictError, InvalidRequestError
from league.pagination import Page, paginate
from league.player_names import display_name
from league.services.audit.log import RULE
from league.services.environments import lookup as environments
from league.services.gates import sprt as gate_sprt
from league.services.gates.sprt import NUMBERS, STATES, Ending
from league.services.ratings import rated_players
from league.settings import MISSED_HEARTBEATS, Settings

_COUNTED_DIGITS = 6  # removes rounding errors: fractional scores are split between two bins


def open_gate(session: Session, settings: Settings, request: wire.GateCreate, actor: str, now: datetime) -> wire.Gate:
    """Return the gate of a test, opening it if needed; see `find_or_open`."""
    gate = find_or_open(session, request, actor, now)
    return _bodies(session, settings, [gate], now)[0]


def find_or_open(session: Session, request: wire.GateCreate, actor: str, now: datetime) -> Gate:
    """Return the gate of a test, or open it. An open gate of the promotion rule is taken over by the caller.

    Args:
        session: A write transaction.
        request: The test.
        actor: The caller.
        now: Current time.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: The two cannot play each other, or the settings are invalid.
    """
    # Acquired before the look-up, so that two callers cannot both find no gate and open one each.
    locks.acquire(session, Lock.EVENTS)
    _require_test(request)
    candidate, champion = (_frozen(session, each) for each in (request.candidate_id, request.champion_id))
    _require_able_to_meet(candidate, champion)
    gate = gate_sprt.last_of(session, request)
    if gate is None or gate.state == "cancelled" or (request.again and gate.state != "open"):
        return _open(session, candidate.environment, request, actor, now)
    if gate.state == "open" and gate.actor == RULE != actor:
        _take_over(session, gate, request, actor, now)
    return gate


def cancel(session: Session, settings: Settings, gate_id: int, *, actor: str, reason: str, now: datetime) -> wire.Gate:
    """Cancel an open gate; its matches stay in the log.

    Raises:
        UnknownGateError: There is no such gate.
        GateConflictError: It is not open.
    """
    locks.acquire(session, Lock.EVENTS)
    gate = gate_sprt.require(session, gate_id)
    if gate.state != "open":
        raise GateConflictError(gate_id, f"it is {gate.state}", "open a new one with `again`")
    numbers = gate_sprt.evaluate(session, gate, now).fields()
    gate_sprt.close(session, gate, Ending("cancelled", numbers, reason), actor, now)
    return _bodies(session, settings, [gate], now)[0]


def show(session: Session, settings: Settings, gate_id: int, now: datetime) -> wire.Gate:
    """Return a gate with its progress.

    Raises:
        UnknownGateError: There is no such gate.
    """
    return _bodies(session, settings, [gate_sprt.require(session, gate_id)], now)[0]


@dataclass(frozen=True)
class GateFilter:
    """Conditions on the listed gates; None for all. `player_id` is the candidate or its opponent."""

    environment: str | None = None
    state: wire.GateState | None = None
    player_id: int | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions of a query."""
        equalities = (Gate.environment, self.environment), (Gate.state, self.state)
        found = [column == value for column, value in equalities if value is not None]
        if self.player_id is not None:
            found.append((Gate.candidate_id == self.player_id) | (Gate.champion_id == self.player_id))
        return found


def list_gates(
    session: Session, settings: Settings, wanted: GateFilter, limit: int, cursor: int | None, now: datetime
) -> Page[wire.Gate]:
    """List gates newest first, before the cursor.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not the requested one.
        UnknownPlayerError: There is no such player.
    """
    environments.require_known(session, wanted.environment)
    if wanted.player_id is not None:
        rated_players.require(session, wanted.player_id)
    query = select(Gate).where(*wanted.conditions())
    found = session.scalars(paginate(query, Gate.id, cursor, limit, newest_first=True)).all()
    return Page.cut(_bodies(session, settings, found, now), limit, attrgetter("id"))


def of_candidates(session: Session, settings: Settings, player_ids: Sequence[int], now: datetime) -> list[wire.Gate]:
    """List the gates of some candidates, newest first."""
    query = select(Gate).where(Gate.candidate_id.in_(player_ids)).order_by(Gate.id.desc())
    return _bodies(session, settings, session.scalars(query).all(), now)


def of_test(session: Session, candidates: Sequence[int], config: SprtConfig) -> list[Gate]:
    """Return the gates of some candidates with one test configuration, except cancelled ones, oldest first."""
    same = (getattr(Gate, name) == getattr(config, name) for name in NUMBERS)
    # A cancelled gate says nothing about the candidate, so the rule may test it again.
    query = select(Gate).where(among(session, Gate.candidate_id, candidates), Gate.state != "cancelled", *same)
    return list(session.scalars(query.order_by(Gate.id)))


def result(gate: Gate) -> GateResult:
    """Return the result of a gate for the promotion rule."""
    decisions: dict[str, Decision] = {state: decision for decision, state in STATES.items()}
    reason = gate.closed_reason or "it is open"
    return GateResult(decisions[gate.state], f"gate {gate.id}: {reason}")


# --- opening ---------------------------------------------------------------------------------------------------------


def _open(session: Session, environment: str, request: wire.GateCreate, actor: str, now: datetime) -> Gate:
    gate = Gate(
        environment=environment,
        candidate_id=request.candidate_id,
        champion_id=request.champion_id,
        **{name: getattr(request, name) for name in NUMBERS},
        state="open",
        actor=actor,
        reason=request.reason,
        opened_at=now,
        verdict={},
        closed_reason=None,
        closed_at=None,
    )
    session.add(gate)
    session.flush()
    gate_sprt.record(session, gate, actor, request.reason, now)
    return gate


def _take_over(session: Session, gate: Gate, request: wire.GateCreate, actor: str, now: datetime) -> None:
    """Assign a gate of the promotion rule to the caller, so that evaluators play it first."""
    gate.actor, gate.reason = actor, request.reason or gate.reason
    session.flush()
    gate_sprt.record(session, gate, actor, gate.reason, now)


def _require_test(request: wire.GateCreate) -> None:
    try:
        gate_sprt.config(request)
    except ValueError as error:
        raise InvalidRequestError(
            "of a gate", str(error), "see docs/guides/judge/gates.md for typical values"
        ) from error


def _frozen(session: Session, player_id: int) -> Player:
    player, _ = rated_players.require(session, player_id)
    if player.kind == "learner":
        newest = select(Player.id).where(Player.learner_id == player.learner_id, Player.kind == "snapshot")
        last = session.scalar(newest.order_by(Player.id.desc()).limit(1))
        remedy = (
            "wait for its first snapshot" if last is None else f"use a snapshot, for example player {last}, its latest"
        )
        rule = "its weights change, but a test needs many games between the same two players"
        raise InvalidRequestError(f"learner {player.name!r}", rule, remedy)
    return player


def _require_able_to_meet(candidate: Player, champion: Player) -> None:
    for player in (candidate, champion):
        if player.standing == "quarantined":
            rule = "it is quarantined and plays no matches"
            raise InvalidRequestError(f"player {player.id} ({player.name})", rule, "reinstate it first")
    value = f"player {candidate.id} ({candidate.name}) against {champion.id} ({champion.name})"
    if candidate.kind == champion.kind == "external":
        rule = "both are external players, and no worker has both policies"
        raise InvalidRequestError(
            f"players {candidate.id} and {champion.id}", rule, "use a snapshot or baseline for one of them"
        )
    if candidate.id == champion.id:
        raise InvalidRequestError(value, "they are the same player", "name two")
    games = [f"{each.environment} with signature {each.signature}" for each in (candidate, champion)]
    if games[0] != games[1]:
        rule = f"one plays {games[0]}, the other {games[1]}"
        raise InvalidRequestError(value, rule, "use two players of the same environment")


# --- showing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Shared:
    """Data shared by the bodies of several gates: players by id, and the gate of each worker's unfinished batch."""

    players: Mapping[int, Player]
    batches: Mapping[str, int | None]


def _bodies(session: Session, settings: Settings, found: Sequence[Gate], now: datetime) -> list[wire.Gate]:
    player_ids = {player for gate in found for player in (gate.candidate_id, gate.champion_id)}
    players = {player.id: player for player in session.scalars(select(Player).where(Player.id.in_(player_ids)))}
    some_open = any(gate.state == "open" for gate in found)
    shared = _Shared(players, _unfinished_batches(session, now) if some_open else {})
    return [_body(session, settings, gate, shared, now) for gate in found]


def _unfinished_batches(session: Session, now: datetime) -> dict[str, int | None]:
    """Return the gate of the newest lease of each evaluator or entrant with pending results; None for no gate.

    A worker plays and reports one batch of leases at a time, so its newest lease identifies the batch.
    """
    current = Lease.state == "open", Lease.expires_at > now, Lease.kind != "training"
    # Ids of leases begin with their time, so the largest one is the newest.
    newest = select(func.max(Lease.id)).where(*current).group_by(Lease.worker_id)
    reported = select(func.count()).where(Match.lease_id == Lease.id).correlate(Lease).scalar_subquery()
    pending = select(Lease.worker_id, Lease.gate_id).where(Lease.id.in_(newest), Lease.budget > reported)
    return dict(iter(session.execute(pending)))


def _body(session: Session, settings: Settings, gate: Gate, shared: _Shared, now: datetime) -> wire.Gate:
    players = shared.players
    numbers, waiting, busy = gate.verdict, 0, 0
    evaluators: list[str] = []
    if gate.state == "open":
        evaluation = gate_sprt.evaluate(session, gate, now)
        numbers, waiting = evaluation.fields(), evaluation.waiting
        evaluators = _evaluators(session, settings, [players[gate.candidate_id], players[gate.champion_id]], now)
        busy = sum(shared.batches.get(each, gate.id) != gate.id for each in evaluators)
    candidate, champion = (
        wire.PlayerName(player_id=player.id, name=display_name(player))
        for player in (players[gate.candidate_id], players[gate.champion_id])
    )
    return wire.Gate.model_validate(
        {
            "id": gate.id,
            "environment": gate.environment,
            "candidate": candidate,
            "champion": champion,
            **{name: getattr(gate, name) for name in NUMBERS},
            "state": gate.state,
            **numbers,
            "counts": [round(pairs, _COUNTED_DIGITS) for pairs in numbers["counts"]],
            "waiting_pairs": waiting,
            "evaluators": len(evaluators),
            "busy_evaluators": busy,
            "actor": gate.actor,
            "reason": gate.reason,
            "opened_at": gate.opened_at,
            "closed_reason": gate.closed_reason,
            "closed_at": gate.closed_at,
        }
    )


def _evaluators(session: Session, settings: Settings, two: Sequence[Player], now: datetime) -> list[str]:
    """Return the ids of live workers without quarantine that can play both players.

    They are evaluators, or entrants if one of the two is external. A worker does not register its external player, so
    entrants of other external players of the environment are included.
    """
    signature, kind = two[0].signature, "entrant" if "external" in {each.kind for each in two} else "evaluator"
    oldest_heartbeat = now - timedelta(seconds=MISSED_HEARTBEATS * settings.heartbeat_s)
    attached = Worker.kind == kind, Worker.seen_at >= oldest_heartbeat, Worker.command == "continue"
    distrusted = exists().where(Quarantine.worker_id == Worker.id, Quarantine.lifted_at.is_(None))
    found = session.execute(select(Worker.id, Worker.signatures).where(*attached, ~distrusted))
    return [worker_id for worker_id, signatures in found if signature in signatures]
