"""Endpoints of players: publication, lookup, history and changes of standing."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response

from league import wire
from league.api.dependencies import (
    PAGE_MAX,
    TEXT,
    Admin,
    After,
    Before,
    Filter,
    Id,
    Limit,
    Now,
    PlayerFilter,
    Reader,
    Running,
    Worker,
)
from league.api.responses import created
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.auth import Principal
from league.pagination import Page
from league.services.audit.log import Cause
from league.services.auth import ownership
from league.services.checkpoints import quotas
from league.services.leaderboard import deviations, lineage, player_profile
from league.services.lifecycle import transitions
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter, MatchRow
from league.services.population import annotations, external_players, snapshots
from league.services.population.snapshots import PlayerQuery
from league.services.promotion import behaviour_profiles, rules
from league.services.ratings import rated_players
from league.services.unplayable_reports import false_reports, reports
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/players", tags=["players"])
externals_router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/externals", tags=["players"])

Reason = Annotated[wire.LifecycleRequest | None, Body()]
Dismissal = Annotated[wire.DismissalRequest | None, Body()]


@router.post("", status_code=201, response_model=wire.Player)
def create_player(body: wire.PlayerCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Publish an uploaded checkpoint as a candidate; idempotent."""
    header = league.store.header(body.checkpoint)
    with league.database.write() as session:
        ownership.require_learner(session, caller, body.learner_id)
        quotas.note_arrival(session, body.checkpoint, now)
        player = snapshots.publish(session, league.settings, league.store, header, body, now)
    return created(player, f"/players/{player.id}", is_new=player.created_at == now)


@router.get("", response_model=wire.Page[wire.Player])
def list_players(
    league: Running,
    _: Reader,
    environment: Filter = None,
    standing: Annotated[wire.Standing | None, Query(description="Only players of this standing")] = None,
    kind: Annotated[wire.Kind | None, Query(description="Only players of this kind")] = None,
    role: Annotated[wire.Role | None, Query(description="Only players of lineages of this role")] = None,
    q: Annotated[str, Query(max_length=200, pattern=TEXT, description="Part of a name or call-sign")] = "",
    exact: Annotated[bool, Query(description="Whether `q` is the whole name or call-sign")] = False,
    tag: Annotated[str | None, Query(max_length=64, pattern=TEXT, description="Only players with this tag")] = None,
    limit: Limit = 100,
    cursor: After = 0,
) -> Page[wire.Player]:
    """List players in ascending order of ids."""
    parameters = {"environment": environment, "standing": standing, "kind": kind, "role": role}
    columns = {column: value for column, value in parameters.items() if value is not None}
    with league.database.read() as session:
        return snapshots.list_players(session, league.settings, PlayerQuery(columns, q, exact, tag), limit, cursor)


@router.get("/{player_id}")
def get_player(player_id: Id, league: Running, _: Reader) -> wire.Player:
    """Return one player."""
    with league.database.read() as session:
        player = rated_players.show(session, league.settings, player_id)
        reason = rules.explain_candidate(session, league.settings, league.population, player)
        found = deviations.get_deviations(session, league.population, player.environment)
    return player.model_copy(update={"promotion_status": reason, "rating_misleads": player_id in found.players})


@router.patch("/{player_id}")
def update_player(player_id: Id, body: wire.PlayerUpdate, league: Running, now: Now, caller: Worker) -> wire.Player:
    """Replace the tags or the note of a player, which a worker may do for its own players."""
    with league.database.write() as session:
        ownership.require_player(session, caller, player_id)
        return annotations.update(session, league.settings, player_id, body, Cause(caller.name, "", now))


@router.get("/{player_id}/ratings", response_model=wire.Page[wire.RatingPoint])
def list_player_ratings(
    player_id: Id, league: Running, _: Reader, limit: Limit = 1000, cursor: After = 0
) -> Page[wire.RatingPoint]:
    """List a player's ratings, oldest period first."""
    with league.database.read() as session:
        return player_profile.list_ratings(session, player_id, limit, cursor)


