"""Gates: sequential tests of two frozen players, which attached evaluators play and the server judges.

A gate is open until its verdict falls or somebody cancels it. The verdict follows from the match log alone; it is
written down when it falls, and looked at anew when results of a worker cease to count or count again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Select, exists, select
from sqlalchemy.orm import Session

from arena.gate import Decision, GateConfig, Verdict, judge
from arena.promotion import GateResult
from league import wire
from league.config import Settings
from league.db import locks
from league.db.engine import Database
from league.db.locks import Lock
from league.db.models import Gate, Lease, Player, Quarantine, Worker
from league.errors import GateConflictError, InvalidRequestError, UnknownGateError
from league.services import draws, events, gate_scores, learners, standings
from league.services.draws import Account
from league.services.population import Population

RULE = "rule"
"""Who opens the gates of the rule of promotion."""

KIND = "gate"
"""Kind of the events, leases and matches of gates."""

_CONFIG = ("elo0", "elo1", "alpha", "beta", "least_games")
_STATES: dict[Decision, wire.GateState] = {"accept": "accepted", "reject": "rejected", "continue": "open"}
_BEATS_MISSED = 2
_WHEN_ALL_IS_OVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class OpenGate:
    """What granting leases needs to know of an open gate."""

    id: int
    candidate_id: int
    champion_id: int
    by_rule: bool


@dataclass(frozen=True)
class _Judged:
    """Where a gate stands, by what was played so far."""

    verdict: Verdict
    lost: int
    waiting: int

    @property
    def state(self) -> wire.GateState:
        return _STATES[self.verdict.stop.decision]

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


@dataclass(frozen=True)
class _Ending:
    """The state that a gate ends in, its figures where that is a verdict, and why."""

    state: wire.GateState
    figures: dict[str, Any]
    reason: str


# --- what people do --------------------------------------------------------------------------------------------------


def enter(session: Session, settings: Settings, request: wire.GateCreate, actor: str, now: datetime) -> wire.Gate:
    """Find the gate of this test of these two, or open it.

    Args:
        session: A write transaction.
        settings: Say how long a worker may be silent.
        request: The test.
        actor: Who asks.
        now: The time.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: The two cannot meet, or the numbers are no test.
    """
    locks.hold(session, Lock.EVENTS)
    config = _config(request)
    candidate, champion = (_frozen(session, each) for each in (request.candidate_id, request.champion_id))
    _require_able_to_meet(candidate, champion)
    gate = _last_of(session, request)
    if gate is None or gate.state == "cancelled" or (request.again and gate.state != "open"):
        gate = Gate(
            environment=candidate.environment,
            candidate_id=candidate.id,
            champion_id=champion.id,
            **{name: getattr(config, name) for name in _CONFIG},
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
        _record(session, gate, actor, request.reason, now)
    return _bodies(session, settings, [gate], now)[0]


def cancel(session: Session, settings: Settings, gate_id: int, *, actor: str, reason: str, now: datetime) -> wire.Gate:
    """Give an open gate up; what was played for it stays in the log.

    Raises:
        UnknownGateError: There is no such gate.
        GateConflictError: It is not open.
    """
    locks.hold(session, Lock.EVENTS)
    gate = _require(session, gate_id)
    if gate.state != "open":
        raise GateConflictError(gate_id, f"it is {gate.state}", "open a new one with `again`")
    _close(session, gate, _Ending("cancelled", {}, reason), actor, now)
    return _bodies(session, settings, [gate], now)[0]


def show(session: Session, settings: Settings, gate_id: int, now: datetime) -> wire.Gate:
    """Show a gate and where it stands.

    Raises:
        UnknownGateError: There is no such gate.
    """
    return _bodies(session, settings, [_require(session, gate_id)], now)[0]


def listing(
    session: Session,
    settings: Settings,
    filters: dict[str, str],
    player_id: int | None,
    limit: int,
    before: int | None,
    now: datetime,
) -> list[wire.Gate]:
    """List gates, newest first, before the given one; `filters` are equalities on environment and state.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not the one that is asked for.
        UnknownPlayerError: There is no such player.
    """
    learners.require_environment(session, filters.get("environment"))
    query = select(Gate).filter_by(**filters)
    if player_id is not None:
        standings.require(session, player_id)
        query = query.where((Gate.candidate_id == player_id) | (Gate.champion_id == player_id))
    query = query if before is None else query.where(Gate.id < before)
    found = session.scalars(query.order_by(Gate.id.desc()).limit(limit)).all()
    return _bodies(session, settings, found, now)


def of_candidates(session: Session, settings: Settings, player_ids: Sequence[int], now: datetime) -> list[wire.Gate]:
    """List the gates of some candidates, newest first."""
    query = select(Gate).where(Gate.candidate_id.in_(player_ids)).order_by(Gate.id.desc())
    return _bodies(session, settings, session.scalars(query).all(), now)


# --- what the server does --------------------------------------------------------------------------------------------


def next_to_play(
    session: Session,
    population: Population,
    signatures: Sequence[str],
    unplayable: frozenset[int],
    rule_share: float,
    rng: np.random.Generator,
) -> OpenGate | None:
    """Choose a gate for an evaluator that asks for pairs; each that it can play is as likely as the others.

    Args:
        session: Reads the open gates, once per population.
        population: Of the environment.
        signatures: Which the evaluator plays.
        unplayable: Ids of players that it could not play.
        rule_share: How often gates of the rule of promotion are looked at, in [0, 1]. Those that a person asked for
            come first, whatever else there is to play.
        rng: Source of chance.
    """
    everything = population.once("gates", lambda: _open(session, population.environment))
    playable = [each for each in everything if _playable(each, population, signatures, unplayable)]
    asked_for = [each for each in playable if not each.by_rule]
    if asked_for or (playable and rng.random() < rule_share):
        among = asked_for or playable
        return among[rng.integers(len(among))]
    return None


def seats(population: Population, gate: OpenGate) -> tuple[tuple[int, int], Account]:
    """Return the places of a gate's two players in the population, and the account of why they meet."""
    places = population.place(gate.candidate_id), population.place(gate.champion_id)
    rule = f"pairs for gate {gate.id} until it has a verdict, sides swapped on each seed"
    account = draws.between(population, np.array(places, dtype=np.int64), (), KIND, rule)
    return places, account


