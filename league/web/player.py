"""Player page: rating, opponents, lineage, behaviour and history of one player."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse
from markupsafe import Markup
from sqlalchemy.orm import Session

from league import lineage_svg, wire
from league.api.dependencies import Id, Now, Running
from league.api.routers import checkpoints
from league.api.routers.checkpoints import Sha256
from league.api.state import AppState
from league.errors import LeagueError
from league.player_names import display_name
from league.services.audit import log as audit_log
from league.services.audit.log import AuditFilter
from league.services.leaderboard import lineage, player_profile, standings
from league.services.leaderboard.standings import StandingsRow
from league.services.lifecycle import champions, transitions
from league.services.lifecycle.transitions import Change
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter
from league.services.promotion import behaviour_profiles, rules
from league.services.ratings import rated_players
from league.services.unplayable_reports import reports
from league.web.cookies import Visitor
from league.web.layout import PageRoute, Visiting

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CURVE_POINTS = 600
OPPONENTS, OPPONENTS_MOST = 12, 1000
MATCHES = 12
EVENTS = 30
SIMILAR_PLAYERS = 5
FLAGS = 5
SNAPSHOTS_DRAWN = 300

_WITHOUT_WEIGHTS = ("baseline:", "external:")


@dataclass(frozen=True)
class AdminAction:
    """A change that an admin can make.

    Attributes:
        change: Its name, and the last segment of its URL.
        label: Label of the button.
        explanation: Effect of the change.
        danger: Whether it takes the player out of play.
    """

    change: str
    label: str
    explanation: str
    danger: bool


_OFFERS: dict[Change, AdminAction] = {
    "promote": AdminAction("promote", "Promote", "It becomes a commander, with a call-sign.", danger=False),
    "retire": AdminAction(
        "retire", "Retire", "It is no longer drawn. Its history stays, and you can reinstate it.", danger=True
    ),
    "reinstate": AdminAction(
        "reinstate", "Reinstate", "It becomes a candidate again and is drawn as an opponent.", danger=False
    ),
    "quarantine": AdminAction("quarantine", "Quarantine", "It is not drawn until you reinstate it.", danger=True),
}
_DISMISS = AdminAction(
    "dismiss", "Dismiss reports", "The reports count as false, and the tokens that sent them are flagged.", danger=False
)
_CROWN = AdminAction("champion", "Make champion", "Scripts that ask for the champion get it.", danger=False)


@dataclass(frozen=True)
class Weights:
    """Checkpoint of a player and its size; None if the store does not have it."""

    sha256: str
    size_bytes: int | None


@dataclass(frozen=True)
class Profile:
    """Data of the page header.

    Attributes:
        player: The player.
        line: Its row in the standings.
        champion: Whether it is the champion.
        parent: Its parent snapshot.
        promotion_status: Reason why a candidate is not promoted yet; None for other players.
        weights: None for learners, baselines and external players, which have no checkpoint.
        flags: Open unplayable reports, newest first.
    """

    player: wire.Player
    line: StandingsRow
    champion: bool
    parent: wire.Player | None
    promotion_status: str | None
    weights: Weights | None
    flags: Sequence[wire.PlayerReport]


@router.get("/players/{player_id}")
def show(player_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Show a player; slow parts are loaded when they scroll into view."""
    with league.database.read() as session:
        profile = _profile(session, league, player_id)
        champion = champions.champion_id(session, profile.player.environment)
        listed, opponent_count = player_profile.list_opponents(
            session, league.settings, league.population, player_id, OPPONENTS
        )
        log = match_queries.list_matches(
            session, league.settings, MatchFilter(None, players=(player_id,)), MATCHES
        ).items
        events = audit_log.list_events(session, AuditFilter(player_id=player_id), EVENTS).items
    visit = visit.of(profile.player.environment)
    return visit.page(
        "player.html",
        "standings",
        display_name(profile.player),
        profile=profile,
        player=profile.player,
        listed=listed,
        opponent_count=opponent_count,
        matches=log,
        events=events,
        offers=_offers(profile) if visit.may_act else (),
        held_by=champion,
        changes=transitions.TRANSITIONS,
    )


