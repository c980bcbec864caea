"""Opponent leases: drawn, granted with the reason, explained, given back. They end by themselves at `expires_at`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, case, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from arena.matchmaking import SELF, draw, rating_pairs
from arena.pairing import pairs_with
from league import wire
from league.db.bulk_insert import insert_new
from league.db.engine import Database
from league.db.group_commit import one_by_one
from league.db.models import Draw, Learner, Lease, Match, Player
from league.errors import UnknownEnvironmentError, UnknownLeaseError
from league.services.gates.sprt import GateEvaluator
from league.services.matches import counting, pair_records
from league.services.matchmaking import gate_pairing, opponents, unplayable
from league.services.matchmaking.lease_cache import LeaseCache, LeaseTerms
from league.services.matchmaking.opponents import PAIRING, DrawRecord, LearnerDraw
from league.services.population import external_players
from league.services.population.cache import NEWEST, Member, Population, PopulationCache
from league.services.workers import service as workers
from league.services.workers.service import Trusted
from league.settings import Settings

_RANDOM_DIGITS = 16  # beside the time in milliseconds: no two leases ever have the same id
_SEED_LIMIT = 2**63
_TRUST_AND_VERSION = workers.TRUST.add_columns(*NEWEST)  # of a worker and of everybody, in one trip to the database

Row = dict[str, Any]


@dataclass(frozen=True)
class Grant:
    """Leases that are decided upon and not stored yet, with the distribution that they were drawn from."""

    population: Population
    account: DrawRecord
    rows: Sequence[Row]


def grant(
    database: Database,
    settings: Settings,
    cache: PopulationCache,
    terms: LeaseCache,
    judge: GateEvaluator,
    request: wire.LeaseRequest,
    now: datetime,
    rng: np.random.Generator,
) -> list[Row]:
    """Lease opponents for a learner, or pairs of frozen players. Drawing reads; only storing holds up other writers.

    The leases are as `wire.Lease` has them: to check what was just made takes as long as to draw it. The results are
    likely to come to the process that granted the leases, so it remembers their terms.

    Raises:
        UnknownWorkerError: There is no such worker.
        WorkerQuarantinedError: It is quarantined.
        UnknownPlayerError: There is no such player.
        UnknownEnvironmentError: The environment was deleted meanwhile.
        InvalidRequestError: The player is not a learner, or not an external one.
        StandingConflictError: The external player is out of play.
    """
    if isinstance(request, wire.TrainingLeases):
        planned = _plan_training(database, settings, cache, request, now, rng)
    else:
        with database.read() as session:
            planned = _plan_rating(session, settings, cache, judge, request, now, rng)
    if not planned.rows:
        return []

    population, account = planned.population, planned.account
    try:
        _store_grant(database, planned, now)
    except IntegrityError as error:
        raise _deleted(population.environment) from error
    population.note_kept(account.id, planned.rows[0]["expires_at"])
    terms.remember({row["id"]: _terms(population, row) for row in planned.rows})
    return _bodies(planned)


def _store_grant(database: Database, planned: Grant, now: datetime) -> None:
    """Store leases, with the draw that they are from unless it is there.

    PostgreSQL refuses leases whose draw was deleted with their environment. Whoever stores the draw looks whether there
    is still an environment.
    """
    environment = planned.population.environment
    if planned.population.keeps(planned.account.id, now):
        database.group_commit(_store, planned.rows, kind="leases", briefly=True)
        return

    def store(session: Session) -> None:  # two processes may keep the same draws in another order: each by itself
        if session.scalar(_hold_learner(environment)) is None:
            raise _deleted(environment)
        opponents.keep(session, planned.account, now)
        _store(session, [planned.rows])

    database.group_commit(one_by_one, store)


def _hold_learner(environment: str) -> Select[int]:
    """Select a learner of an environment and keep it from deletion, but not from change, until the transaction ends."""
    own = select(Learner.id).where(Learner.environment == environment).limit(1)
    return own.with_for_update(read=True, key_share=True)


def _deleted(environment: str) -> UnknownEnvironmentError:
    rule = "it was deleted while opponents were drawn"
    return UnknownEnvironmentError(environment, rule, "start its workers again if it is to be played anew")


def _store(session: Session, requests: Sequence[Sequence[Row]]) -> Sequence[None]:
    """Insert the leases of several requests, whose draws are kept."""
    insert_new(session, Lease, [row for rows in requests for row in rows])
    return [None] * len(requests)


def explain(session: Session, lease_id: str, now: datetime) -> wire.LeaseExplanation:
    """Show a lease, what became of it and the distribution that it was drawn from.

    Raises:
        UnknownLeaseError: There is no such lease.
    """
    lease = session.get(Lease, lease_id)
    if lease is None:
        raise UnknownLeaseError(lease_id, "no lease has this id", "see a match's lease_id")
    seats = session.execute(select(Player).where(Player.id.in_((lease.home_id, lease.away_id)))).scalars()
    matches = session.scalar(select(func.count()).where(Match.lease_id == lease_id)) or 0
    account = opponents.kept(session, lease.draw_id)
    return wire.LeaseExplanation.model_validate(
        opponents.shown(session, account)
        | {
            "lease": _body(_columns(lease), {player.id: _seat(player) for player in seats}, account.rule(lease.branch)),
            "worker_id": lease.worker_id,
            "environment": lease.environment,
            "granted_at": lease.granted_at,
            "released_at": lease.released_at,
            "state": _state(lease, matches, now),
            "matches": matches,
            "branch": lease.branch,
            "propensity": lease.propensity,
            "pruned_at": session.scalar(select(Draw.pruned_at).where(Draw.id == lease.draw_id)),
        }
    )


def release(
    session: Session,
    settings: Settings,
    request: wire.ReleaseRequest,
    findings: unplayable.Findings,
    now: datetime,
) -> wire.ReleaseAnswer:
    """End leases that a worker will not play further, and take its reports of players that it could not play.

    Raises:
        UnknownWorkerError: There is no such worker.
        InvalidRequestError: None of the leases seats a player that is called unplayable.
    """
    workers.require(session, request.worker_id)
    quarantined = unplayable.report(session, settings, request, findings, now)
    still_open = Lease.worker_id == request.worker_id, Lease.released_at.is_(None), Lease.expires_at > now
    ended = update(Lease).where(Lease.id.in_(request.lease_ids), *still_open)
    released = session.scalars(ended.values(released_at=now, state="released").returning(Lease.id)).all()
    return wire.ReleaseAnswer(released=len(released), quarantined=quarantined)


def first_id(moment: datetime) -> str:
    """Return what the ids of leases begin with that are granted at a moment: ids are in the order of time."""
    return f"{int(moment.timestamp() * 1000):011x}"


def sweep(session: Session, now: datetime, limit: int) -> Counter[str]:
    """Settle the state of leases that have ended, the longest ended first; count them by state.

    Nothing waits for it: what a lease allows follows from `expires_at`.
    """
    ended = select(Lease.id).where(Lease.state == "open", Lease.expires_at <= now).order_by(Lease.expires_at)
    free = ended.limit(limit).with_for_update(skip_locked=True)
    reported = select(func.count()).where(Match.lease_id == Lease.id).scalar_subquery()
    state = case((reported >= Lease.budget, "played"), else_="expired")
    settled = update(Lease).where(Lease.id.in_(free)).values(state=state).returning(Lease.state)
    return Counter(session.scalars(settled.execution_options(synchronize_session=False)))


def _plan_training(
    database: Database,
    settings: Settings,
    cache: PopulationCache,
    request: wire.TrainingLeases,
    now: datetime,
    rng: np.random.Generator,
) -> Grant:
    """Draw opponents for a learner. The learner's side alternates from lease to lease."""
    population, learner = _drawn_from(database, settings, cache, request, now)
    player_id = request.player_id
    drawn = draw(learner.distribution, request.count, rng)
    first = int(rng.integers(2))
    rows = _rows(settings, request, learner.account, population.environment, request.count, now, rng)
    for place, (row, choice, propensity) in enumerate(
        zip(rows, drawn.opponents.tolist(), drawn.propensities.tolist(), strict=True)
    ):
        opponent = player_id if choice == SELF else learner.opponents[choice]
        at_home = (first + place) % 2 == 0
        row["home_id"], row["away_id"] = (player_id, opponent) if at_home else (opponent, player_id)
        row["learner_side"] = "home" if at_home else "away"
        row["branch"], row["propensity"] = drawn.branches[place], propensity
    return Grant(population, learner.account, rows)