@router.get("/{player_id}/lineage", response_model=wire.Page[wire.Ancestor])
def list_ancestors(
    player_id: Id, league: Running, now: Now, _: Reader, limit: Limit = 100, cursor: After = 0
) -> Page[wire.Ancestor]:
    """List a player and its parents up to the first; for a learner, its snapshots."""
    with league.database.read() as session:
        return lineage.list_ancestors(session, league.settings, player_id, limit, cursor, now)


@router.get("/{player_id}/fingerprint")
def get_fingerprint(
    player_id: Id,
    league: Running,
    _: Reader,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Most similar players to show")] = 10,
    other: PlayerFilter = None,
) -> wire.Fingerprint:
    """Return a player's measured behaviour and the `limit` most similar players, or its distance to `other`."""
    with league.database.read() as session:
        if other is None:
            return behaviour_profiles.show(session, league.population, player_id, limit)
        return behaviour_profiles.beside(session, league.population, player_id, other)


@router.get("/{player_id}/matches", response_model=wire.Page[wire.Match])
def list_player_matches(
    player_id: Id, league: Running, _: Reader, limit: Limit = 100, cursor: Before = None
) -> Page[MatchRow]:
    """List a player's matches, newest first."""
    with league.database.read() as session:
        rated_players.require(session, player_id)
        return match_queries.list_matches(
            session, league.settings, MatchFilter(None, players=(player_id,)), limit, cursor
        )


@router.get("/{player_id}/reports", response_model=wire.Page[wire.PlayerReport])
def list_player_reports(
    player_id: Id, league: Running, _: Reader, limit: Limit = 100, cursor: After = 0
) -> Page[wire.PlayerReport]:
    """List the unplayable reports about a player, newest first."""
    with league.database.read() as session:
        rated_players.require(session, player_id)
        return reports.list_reports(session, player_id, limit, cursor)


@router.post("/{player_id}/reports/dismiss")
def dismiss_player_reports(
    player_id: Id, league: Running, now: Now, caller: Admin, body: Dismissal = None
) -> wire.Page[wire.PlayerReport]:
    """Resolve the open reports about a player as false; tokens that made them are flagged."""
    reason = "" if body is None else body.reason
    with league.database.write() as session:
        found = false_reports.dismiss(session, player_id, Cause(caller.name, reason, now))
    return wire.Page(items=found, next_cursor=None)


@router.post("/{player_id}/promote")
def promote_player(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Promote a candidate to commander, with a call-sign."""
    return _change(league, player_id, "promote", caller, body, now)


@router.post("/{player_id}/retire")
def retire_player(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Retire a candidate or commander; its history stays."""
    return _change(league, player_id, "retire", caller, body, now)


@router.post("/{player_id}/reinstate")
def reinstate_player(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Make a retired or quarantined snapshot a candidate again."""
    return _change(league, player_id, "reinstate", caller, body, now)


@router.post("/{player_id}/quarantine")
def quarantine_player(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Quarantine a suspicious snapshot."""
    return _change(league, player_id, "quarantine", caller, body, now)


def _change(
    league: AppState,
    player_id: Id,
    name: transitions.Change,
    caller: Principal,
    body: wire.LifecycleRequest | None,
    now: Now,
) -> wire.Player:
    body = body or wire.LifecycleRequest()
    with league.database.write() as session:
        return transitions.transition(
            session, league.settings, player_id, name, Cause(caller.name, body.reason, now), expected=body.expected
        )


@externals_router.post("", status_code=201, response_model=wire.Player)
def create_external_player(body: wire.ExternalCreate, league: Running, now: Now, caller: Worker) -> Response:
    """Enter an external player, whose policy stays with the caller; idempotent by name."""
    with league.database.write() as session:
        player = external_players.enter(session, league.settings, body, caller, now)
    return created(player, f"/players/{player.id}", is_new=player.created_at == now)