@router.get("/players/{player_id}/head")
def head(player_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Return the current header of the page."""
    with league.database.read() as session:
        profile = _profile(session, league, player_id)
    return visit.of(profile.player.environment).part("_player_head.html", profile=profile, player=profile.player)


@router.get("/players/{player_id}/curve")
def curve(player_id: Id, league: Running, _: Visitor) -> JSONResponse:
    """Return the rating after each period as columns of a chart."""
    with league.database.read() as session:
        points = player_profile.get_rating_curve(session, player_id, CURVE_POINTS)
    columns = {
        "at": [point.closed_at.timestamp() for point in points],
        "period": [point.number for point in points],
        "rating": [point.rating for point in points],
        "low": [point.rating - 2 * point.deviation for point in points],
        "high": [point.rating + 2 * point.deviation for point in points],
        "games": [point.games for point in points],
    }
    return JSONResponse(columns, headers={"Cache-Control": "no-store"})


@router.get("/players/{player_id}/opponents")
def opponents(
    player_id: Id,
    league: Running,
    visit: Visiting,
    limit: Annotated[int, Query(ge=1, le=OPPONENTS_MOST)] = OPPONENTS_MOST,
) -> HTMLResponse:
    """Return more of a player's opponents."""
    with league.database.read() as session:
        listed, opponent_count = player_profile.list_opponents(
            session, league.settings, league.population, player_id, limit
        )
        player = rated_players.show(session, league.settings, player_id)
    return visit.part("_player_opponents.html", listed=listed, opponent_count=opponent_count, player=player)


@router.get("/players/{player_id}/descent")
def descent(player_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Draw the snapshots of a player's learner."""
    with league.database.read() as session:
        player = rated_players.show(session, league.settings, player_id)
        found = None
        if player.learner_id is not None:
            found = lineage.get_descent(session, league.settings, player.learner_id, SNAPSHOTS_DRAWN)
    drawing = None
    if found is not None:
        picture = lineage_svg.drawing(found, "/players/{}".format, player_id)
        drawing = Markup(picture)  # noqa: S704 - it escapes names itself
    return visit.part(
        "_player_descent.html",
        player=player,
        drawing=drawing,
        drawn=0 if found is None else len(found.snapshots),
        most=SNAPSHOTS_DRAWN,
        width=lineage_svg.WIDTH,
        height=lineage_svg.HEIGHT,
    )


@router.get("/players/{player_id}/likeness")
def likeness(player_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Return a player's behaviour measures and the most similar players."""
    with league.database.read() as session:
        found = behaviour_profiles.show(session, league.population, player_id, SIMILAR_PLAYERS)
    return visit.part("_player_likeness.html", fingerprint=found)


@router.get("/checkpoints/{sha256}")
def download(sha256: Sha256, request: Request, league: Running, now: Now, visitor: Visitor) -> Response:
    """Send a checkpoint to a visitor, authenticated by cookie."""
    return checkpoints.download_checkpoint(sha256, request, league, now, visitor)


def _profile(session: Session, league: AppState, player_id: int) -> Profile:
    player = rated_players.show(session, league.settings, player_id)
    parent = None
    if player.parent_id is not None:
        parent = rated_players.show(session, league.settings, player.parent_id)
    return Profile(
        player=player,
        line=standings.get_standings(session, league.settings, league.population, player.environment).find(player_id),
        champion=champions.champion_id(session, player.environment) == player_id,
        parent=parent,
        promotion_status=rules.explain_candidate(session, league.settings, league.population, player),
        weights=_weights(league, player),
        flags=reports.list_flags(session, player_id, FLAGS),
    )


def _weights(league: AppState, player: wire.Player) -> Weights | None:
    if player.checkpoint is None or player.checkpoint.startswith(_WITHOUT_WEIGHTS):
        return None
    try:
        return Weights(player.checkpoint, league.store.find(player.checkpoint).size_bytes)
    except LeagueError:
        return Weights(player.checkpoint, None)


def _offers(profile: Profile) -> list[AdminAction]:
    standing, allowed = profile.player.standing, transitions.allowed_of(profile.player.kind)
    offered = [_OFFERS[name] for name in allowed if standing in transitions.TRANSITIONS[name].origins]
    if "promote" in allowed and standing in ("candidate", "commander") and not profile.champion:
        offered.insert(1, _CROWN)
    if profile.flags:
        offered.append(_DISMISS)
    return offered
