"""Matches: the log, newest first, and one match with its replay."""

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
"""Matches of a page."""

_PLAYER = Annotated[int, Field(ge=1, lt=ID_LIMIT)]


class Asked(BaseModel):
    """What the address asks for; an empty word is none, as forms send it.

    Attributes:
        kind: Of match.
        player: One who played.
        opponent: Against whom.
        pair: Two ids with a comma between them: the same as player and opponent.
        recorded: Whether only matches with a replay are asked for.
        before: The page's matches have lower ids.
    """

    kind: wire.MatchKind | Literal[""] = ""
    player: _PLAYER | Literal[""] = ""
    opponent: _PLAYER | Literal[""] = ""
    pair: Annotated[str, Field(pattern=r"^([0-9]{1,18},[0-9]{1,18})?$")] = ""
    recorded: bool = False
    before: _PLAYER | Literal[""] = ""

    @property
    def players(self) -> tuple[int, ...]:
        """Whose matches."""
        if self.pair:
            first, second = (int(each) for each in self.pair.split(","))
            return first, second
        return tuple(each for each in (self.player, self.opponent) if each)

    @property
    def filtered(self) -> bool:
        """Whether matches are left out."""
        return bool(self.kind or self.players or self.recorded)

    def wanted(self, environment: str) -> MatchFilter:
        """Return what the log is asked for."""
        return MatchFilter(environment, self.kind or None, self.players, self.recorded)

    def address(self, visit: Visit, **changes: Any) -> str:  # noqa: ANN401 - parameters of an address
        """Return the address of the same with some changes, as short as it can be."""
        asked = self.model_copy(update=changes).model_dump(exclude_defaults=True, exclude={"recorded"})
        recorded = "true" if changes.get("recorded", self.recorded) else None
        return query("/matches", environment=visit.chosen, **asked, recorded=recorded)


Asking = Annotated[Asked, Query()]


@dataclass(frozen=True)
class Log:
    """A page of the log.

    Attributes:
        found: Its matches.
        players: Whose they are, by name, where they are of somebody.
        usage: Of the room for recordings.
    """

    found: Page[MatchRow]
    players: tuple[wire.Player, ...]
    usage: Usage


@router.get("/matches")
def listing(request: Request, league: Running, visit: Visiting, asked: Asking) -> HTMLResponse:
    """Show matches, or the part of the page below the filters where a script asks."""
    with league.database.read() as session:
        log = Log(
            found=match_queries.list_matches(session, asked.wanted(visit.environment), PAGE, asked.before or None),
            players=tuple(rated_players.show(session, league.settings, each) for each in asked.players),
            usage=replays.usage(session),
        )
    values = {"log": log, "asked": asked, "replays": league.settings.replays}
    if is_part(request):
        return visit.part("_matches.html", **values)
    return visit.page("matches.html", "matches", "Matches", **values)


@router.get("/matches/{match_id}")
def show(match_id: Id, league: Running, visit: Visiting) -> HTMLResponse:
    """Show one match, with its replay where it was recorded."""
    with league.database.read() as session:
        match = match_queries.get_match(session, match_id)
    return visit.of(match.environment).page("match.html", "matches", f"Match {match_id}", match=match)


@router.get("/matches/{match_id}/recording")
def recording(match_id: Id, request: Request, league: Running, _: Visitor) -> Response:
    """Send a match's recording to the page that plays it: calls under /api/v1 do not take the cookie."""
    return api.send(league, match_id, request.headers.get("if-none-match", ""))