def of_test(session: Session, candidates: Sequence[int], config: GateConfig) -> list[Gate]:
    """Return the gates of some candidates that are of one test and not cancelled, oldest first."""
    same = (getattr(Gate, name) == getattr(config, name) for name in _CONFIG)
    query = select(Gate).where(Gate.candidate_id.in_(candidates), Gate.state != "cancelled", *same)
    return list(session.scalars(query.order_by(Gate.id)))


def result(gate: Gate) -> GateResult:
    """Return what became of a gate, for the rule of promotion."""
    decisions: dict[str, Decision] = {state: decision for decision, state in _STATES.items()}
    told = gate.closed_reason or "it is open"
    return GateResult(decisions[gate.state], f"gate {gate.id}: {told}")


def judge_open(database: Database, settings: Settings, now: datetime) -> list[wire.Gate]:
    """Close the gates whose verdict has fallen, and those of players that are quarantined; return them."""
    with database.read() as session:
        still_open = session.scalars(select(Gate).where(Gate.state == "open").order_by(Gate.id)).all()
        due = [gate.id for gate in still_open if _ended(session, gate, now) is not None]
    closed = []
    for gate_id in due:
        with database.write() as session:
            locks.hold(session, Lock.EVENTS)
            gate = _require(session, gate_id)
            ending = _ended(session, gate, now)
            if gate.state == "open" and ending is not None:
                _close(session, gate, ending, RULE, now)
                closed += _bodies(session, settings, [gate], now)
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
            locks.hold(session, Lock.EVENTS)
            gate = _require(session, gate_id)
            judged = _judge(session, gate, now)
            if judged.state != gate.state:
                _overturn(session, gate, judged, now)


def leased_wrongly(session: Session, environment: str) -> list[str]:
    """Return the ids of leases that name a gate and do not seat its two players."""
    two = (Gate.candidate_id, Gate.champion_id)
    right = Gate.id == Lease.gate_id, Lease.home_id.in_(two), Lease.away_id.in_(two), Lease.home_id != Lease.away_id
    own = Lease.environment == environment, Lease.gate_id.is_not(None)
    return list(session.scalars(select(Lease.id).where(*own, ~exists().where(*right)).order_by(Lease.id)))


