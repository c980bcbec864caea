"""Matches pages: the log, newest first, and one match with its replay."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel, Field

from league import wire
from league.api.dependencies import ID_LIMIT, Id, Running
from league.api.routers import matches as api
from league.pagination import Page
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter, MatchRow
from league.services.ratings import rated_players
from league.services.replays import service as replays
from league.services.replays.service import Usage
from league.web.cookies import Visitor
from league.web.layout import PageRoute, Visit, Visiting, is_part
from league.web.templating import query

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50
"""Matches per page."""

_PLAYER = Annotated[int, Field(ge=1, lt=ID_LIMIT)]


class PageQuery(BaseModel):
    """Query of the page; forms send an empty string for no value.

    Attributes:
        kind: Kind of match.
        player: Id of a player.
        opponent: Id of its opponent.
        pair: Two ids separated by a comma, in place of player and opponent.
        recorded: Whether to show only matches with a replay.
        before: Show matches with lower ids.
    """

    kind: wire.MatchKind | Literal[""] = ""
    player: _PLAYER | Literal[""] = ""
    opponent: _PLAYER | Literal[""] = ""
    pair: Annotated[str, Field(pattern=r"^([0-9]{1,18},[0-9]{1,18})?$")] = ""
    recorded: bool = False
    before: _PLAYER | Literal[""] = ""

    @property
    def players(self) -> tuple[int, ...]:
        """Ids of the selected players."""
        if self.pair:
            first, second = (int(each) for each in self.pair.split(","))
            return first, second
        return tuple(each for each in (self.player, self.opponent) if each)

    @property
    def filtered(self) -> bool:
        """Whether a filter is set."""
        return bool(self.kind or self.players or self.recorded)

    def wanted(self, environment: str) -> MatchFilter:
        """Return the filter of the query."""
        return MatchFilter(environment, self.kind or None, self.players, self.recorded)

    def address(self, visit: Visit, **changes: Any) -> str:  # noqa: ANN401 - parameters of an address
        """Return the URL of this query with some changes, without default values."""
        params = self.model_copy(update=changes).model_dump(exclude_defaults=True, exclude={"recorded"})
        recorded = "true" if changes.get("recorded", self.recorded) else None
        return query("/matches", environment=visit.chosen, **params, recorded=recorded)


QueryParams = Annotated[PageQuery, Query()]


@dataclass(frozen=True)
class Log:
    """A page of the log.

    Attributes:
        found: Its matches.
        players: The selected players, if any.
        usage: Space used by recordings.
    """

    found: Page[MatchRow]
    players: tuple[wire.Player, ...]
    usage: Usage


@router.get("/matches")
def listing(request: Request, league: Running, visit: Visiting, params: QueryParams) -> HTMLResponse:
    """Show matches; a script receives only the part below the filters."""
    with league.database.read() as session:
        log = Log(
            found=match_queries.list_matches(
                session, league.settings, params.wanted(visit.environment), PAGE, params.before or None
            ),
            players=tuple(rated_players.show(session, league.settings, each) for each in params.players),
            usage=replays.usage(session),
        )
    values = {"log": log, "params": params, "replays": league.settings.replays}
    if is_part(request):
        return visit.part("_matches.html", **values)
    return visit.page("matches.html", "matches", "Matches", **values)


@router.get("/matches/{match_id}")
def show(match_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Show one match, with its replay if it was recorded."""
    with league.database.read() as session:
        match = match_queries.get_match(session, league.settings, match_id)
    return visit.of(match.environment).page("match.html", "matches", f"Match {match_id}", match=match)


@router.get("/matches/{match_id}/recording")
def recording(match_id: Id, request: Request, league: Running, _: Visitor) -> Response:
    """Send a match's recording to its page, because calls under /api/v1 do not accept the cookie."""
    return api.send(league, match_id, request.headers.get("if-none-match", ""))