def _drawn_from(
    database: Database, settings: Settings, cache: PopulationCache, request: wire.TrainingLeases, now: datetime
) -> tuple[Population, LearnerDraw]:
    """Return what a learner's opponents are drawn from, which is remembered until something changes.

    After a rating period one call at a time makes it anew; those that come meanwhile are served as before the period.
    """
    player_id, self_play = request.player_id, request.self_play
    renewing = cache.renewing(player_id)
    with database.autocommit_read() as session:
        found = session.connection().execute(_TRUST_AND_VERSION, {"worker": request.worker_id}).one_or_none()
        worker = workers.trusted(request.worker_id, found)
        present = () if found is None else tuple(found[-len(NEWEST) :])
        kept_away = _kept_away(session, settings, request.worker_id, worker, now)
        for population in cache.known(session, player_id, present, lately=renewing.locked()):
            learner = opponents.known(population, player_id, self_play=self_play, unplayable=kept_away)
            if learner is not None:
                return population, learner
    with renewing, database.read() as session:
        population = cache.of_player(session, player_id)
        learner = opponents.of_learner(
            session, population, settings, player_id, self_play=self_play, unplayable=kept_away
        )
    return population, learner


def _plan_rating(
    session: Session,
    settings: Settings,
    cache: PopulationCache,
    judge: GateEvaluator,
    request: wire.RatingLeases,
    now: datetime,
    rng: np.random.Generator,
) -> Grant:
    """Pair frozen players that the worker can play, those of an open gate first; or the external one that it brings.

    Two consecutive leases are a pair, swapped, on one seed.
    """
    worker = workers.require_trusted(session, request.worker_id)
    population = cache.get(session, request.environment)
    own = None if request.player_id is None else external_players.entered(population, request.player_id)
    kept_away = _kept_away(session, settings, request.worker_id, worker, now)
    enough = judge.enough(session, now)
    share, count = settings.promotion.gate_share, (request.count + 1) // 2
    gate = gate_pairing.next_to_play(
        session, population, worker.signatures, kept_away, enough, share, rng, request.player_id
    )
    changes: Row = {}
    if gate is None and own is not None:
        places, account = opponents.of_entry(population, own, kept_away)
        pairs = _pairs_with(session, population, own, places, count, rng).tolist()
        changes = {"branch": opponents.ENTRY}
    elif gate is None:
        places, account = _one_signature(population, worker.signatures, kept_away, rng)
        pairs = _pairs(session, population, places, count, rng).tolist()
    else:
        two, account = gate_pairing.seats(population, gate)
        pairs, changes = count * [two], {"kind": counting.GATE, "branch": counting.GATE, "gate_id": gate.id}
    rows = _rows(settings, request, account, population.environment, 2 * len(pairs), now, rng)
    for row in rows:
        row.update(changes)
    for number, (one, other) in enumerate(pairs):
        players = population.members[one].id, population.members[other].id
        there, back = rows[2 * number], rows[2 * number + 1]
        there["home_id"], there["away_id"] = players
        back["away_id"], back["home_id"] = players
        back["seed"] = there["seed"]
    return Grant(population, account, rows)


