"""Opponent leases: granted, explained, released and settled.

population = PopulationCache.of_player(...)                    league.services.population.cache
inputs = load_inputs(session, population, settings, learner)   league.services.population.rule_inputs
distribution = opponent_distribution(population, pool, inputs) league.services.matchmaking.pfsp
draws = draw(distribution, count, rng)                         arena.matchmaking
store the leases with the distribution                         this module
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Select, case, func, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from arena.matchmaking import SELF, draw
from league import wire
from league.db.bulk_insert import insert_new
from league.db.engine import Database
from league.db.group_commit import one_by_one
from league.db.models import Draw, Environment, Lease, Match, Player
from league.errors import UnknownEnvironmentError, UnknownLeaseError
from league.services.gates.sprt import FIRST_PAIRS, GateEvaluator
from league.services.matches import counting
from league.services.matchmaking import explanations, pfsp, rating_pairs, unplayable
from league.services.matchmaking.explanations import DistributionRecord
from league.services.matchmaking.lease_cache import LeaseCache, LeaseRecord
from league.services.matchmaking.pfsp import OpponentDistribution
from league.services.matchmaking.rating_pairs import Evaluator
from league.services.population import external_players
from league.services.population.cache import NEWEST, Member, Population, PopulationCache
from league.services.population.rule_inputs import load_inputs
from league.services.workers import service as workers
from league.services.workers.service import Trusted
from league.settings import Settings

_RANDOM_DIGITS = 16  # after the time in milliseconds: 64 random bits make ids unique
_SEED_LIMIT = 2**63  # seeds fit a signed 64-bit column
_TRUST_AND_VERSION = workers.TRUST.add_columns(*NEWEST)  # worker and population version in one round trip


@dataclass
class LeaseRow:
    """A lease as a row of the table; see `league.db.models.Lease`."""

    id: str
    seed: int
    home_id: int
    away_id: int
    learner_side: wire.Side | None
    branch: str
    propensity: float | None
    worker_id: str
    kind: str
    environment: str
    budget: int
    draw_id: str
    gate_id: int | None
    granted_at: datetime
    expires_at: datetime


@dataclass(frozen=True)
class _Plan:
    """Leases that are not stored yet, with the distribution that they were drawn from."""

    population: Population
    record: DistributionRecord
    rows: Sequence[LeaseRow]


@dataclass(frozen=True)
class LeaseService:
    """Grants leases in one process.

    Attributes:
        database: Database of the league; only storing leases blocks other writers.
        settings: Settings of the league.
        population: Cached populations, with the distributions computed from them.
        cache: Caches granted leases, because their results usually arrive at the same process.
        gates: Knows how many pairs each open gate needs.
    """

    database: Database
    settings: Settings
    population: PopulationCache
    cache: LeaseCache
    gates: GateEvaluator

    def grant(self, request: wire.LeaseRequest, now: datetime, rng: np.random.Generator) -> list[dict[str, Any]]:
        """Lease opponents for a learner, or pairs of frozen players.

        Returns:
            The leases as `wire.Lease` dictionaries. They are not validated, which would take as long as drawing them.

        Raises:
            UnknownWorkerError: There is no such worker.
            WorkerQuarantinedError: It is quarantined.
            UnknownPlayerError: There is no such player.
            UnknownEnvironmentError: The environment was deleted concurrently.
            InvalidRequestError: The player is not a learner, or not an external one.
            StandingConflictError: The external player is retired or quarantined.
        """
        if isinstance(request, wire.TrainingLeases):
            plan = self._plan_training(request, now, rng)
        else:
            plan = self._plan_rating(request, now, rng)
        if not plan.rows:
            return []
        try:
            self._store(plan, now)
        # The foreign key to the distribution: it was deleted with the environment after the population was read.
        except IntegrityError as error:
            raise _deleted(plan.population.environment) from error
        plan.population.note_stored(plan.record.id, plan.rows[0].expires_at)
        self.cache.remember({row.id: _to_record(plan.population, row) for row in plan.rows})
        return _answer(plan)

    def preview(self, session: Session, player_id: int) -> wire.Preview:
        """Return the distribution of a learner's next lease.

        Raises:
            UnknownPlayerError: There is no such player.
            InvalidRequestError: It is not a learner.
        """
        population = self.population.of_player(session, player_id)
        record = distribution_of(session, population, self.settings, player_id).record
        return wire.Preview.model_validate(
            {
                "player_id": player_id,
                "environment": population.environment,
                **explanations.to_wire(session, self.settings, record),
            }
        )

    def _plan_training(self, request: wire.TrainingLeases, now: datetime, rng: np.random.Generator) -> _Plan:
        """Draw opponents for a learner; its side alternates from lease to lease."""
        population, opponents = self._distribution(request, now)
        player_id, count = request.player_id, request.count
        drawn = draw(opponents.distribution, count, rng)
        # A random first side. Otherwise a learner that leases one by one would always be at home.
        learner_at_home = bool(rng.integers(2))
        new_row = self._row_factory(request, population.environment, opponents.record, now)
        choices, propensities = drawn.opponents.tolist(), drawn.propensities.tolist()
        rows = []
        for index, (lease_id, seed) in enumerate(_ids_and_seeds(count, now, rng)):
            choice = choices[index]
            opponent = player_id if choice == SELF else opponents.opponents[choice]
            row = new_row(
                id=lease_id,
                seed=seed,
                home_id=player_id if learner_at_home else opponent,
                away_id=opponent if learner_at_home else player_id,
                learner_side="home" if learner_at_home else "away",
                branch=drawn.branches[index],
                propensity=propensities[index],
                gate_id=None,
            )
            rows.append(row)
            learner_at_home = not learner_at_home
        return _Plan(population, opponents.record, rows)

    def _distribution(self, request: wire.TrainingLeases, now: datetime) -> tuple[Population, OpponentDistribution]:
        """Return a learner's opponent distribution, cached until its inputs change.

        After a rating period one call at a time computes it; concurrent calls use the one from before the period.
        """
        player_id, self_play = request.player_id, request.self_play
        refreshing = self.population.refresh_lock(player_id)
        with self.database.autocommit_read() as session:
            found = session.connection().execute(_TRUST_AND_VERSION, {"worker": request.worker_id}).one_or_none()
            worker = workers.trusted(request.worker_id, found)
            present = () if found is None else tuple(found[-len(NEWEST) :])
            unplayable_ids = self._unplayable(session, request.worker_id, worker, now)
            # While another request computes the new distribution, the one from before the period is good enough.
            for population in self.population.recent(session, player_id, present, stale=refreshing.locked()):
                cached = population.peek(_key(player_id, self_play=self_play, unplayable=unplayable_ids))
                if cached is not None:
                    return population, cached
        with refreshing, self.database.read() as session:
            population = self.population.of_player(session, player_id)
            distribution = distribution_of(
                session, population, self.settings, player_id, self_play=self_play, unplayable=unplayable_ids
            )
        return population, distribution

    def _plan_rating(self, request: wire.RatingLeases, now: datetime, rng: np.random.Generator) -> _Plan:
        """Pair frozen players that the worker can play, those of an open gate first, or its external player.

        Two consecutive leases are a pair with swapped sides and one seed.
        """
        with self.database.read() as session:
            worker = workers.require_trusted(session, request.worker_id)
            population = self.population.get(session, request.environment)
            player_id = request.player_id
            external = None if player_id is None else external_players.require_active(population, player_id)
            unplayable_ids = self._unplayable(session, request.worker_id, worker, now)
            evaluator = Evaluator(worker.signatures, unplayable_ids, external)
            needs, share = self.gates.needs(session, now), self.settings.promotion.gate_share
            gate = rating_pairs.choose_gate(session, population, evaluator, needs, share, rng)
            # Rounded up, because half a pair would leave the sides unbalanced.
            count = (request.count + 1) // 2
            if gate is None:
                widest = self.settings.promotion.max_error
                planned = rating_pairs.plan_pairs(session, population, evaluator, count, widest, rng)
            else:
                if gate.by_rule:
                    needed = needs.get(gate.id, FIRST_PAIRS)
                    count = min(count, math.ceil(needed / self._budget(request)))
                planned = rating_pairs.plan_gate(population, gate, count)
        new_row = self._row_factory(request, population.environment, planned.record, now)
        kind = "rating" if planned.gate_id is None else counting.GATE
        ids_and_seeds = _ids_and_seeds(2 * len(planned.pairs), now, rng)
        rows = []
        for number, (one, other) in enumerate(planned.pairs):
            (first_id, seed), (second_id, _) = ids_and_seeds[2 * number : 2 * number + 2]
            members = population.members[one], population.members[other]
            # One seed for both, so that luck cancels within a pair.
            for lease_id, (home, away) in ((first_id, members), (second_id, members[::-1])):
                row = new_row(
                    id=lease_id,
                    seed=seed,
                    home_id=home.id,
                    away_id=away.id,
                    learner_side=None,
                    branch=planned.branch,
                    propensity=None,
                    gate_id=planned.gate_id,
                    kind=kind,
                )
                rows.append(row)
        return _Plan(population, planned.record, rows)

    def _row_factory(
        self,
        request: wire.TrainingLeases | wire.RatingLeases,
        environment: str,
        record: DistributionRecord,
        now: datetime,
    ) -> "partial[LeaseRow]":
        """Bind the columns that all leases of a request share."""
        return partial(
            LeaseRow,
            worker_id=request.worker_id,
            kind=request.kind,
            environment=environment,
            budget=self._budget(request),
            draw_id=record.id,
            granted_at=now,
            expires_at=now + timedelta(seconds=self.settings.lease_expiry_s),
        )

    def _budget(self, request: wire.TrainingLeases | wire.RatingLeases) -> int:
        """Return the number of matches of each lease."""
        return min(request.budget, self.settings.lease_budget_max)

    def _store(self, plan: _Plan, now: datetime) -> None:
        """Store leases, and their distribution unless it is stored already.

        PostgreSQL rejects leases of a distribution that was deleted with its environment. Storing a distribution checks
        that the environment still exists.
        """
        environment = plan.population.environment
        if plan.population.is_stored(plan.record.id, now):
            self.database.group_commit(_insert, plan.rows, kind="leases", briefly=True)
            return

        # Not batched: processes that store the same distributions in different orders could deadlock.
        def store(session: Session) -> None:
            if session.scalar(_lock_environment(environment)) is None:
                raise _deleted(environment)
            explanations.store(session, plan.record, now)
            _insert(session, [plan.rows])

        self.database.group_commit(one_by_one, store)

    def _unplayable(self, session: Session, worker_id: str, worker: Trusted, now: datetime) -> frozenset[int]:
        return unplayable.known_to(session, self.settings, worker_id, now) if worker.reported else frozenset()


def distribution_of(
    session: Session,
    population: Population,
    settings: Settings,
    player_id: int,
    *,
    self_play: bool = True,
    unplayable: frozenset[int] = frozenset(),
) -> OpponentDistribution:
    """Load a learner's inputs and compute its opponent distribution, once per version of the population.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: The player is not a learner.
    """
    learner = pfsp.require_learner(population, player_id)

    def compute() -> OpponentDistribution:
        inputs = load_inputs(session, population, settings, player_id)
        pool = pfsp.opponent_pool(population, learner.signature, unplayable)
        return pfsp.opponent_distribution(population, pool, inputs, self_play=self_play)

    return population.cached(_key(player_id, self_play=self_play, unplayable=unplayable), compute)


def _key(player_id: int, *, self_play: bool, unplayable: frozenset[int]) -> Hashable:
    return "distribution", player_id, self_play, unplayable


def explain(session: Session, settings: Settings, lease_id: str, now: datetime) -> wire.LeaseExplanation:
    """Return a lease, its results and the distribution that it was drawn from.

    Raises:
        UnknownLeaseError: There is no such lease.
    """
    lease = session.get(Lease, lease_id)
    if lease is None:
        raise UnknownLeaseError(lease_id, "no lease has this id", "see a match's lease_id")
    players = session.execute(select(Player).where(Player.id.in_((lease.home_id, lease.away_id)))).scalars()
    matches = session.scalar(select(func.count()).where(Match.lease_id == lease_id)) or 0
    record = explanations.load(session, lease.draw_id)
    return wire.LeaseExplanation.model_validate(
        explanations.to_wire(session, settings, record)
        | {
            "lease": _body(lease, {player.id: _seat(player) for player in players}, record.rule(lease.branch)),
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
    """Release leases, and record the players that the worker could not play.

    Raises:
        UnknownWorkerError: There is no such worker.
        InvalidRequestError: No lease in the request contains the unplayable player.
    """
    workers.require(session, request.worker_id)
    quarantined = unplayable.report(session, settings, request, findings, now)
    # Only open leases change: a repeated release must not move `released_at`.
    still_open = Lease.worker_id == request.worker_id, Lease.released_at.is_(None), Lease.expires_at > now
    ended = update(Lease).where(Lease.id.in_(request.lease_ids), *still_open)
    released = session.scalars(ended.values(released_at=now, state="released").returning(Lease.id)).all()
    return wire.ReleaseAnswer(released=len(released), quarantined=quarantined)


def sweep(session: Session, now: datetime, limit: int) -> Counter[str]:
    """Settle the state of expired leases, oldest expiry first; return their number by state.

    Nothing depends on it in time: `expires_at` determines whether results are accepted.
    """
    ended = select(Lease.id).where(Lease.state == "open", Lease.expires_at <= now).order_by(Lease.expires_at)
    # SKIP LOCKED: every API process sweeps, and two of them should take different leases instead of waiting.
    free = ended.limit(limit).with_for_update(skip_locked=True)
    reported = select(func.count()).where(Match.lease_id == Lease.id).scalar_subquery()
    state = case((reported >= Lease.budget, "played"), else_="expired")
    settled = update(Lease).where(Lease.id.in_(free)).values(state=state).returning(Lease.state)
    return Counter(session.scalars(settled.execution_options(synchronize_session=False)))


def _ids_and_seeds(count: int, now: datetime, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Return ids, which sort by time, and match seeds."""
    # Time first: new ids go to the end of the primary key's index and not to random pages.
    prefix, digits = f"{int(now.timestamp() * 1000):011x}", rng.bytes(_RANDOM_DIGITS // 2 * count).hex()
    seeds: list[int] = rng.integers(_SEED_LIMIT, size=count).tolist()
    return [
        (prefix + digits[index * _RANDOM_DIGITS : (index + 1) * _RANDOM_DIGITS], seed)
        for index, seed in enumerate(seeds)
    ]


def _lock_environment(name: str) -> Select[str]:
    """Select an environment with FOR KEY SHARE, which blocks deletion but not updates until the transaction ends."""
    return select(Environment.name).where(Environment.name == name).with_for_update(read=True, key_share=True)


def _deleted(environment: str) -> UnknownEnvironmentError:
    rule = "it was deleted at the same time"
    return UnknownEnvironmentError(environment, rule, "restart its workers to create it again")


def _insert(session: Session, requests: Sequence[Sequence[LeaseRow]]) -> Sequence[None]:
    """Insert the leases of several requests with stored distributions."""
    insert_new(session, Lease, [vars(row) for rows in requests for row in rows])
    return [None] * len(requests)


def _to_record(population: Population, row: LeaseRow) -> LeaseRecord:
    return LeaseRecord(
        lease_id=row.id,
        worker_id=row.worker_id,
        kind=row.kind,
        environment=row.environment,
        home_id=row.home_id,
        away_id=row.away_id,
        seed=row.seed,
        budget=row.budget,
        granted_at=row.granted_at,
        expires_at=row.expires_at,
        signature=population.members[population.index(row.home_id)].signature,
    )


def _answer(plan: _Plan) -> list[dict[str, Any]]:
    population, rows = plan.population, plan.rows
    players = {player for row in rows for player in (row.home_id, row.away_id)}
    seats = {player: _seat(population.members[population.index(player)]) for player in players}
    reasons = {branch: plan.record.rule(branch) for branch in {row.branch for row in rows}}
    return [_body(row, seats, reasons[row.branch]) for row in rows]


def _seat(player: Player | Member) -> dict[str, Any]:
    return {"player_id": player.id, "checkpoint": player.checkpoint, "name": player.name}


def _body(lease: LeaseRow | Lease, seats: dict[int, dict[str, Any]], reason: str) -> dict[str, Any]:
    return {
        "lease_id": lease.id,
        "kind": "training" if lease.kind == "training" else "rating",
        "home": seats[lease.home_id],
        "away": seats[lease.away_id],
        "learner_side": lease.learner_side,
        "seed": lease.seed,
        "budget": lease.budget,
        "expires_at": lease.expires_at,
        "propensity": lease.propensity,
        "branch": lease.branch,
        "reason": reason,
        "gate_id": lease.gate_id,
    }


def _state(lease: Lease, matches: int, now: datetime) -> str:
    """Return the state of a lease, as the row has it or will have it after a sweep."""
    if lease.state != "open":
        return lease.state
    if matches >= lease.budget:
        return "played"
    return "open" if now < lease.expires_at else "expired"
