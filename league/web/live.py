"""What pages follow: the stream of events, opened with the cookie, which the calls under /api/v1 do not take."""

from typing import Annotated

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse

from league.api.dependencies import Running
from league.api.routers import events
from league.web.cookies import Visitor, VisitorLasts
from league.web.layout import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/live")
async def follow(
    league: Running, _: Visitor, lasts: VisitorLasts, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Follow the league as `GET /api/v1/events` does, until the visitor's token ends."""
    return await events.follow(league, lasts, last_event_id, named=False)
