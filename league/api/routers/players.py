"""Players: published, found, followed, and moved between standings."""

from typing import Annotated

from fastapi import APIRouter, Body

from league import wire
from league.api.dependencies import Admin, After, Before, Filter, Id, Limit, Now, Reader, Running, Worker
from league.api.responses import page
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.auth import Principal
from league.services.auth import ownership
from league.services.checkpoints import quotas
from league.services.leaderboard import lineage as leaderboard_lineage
from league.services.leaderboard import standings
from league.services.lifecycle import transitions
from league.services.matches import queries as match_queries
from league.services.population import external_players, snapshots
from league.services.promotion import behaviour_profiles
from league.services.ratings import rated_players
from league.services.unplayable_reports import false_reports, reports
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/players", tags=["players"])
externals_router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/externals", tags=["players"])

Reason = Annotated[wire.LifecycleRequest | None, Body()]
Dismissal = Annotated[wire.DismissalRequest | None, Body()]


@router.post("")
def publish(body: wire.PlayerCreate, league: Running, now: Now, caller: Worker) -> wire.Player:
    """Publish an uploaded checkpoint as a candidate; the same again is the same player."""
    header = league.store.header(body.checkpoint)
    with league.database.write() as session:
        ownership.require_learner(session, caller, body.learner_id)
        quotas.note_arrival(session, caller, body.checkpoint, now)
        return snapshots.publish(session, league.settings, league.store, header, body, now)


@router.get("")
def listing(
    league: Running,
    _: Reader,
    environment: Filter = None,
    standing: wire.Standing | None = None,
    kind: wire.Kind | None = None,
    limit: Limit = 100,
    cursor: After = 0,
) -> wire.Page[wire.Player]:
    """List players by id."""
    asked = {"environment": environment, "standing": standing, "kind": kind}
    filters = {column: value for column, value in asked.items() if value is not None}
    with league.database.read() as session:
        found = snapshots.listing(session, league.settings, filters, limit + 1, cursor)
    return page(found, limit, lambda player: player.id)


@router.get("/{player_id}")
def show(player_id: Id, league: Running, _: Reader) -> wire.Player:
    """Show one player."""
    with league.database.read() as session:
        return rated_players.show(session, league.settings, player_id)


@router.get("/{player_id}/ratings")
def ratings(
    player_id: Id, league: Running, _: Reader, limit: Limit = 1000, cursor: After = 0
) -> wire.Page[wire.RatingPoint]:
    """Follow a player's rating, oldest period first."""
    with league.database.read() as session:
        found = standings.get_rating_curve(session, player_id, limit + 1, cursor)
    return page(found, limit, lambda point: point.period_id)


@router.get("/{player_id}/lineage")
def lineage(
    player_id: Id, league: Running, now: Now, _: Reader, limit: Limit = 100, cursor: After = 0
) -> wire.Page[wire.Ancestor]:
    """Follow a player's parents up to the first, the player itself on top; a learner's are its snapshots."""
    with league.database.read() as session:
        found = leaderboard_lineage.ancestors(session, league.settings, league.judge, player_id, limit + 1, cursor, now)
    return page(found, limit, lambda ancestor: ancestor.generation)


@router.get("/{player_id}/fingerprint")
def fingerprint(
    player_id: Id, league: Running, _: Reader, limit: Limit = 10, other: Id | None = None
) -> wire.Fingerprint:
    """Show how a player plays, by what evaluators measured, and the `limit` most like it, or how far `other` is."""
    with league.database.read() as session:
        if other is None:
            return behaviour_profiles.show(session, player_id, limit)
        return behaviour_profiles.beside(session, player_id, other)


@router.get("/{player_id}/matches")
def log(player_id: Id, league: Running, _: Reader, limit: Limit = 100, cursor: Before = None) -> wire.Page[wire.Match]:
    """List a player's matches, newest first."""
    with league.database.read() as session:
        rated_players.require(session, player_id)
        found = match_queries.of_player(session, player_id, limit + 1, cursor)
    return page(found, limit, lambda match: match.id)


@router.get("/{player_id}/reports")
def list_reports(player_id: Id, league: Running, _: Reader, limit: Limit = 100) -> wire.Page[wire.PlayerReport]:
    """List the reports that a player cannot be played, newest first."""
    with league.database.read() as session:
        rated_players.require(session, player_id)
        return wire.Page(items=reports.of_player(session, player_id, limit), next_cursor=None)


@router.post("/{player_id}/reports/dismiss")
def dismiss(
    player_id: Id, league: Running, now: Now, caller: Admin, body: Dismissal = None
) -> wire.Page[wire.PlayerReport]:
    """Resolve the open reports about a player as false; tokens that made them are flagged."""
    reason = "" if body is None else body.reason
    with league.database.write() as session:
        found = false_reports.dismiss(session, player_id, actor=caller.name, reason=reason, now=now)
    return wire.Page(items=found, next_cursor=None)


@router.post("/{player_id}/promote")
def promote(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Make a candidate a commander, with a call-sign."""
    return _change(league, player_id, "promote", caller, body, now)


@router.post("/{player_id}/retire")
def retire(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Take a candidate or commander out of play; its history stays."""
    return _change(league, player_id, "retire", caller, body, now)


@router.post("/{player_id}/reinstate")
def reinstate(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Make a retired or quarantined snapshot a candidate again."""
    return _change(league, player_id, "reinstate", caller, body, now)


@router.post("/{player_id}/quarantine")
def quarantine(player_id: Id, league: Running, now: Now, caller: Admin, body: Reason = None) -> wire.Player:
    """Take a suspicious snapshot out of play."""
    return _change(league, player_id, "quarantine", caller, body, now)


def _change(
    league: AppState,
    player_id: Id,
    name: transitions.Change,
    caller: Principal,
    body: wire.LifecycleRequest | None,
    now: Now,
) -> wire.Player:
    asked = body or wire.LifecycleRequest()
    with league.database.write() as session:
        return transitions.transition(
            session,
            league.settings,
            player_id,
            name,
            actor=caller.name,
            reason=asked.reason,
            now=now,
            expected=asked.expected,
        )


@externals_router.post("")
def enter(body: wire.ExternalCreate, league: Running, now: Now, caller: Worker) -> wire.Player:
    """Enter a player whose policy stays with the caller; the same name again is the same player."""
    with league.database.write() as session:
        return external_players.enter(session, league.settings, body, caller, now)
