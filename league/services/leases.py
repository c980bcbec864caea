"""Opponent leases: drawn, granted with the reason, explained, given back. They end by themselves at `expires_at`."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from arena.matchmaking import SELF, draw, rating_pairs
from league import wire
from league.config import Settings
from league.db.models import Lease, Match, Player
from league.errors import UnknownLeaseError
from league.services import draws, standings, workers
from league.services.population import Member, Population, PopulationCache

PAIRING = "thompson"
"""Branch of rating leases."""

_RANDOM_BYTES = 6
_SEED_LIMIT = 2**63

Row = dict[str, Any]


def grant_training(
    session: Session,
    settings: Settings,
    cache: PopulationCache,
    request: wire.TrainingLeases,
    now: datetime,
    rng: np.random.Generator,
) -> list[wire.Lease]:
    """Draw opponents for a learner. The learner's side alternates from lease to lease.

    Raises:
        UnknownWorkerError: There is no such worker.
        UnknownPlayerError: There is no such player.
        InvalidRequestError: The player is not a learner.
    """
    worker = workers.require(session, request.worker_id)
    player, _ = standings.require(session, request.player_id)
    population = cache.get(session, player.environment)
    learner = draws.of_learner(population, settings, request.player_id, self_play=request.self_play)
    draw_id = draws.keep(session, draws.account_of_learner(population, learner), now)
    drawn = draw(learner.distribution, request.count, rng)
    first = int(rng.integers(2))
    rows = []
    for place, choice in enumerate(drawn.opponents):
        opponent = request.player_id if choice == SELF else population.members[learner.opponents[choice]].id
        at_home = (first + place) % 2 == 0
        home, away = (request.player_id, opponent) if at_home else (opponent, request.player_id)
        rows.append(
            _row(settings, request, worker.id, population, now, rng)
            | {
                "home_id": home,
                "away_id": away,
                "learner_side": "home" if at_home else "away",
                "branch": drawn.branches[place],
                "propensity": float(drawn.propensities[place]),
                "draw_id": draw_id,
            }
        )
    return _insert(session, population, rows)


def grant_rating(
    session: Session,
    settings: Settings,
    cache: PopulationCache,
    request: wire.RatingLeases,
    now: datetime,
    rng: np.random.Generator,
) -> list[wire.Lease]:
    """Pair frozen players that the worker can play; two consecutive leases are a pair, swapped, on one seed.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    worker = workers.require(session, request.worker_id)
    population = cache.get(session, request.environment)
    places = _one_signature(population, set(worker.signatures), rng)
    pairs = _pairs(population, places, (request.count + 1) // 2, rng)
    if not pairs.size:
        return []
    draw_id = draws.keep(session, draws.account_of_pairing(population, places, PAIRING), now)
    rows = []
    for one, other in pairs:
        players = population.members[one].id, population.members[other].id
        seed = int(rng.integers(_SEED_LIMIT))
        for home, away in (players, players[::-1]):
            seats = {"home_id": home, "away_id": away, "learner_side": None, "seed": seed}
            why = {"branch": PAIRING, "propensity": None, "draw_id": draw_id}
            rows.append(_row(settings, request, worker.id, population, now, rng) | seats | why)
    return _insert(session, population, rows)


def explain(session: Session, lease_id: str) -> wire.LeaseExplanation:
    """Show a lease, what became of it and the distribution that it was drawn from.

    Raises:
        UnknownLeaseError: There is no such lease.
    """
    lease = session.get(Lease, lease_id)
    if lease is None:
        raise UnknownLeaseError(lease_id, "no lease has this id", "see a match's lease_id")
    seats = session.execute(select(Player).where(Player.id.in_((lease.home_id, lease.away_id)))).scalars()
    matches = session.scalar(select(func.count()).where(Match.lease_id == lease_id)) or 0
    return wire.LeaseExplanation.model_validate(
        draws.kept(session, lease.draw_id)
        | {
            "lease": _body(_columns(lease), {player.id: _seat(player) for player in seats}),
            "worker_id": lease.worker_id,
            "environment": lease.environment,
            "granted_at": lease.granted_at,
            "released_at": lease.released_at,
            "matches": matches,
            "branch": lease.branch,
            "propensity": lease.propensity,
        }
    )


def release(session: Session, request: wire.ReleaseRequest, now: datetime) -> int:
    """Note that a worker will not play these leases further; return how many of them were still open.

    Raises:
        UnknownWorkerError: There is no such worker.
    """
    workers.require(session, request.worker_id)
    still_open = Lease.worker_id == request.worker_id, Lease.released_at.is_(None), Lease.expires_at > now
    ended = update(Lease).where(Lease.id.in_(request.lease_ids), *still_open).values(released_at=now)
    return len(session.scalars(ended.returning(Lease.id)).all())


def _one_signature(population: Population, signatures: set[str], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the places of the frozen players of one signature, drawn among those with anybody to pair."""
    groups = [population.opponents({signature}) for signature in sorted(signatures)]
    groups = [group for group in groups if len(group) > 1]
    chosen = groups[rng.integers(len(groups))] if groups else []
    return np.array(chosen, dtype=np.int64)


def _pairs(
    population: Population, places: NDArray[np.int64], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return (count, 2) places in the population."""
    anchors = np.array([population.members[place].kind == "baseline" for place in places], dtype=np.bool_)
    ratings = population.ratings
    pairs = rating_pairs(
        ratings.rating[places], ratings.deviation[places], population.games[places], count, rng, anchors=anchors
    )
    return places[pairs]


def _row(
    settings: Settings,
    request: wire.TrainingLeases | wire.RatingLeases,
    worker_id: str,
    population: Population,
    now: datetime,
    rng: np.random.Generator,
) -> Row:
    return {
        "id": f"{int(now.timestamp() * 1000):011x}{rng.bytes(_RANDOM_BYTES).hex()}",  # in time order, for the index
        "worker_id": worker_id,
        "kind": request.kind,
        "environment": population.environment,
        "seed": int(rng.integers(_SEED_LIMIT)),
        "budget": min(request.budget, settings.lease_budget_max),
        "granted_at": now,
        "expires_at": now + timedelta(seconds=settings.lease_expiry_s),
    }


def _insert(session: Session, population: Population, rows: list[Row]) -> list[wire.Lease]:
    session.execute(insert(Lease), rows)
    seated = {player for row in rows for player in (row["home_id"], row["away_id"])}
    seats = {player: _seat(population.members[population.place(player)]) for player in seated}
    return [_body(row, seats) for row in rows]


def _seat(player: Player | Member) -> wire.Seat:
    return wire.Seat(player_id=player.id, checkpoint=player.checkpoint, name=player.name)


def _columns(lease: Lease) -> Row:
    return {column.key: getattr(lease, column.key) for column in Lease.__table__.columns}


def _body(row: Row, seats: dict[int, wire.Seat]) -> wire.Lease:
    return wire.Lease(
        lease_id=row["id"],
        kind=row["kind"],
        home=seats[row["home_id"]],
        away=seats[row["away_id"]],
        learner_side=row["learner_side"],
        seed=row["seed"],
        budget=row["budget"],
        expires_at=row["expires_at"],
        propensity=row["propensity"],
        branch=row["branch"],
    )
