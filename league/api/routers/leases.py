"""Endpoints of leases: grant, release, explanation and preview."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from league import wire
from league.api.dependencies import ID_LIMIT, Now, PlayerFilter, Reader, Running, Word, Worker
from league.api.fast_route import FastRoute
from league.api.responses import json_response
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.auth import Principal
from league.errors import InvalidRequestError
from league.services.auth import ownership
from league.services.matchmaking import leases, unplayable
from league.services.workers.polling import next_poll_s
from league.wire import PREFIX

router = APIRouter(route_class=FastRoute, prefix=PREFIX, tags=["matchmaking"])
preview_router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["matchmaking"])


@router.post("/leases", response_model=wire.LeaseAnswer)
def create_lease(body: wire.LeaseRequest, league: Running, now: Now, caller: Worker) -> Response:
    """Lease opponents for a learner, or pairs of frozen players."""
    # Skipped without authentication and for admins: three look-ups per lease request.
    if ownership.is_restricted(caller):
        with league.database.autocommit_read() as session:
            ownership.require_worker(session, caller, body.worker_id)
            if isinstance(body, wire.TrainingLeases):
                ownership.require_learner_of(session, caller, body.player_id)
            elif body.player_id is not None:
                ownership.require_external(session, caller, body.player_id)
    granted = league.leases.grant(body, now, league.rng)
    league.metrics.leases.labels(body.kind).inc(len(granted))
    return json_response({"items": granted, "next_poll_s": next_poll_s(league.settings, league.rng)})


@router.post("/leases/release")
def release_leases(body: wire.ReleaseRequest, league: Running, now: Now, caller: Worker) -> wire.ReleaseAnswer:
    """Release leases and report unplayable players; results that are still being sent count."""
    findings = _examine(league, caller, body) if body.unplayable else {}
    with league.database.write() as session:
        ownership.require_worker(session, caller, body.worker_id)
        return leases.release(session, league.settings, body, findings, now)


def _examine(league: AppState, caller: Principal, body: wire.ReleaseRequest) -> unplayable.Findings:
    """Check the weights of reported snapshots before the transaction, because reading files may take long."""
    with league.database.read() as session:
        ownership.require_worker(session, caller, body.worker_id)
        checkpoints = unplayable.checkpoints(session, body)
    return unplayable.examine(league.inspector, checkpoints)


@router.get("/leases/{lease_id}")
def get_lease(lease_id: Word, league: Running, now: Now, _: Reader) -> wire.LeaseExplanation:
    """Return a lease, its outcome, and the distribution that it was drawn from."""
    with league.database.read() as session:
        return leases.explain(session, league.settings, lease_id, now)


@preview_router.get("/matchmaking/preview")
def preview_matchmaking(
    league: Running,
    _: Reader,
    player_id: PlayerFilter = None,
    player: Annotated[int | None, Query(ge=1, lt=ID_LIMIT, description="Another name of `player_id`")] = None,
) -> wire.Preview:
    """Return the distribution for the next lease of a learner, by its player id."""
    chosen = player if player_id is None else player_id
    if chosen is None or player not in (None, chosen):
        raise InvalidRequestError(f"player_id={player_id}", "it is one learner's player id", "see GET /learners")
    with league.database.read() as session:
        return league.leases.preview(session, chosen)