def _kept_away(session: Session, settings: Settings, worker_id: str, worker: Trusted, now: datetime) -> frozenset[int]:
    return unplayable.known_to(session, settings, worker_id, now) if worker.reported else frozenset()


def _one_signature(
    population: Population, signatures: Sequence[str], kept_away: frozenset[int], rng: np.random.Generator
) -> tuple[NDArray[np.int64], DrawRecord]:
    """Choose among a worker's signatures one with somebody to pair, if there is any."""
    groups = [opponents.of_pairing(population, signature, kept_away) for signature in sorted({*signatures}) or [""]]
    peopled = [group for group in groups if group[0].size > 1] or groups
    return peopled[rng.integers(len(peopled))]


def _pairs(
    session: Session, population: Population, places: NDArray[np.int64], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return (count, 2) places in the population; strangers are nearer than who met before."""
    members = [population.members[place] for place in places]
    anchors = np.array([member.kind == "baseline" for member in members], dtype=np.bool_)
    ratings = population.ratings
    met = population.cached(
        ("met", places.tobytes()),
        lambda: pair_records.met(session, population.environment, [member.id for member in members]),
    )
    pairs = rating_pairs(
        ratings.rating[places],
        ratings.deviation[places],
        population.games[places],
        count,
        rng,
        anchors=anchors,
        met=met,
    )
    return places[pairs]


def _pairs_with(
    session: Session,
    population: Population,
    own: int,
    places: NDArray[np.int64],
    count: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Return (count, 2) places in the population, an external player's own first."""
    everybody = np.concatenate(([own], places)).astype(np.int64)
    met = population.cached(
        ("met", everybody.tobytes()),
        lambda: pair_records.met(session, population.environment, population.ids[everybody].tolist()),
    )
    ratings = population.ratings
    pairs = pairs_with(0, ratings.rating[everybody], ratings.deviation[everybody], count, rng, met=met)
    return everybody[pairs]


def _rows(
    settings: Settings,
    request: wire.TrainingLeases | wire.RatingLeases,
    account: DrawRecord,
    environment: str,
    count: int,
    now: datetime,
    rng: np.random.Generator,
) -> list[Row]:
    """Return what leases of one request have in common, each with an id and a seed."""
    common = {
        "worker_id": request.worker_id,
        "kind": request.kind,
        "environment": environment,
        "learner_side": None,
        "budget": min(request.budget, settings.lease_budget_max),
        "branch": PAIRING,
        "propensity": None,
        "draw_id": account.id,
        "gate_id": None,
        "granted_at": now,
        "expires_at": now + timedelta(seconds=settings.lease_expiry_s),
    }
    prefix = first_id(now)
    digits = rng.bytes(_RANDOM_DIGITS // 2 * count).hex()
    seeds = rng.integers(_SEED_LIMIT, size=count).tolist()
    return [
        common | {"id": prefix + digits[place * _RANDOM_DIGITS : (place + 1) * _RANDOM_DIGITS], "seed": seed}
        for place, seed in enumerate(seeds)
    ]


def _terms(population: Population, row: Row) -> LeaseTerms:
    return LeaseTerms(
        lease_id=row["id"],
        worker_id=row["worker_id"],
        kind=row["kind"],
        environment=row["environment"],
        home_id=row["home_id"],
        away_id=row["away_id"],
        seed=row["seed"],
        budget=row["budget"],
        granted_at=row["granted_at"],
        expires_at=row["expires_at"],
        signature=population.members[population.place(row["home_id"])].signature,
    )


def _bodies(granted: Grant) -> list[Row]:
    population, rows = granted.population, granted.rows
    seated = {player for row in rows for player in (row["home_id"], row["away_id"])}
    seats = {player: _seat(population.members[population.place(player)]) for player in seated}
    reasons = {branch: granted.account.rule(branch) for branch in {row["branch"] for row in rows}}
    return [_body(row, seats, reasons[row["branch"]]) for row in rows]


def _seat(player: Player | Member) -> Row:
    return {"player_id": player.id, "checkpoint": player.checkpoint, "name": player.name}


def _columns(lease: Lease) -> Row:
    return {column.key: getattr(lease, column.key) for column in Lease.__table__.columns}


def _body(row: Row, seats: Mapping[int, Row], reason: str) -> Row:
    return {
        "lease_id": row["id"],
        "kind": "training" if row["kind"] == "training" else "rating",
        "home": seats[row["home_id"]],
        "away": seats[row["away_id"]],
        "learner_side": row["learner_side"],
        "seed": row["seed"],
        "budget": row["budget"],
        "expires_at": row["expires_at"],
        "propensity": row["propensity"],
        "branch": row["branch"],
        "reason": reason,
        "gate_id": row["gate_id"],
    }


def _state(lease: Lease, matches: int, now: datetime) -> str:
    """Return what the row says, or will say once it is swept."""
    if lease.state != "open":
        return lease.state
    if matches >= lease.budget:
        return "played"
    return "open" if now < lease.expires_at else "expired"