def judged_wrongly(session: Session, environment: str) -> list[int]:
    """Return the ids of gates whose verdict is not what the log says."""
    decided = Gate.environment == environment, Gate.state.in_(("accepted", "rejected"))
    return [
        gate.id
        for gate in session.scalars(select(Gate).where(*decided).order_by(Gate.id))
        if _differs(_judge(session, gate, _WHEN_ALL_IS_OVER), gate)
    ]


def _differs(judged: _Judged, gate: Gate) -> bool:
    stop = judged.verdict.stop
    return (judged.state, stop.games, list(stop.counts)) != (gate.state, gate.verdict["games"], gate.verdict["counts"])


def _touched_by_quarantines() -> Select[int]:
    distrusted = exists().where(Quarantine.worker_id == Lease.worker_id)
    leased = exists().where(Lease.gate_id == Gate.id, distrusted)
    return select(Gate.id).where(Gate.state.in_(("accepted", "rejected")), leased).order_by(Gate.id)


def _overturn(session: Session, gate: Gate, judged: _Judged, now: datetime) -> None:
    before = gate.state
    reason = f"it was {before}; results of a worker count no more or again: {judged.words()}"
    last = _last_of(session, gate)
    if judged.state != "open":
        _close(session, gate, _Ending(judged.state, judged.fields(), reason), RULE, now)
    elif last is not None and last.id != gate.id:
        _close(session, gate, _Ending("cancelled", {}, reason), RULE, now)
    else:
        gate.state, gate.verdict, gate.closed_reason, gate.closed_at = "open", {}, None, None
        session.flush()
        _record(session, gate, RULE, reason, now)


# --- one gate --------------------------------------------------------------------------------------------------------


def _config(request: wire.GateCreate) -> GateConfig:
    try:
        return GateConfig(**{name: getattr(request, name) for name in _CONFIG})
    except ValueError as error:
        raise InvalidRequestError("of a gate", str(error), "see docs/gates.md for what is usual") from error


def _frozen(session: Session, player_id: int) -> Player:
    player, _ = standings.require(session, player_id)
    if player.kind == "learner":
        newest = select(Player.id).where(Player.learner_id == player.learner_id, Player.kind == "snapshot")
        last = session.scalar(newest.order_by(Player.id.desc()).limit(1))
        way_out = "wait for its first snapshot" if last is None else f"name a snapshot; its last is player {last}"
        rule = "its weights move, and a test takes many games of the same two"
        raise InvalidRequestError(f"learner {player.name!r}", rule, way_out)
    return player


def _require_able_to_meet(candidate: Player, champion: Player) -> None:
    for player in (candidate, champion):
        if player.standing == "quarantined":
            rule = "it is quarantined, and nobody plays it"
            raise InvalidRequestError(f"player {player.id} ({player.name})", rule, "reinstate it first")
    value = f"player {candidate.id} ({candidate.name}) against {champion.id} ({champion.name})"
    if candidate.id == champion.id:
        raise InvalidRequestError(value, "they are one player", "name two")
    games = [f"{each.environment} with signature {each.signature}" for each in (candidate, champion)]
    if games[0] != games[1]:
        rule = f"the one plays {games[0]}, the other {games[1]}"
        raise InvalidRequestError(value, rule, "name two that play the same game")


def _last_of(session: Session, test: Gate | wire.GateCreate) -> Gate | None:
    """Return the newest gate of the same test of the same two."""
    same = (getattr(Gate, name) == getattr(test, name) for name in ("candidate_id", "champion_id", *_CONFIG))
    return session.scalar(select(Gate).where(*same).order_by(Gate.id.desc()).limit(1))


def _numbers(gate: Gate) -> dict[str, Any]:
    return {name: getattr(gate, name) for name in _CONFIG}


def _require(session: Session, gate_id: int) -> Gate:
    gate = session.get(Gate, gate_id)
    if gate is None:
        raise UnknownGateError(gate_id, "no gate has this id", "list them with GET /gates")
    return gate


def _open(session: Session, environment: str) -> tuple[OpenGate, ...]:
    query = select(Gate).where(Gate.state == "open", Gate.environment == environment).order_by(Gate.id)
    return tuple(
        OpenGate(gate.id, gate.candidate_id, gate.champion_id, gate.actor == RULE) for gate in session.scalars(query)
    )


def _playable(gate: OpenGate, population: Population, signatures: Sequence[str], unplayable: frozenset[int]) -> bool:
    two = (gate.candidate_id, gate.champion_id)
    members = [population.members[population.place(each)] for each in two]
    return (
        not unplayable.intersection(two)
        and all(member.standing != "quarantined" for member in members)
        and members[0].signature in signatures
    )


def _judge(session: Session, gate: Gate, now: datetime) -> _Judged:
    seen = gate_scores.read(session, gate.id, gate.candidate_id, now)
    verdict = judge(seen.scores, GateConfig(**_numbers(gate)))
    pairs = verdict.stop.games // 2
    return _Judged(verdict, int(seen.lost[pairs - 1]) if pairs else 0, seen.waiting)


def _ended(session: Session, gate: Gate, now: datetime) -> _Ending | None:
    """Return how an open gate is to end; None while it goes on."""
    judged = _judge(session, gate, now)
    if judged.state != "open":
        return _Ending(judged.state, judged.fields(), judged.words())
    quarantined = Player.id.in_((gate.candidate_id, gate.champion_id)), Player.standing == "quarantined"
    out = session.scalar(select(Player.name).where(*quarantined).limit(1))
    return None if out is None else _Ending("cancelled", {}, f"{out} was quarantined")


def _close(session: Session, gate: Gate, ending: _Ending, actor: str, now: datetime) -> None:
    gate.state, gate.verdict = ending.state, ending.figures
    gate.closed_reason, gate.closed_at = ending.reason, now
    session.flush()
    _record(session, gate, actor, ending.reason, now)


def _record(session: Session, gate: Gate, actor: str, reason: str, now: datetime) -> None:
    events.record(
        session,
        KIND,
        environment=gate.environment,
        player_id=gate.candidate_id,
        actor=actor,
        reason=reason,
        details={"gate": gate.id, "state": gate.state, "against": gate.champion_id},
        now=now,
    )


def _bodies(session: Session, settings: Settings, found: Sequence[Gate], now: datetime) -> list[wire.Gate]:
    seated = {player for gate in found for player in (gate.candidate_id, gate.champion_id)}
    players = {player.id: player for player in session.scalars(select(Player).where(Player.id.in_(seated)))}
    return [_body(session, settings, gate, players, now) for gate in found]


def _body(session: Session, settings: Settings, gate: Gate, players: Mapping[int, Player], now: datetime) -> wire.Gate:
    figures, waiting, evaluators = gate.verdict, 0, 0
    if not figures:
        judged = _judge(session, gate, now)
        figures = judged.fields()
        if gate.state == "open":
            waiting = judged.waiting
            evaluators = _evaluators(session, settings, players[gate.candidate_id].signature, now)
    candidate, champion = (
        wire.PlayerName(player_id=player.id, name=player.call_sign or player.name)
        for player in (players[gate.candidate_id], players[gate.champion_id])
    )
    return wire.Gate.model_validate(
        {
            "id": gate.id,
            "environment": gate.environment,
            "candidate": candidate,
            "champion": champion,
            **_numbers(gate),
            "state": gate.state,
            **figures,
            "waiting_pairs": waiting,
            "evaluators": evaluators,
            "actor": gate.actor,
            "reason": gate.reason,
            "opened_at": gate.opened_at,
            "closed_reason": gate.closed_reason,
            "closed_at": gate.closed_at,
        }
    )


def _evaluators(session: Session, settings: Settings, signature: str, now: datetime) -> int:
    """Count the evaluators that are attached, trusted and able to play a signature."""
    lately = now - timedelta(seconds=_BEATS_MISSED * settings.heartbeat_s)
    attached = Worker.kind == "evaluator", Worker.seen_at >= lately, Worker.command == "continue"
    distrusted = exists().where(Quarantine.worker_id == Worker.id, Quarantine.lifted_at.is_(None))
    return sum(signature in each for each in session.scalars(select(Worker.signatures).where(*attached, ~distrusted)))
