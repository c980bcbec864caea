"""Event endpoints: the audit log, and server-sent events from all processes of the league."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from league import wire
from league.api.dependencies import TEXT, Before, Filter, Limit, Permission, PlayerFilter, Reader, Running
from league.api.event_feed import Cursor, NewEvents
from league.api.routes import ApiRoute
from league.api.state import AppState, Stream
from league.errors import BusyError, InvalidRequestError
from league.pagination import Page
from league.services.audit import log as audit_log
from league.services.audit import stream as audit_stream
from league.services.audit.log import AuditEntry, AuditFilter
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.services.ratings import rated_players
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=PREFIX, tags=["events"])

_BATCH = 500
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")
_RETRY_S = 10
_KEEP_ALIVE = ": keep-alive\n\n"

LastEventId = Annotated[str | None, Header(description="Id of the last event that the client has")]


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def stream_events(
    league: Running, _: Reader, permission: Permission, last_event_id: LastEventId = None
) -> StreamingResponse:
    """Stream events: `result` (number of new results), `period`, and changes of standing.

    A client that reconnects with `Last-Event-ID` misses nothing. The stream ends when the client's token becomes
    invalid.
    """
    return await follow(league, permission, last_event_id)


async def follow(
    league: AppState, permission: Permission, last_event_id: str | None, *, named: bool = True
) -> StreamingResponse:
    """Stream all events after a given one, or from now on, while the permission lasts.

    Args:
        league: The running league.
        permission: Returns whether the client may still read.
        last_event_id: Id of the last event that the client received; None to start now.
        named: Whether to send the kind as the event's type; otherwise browsers receive all as messages.

    Raises:
        InvalidRequestError: `last_event_id` is malformed.
        BusyError: The maximum number of streams is open.
    """
    own = _register_stream(league)
    start = await run_in_threadpool(_latest, league) if last_event_id is None else _cursor(last_event_id)
    # A connection that breaks before the first event resumes from its start.
    headers = {"Cache-Control": "no-store", "Last-Event-ID": f"{start[0]}.{start[1]}"}
    messages = _messages(league, permission, start, own, named=named)
    return StreamingResponse(messages, media_type="text/event-stream", headers=headers)


@router.get("/events/history", response_model=wire.Page[wire.Event])
def list_events(
    league: Running,
    _: Reader,
    environment: Filter = None,
    player: PlayerFilter = None,
    kind: Annotated[str | None, Query(pattern=TEXT, description="Only events of this kind, such as `promote`")] = None,
    actor: Annotated[str | None, Query(pattern=TEXT, description="Only events by this token or rule")] = None,
    periods: Annotated[bool, Query(description="Whether to include closed rating periods")] = False,
    limit: Limit = 100,
    cursor: Before = None,
) -> Page[AuditEntry]:
    """List the audit log, newest first; closed rating periods only on request."""
    wanted = AuditFilter(environment, kind=kind, actor=actor, player_id=player, periods=periods)
    with league.database.read() as session:
        environments.require_known(session, environment)
        if player is not None:
            rated_players.require(session, player)
        return audit_log.list_events(session, wanted, limit, cursor)


async def _messages(
    league: AppState, permission: Permission, cursor: Cursor, own: Stream, *, named: bool
) -> AsyncIterator[str]:
    try:
        # Checked at each poll: a revoked token ends its stream, and a shutdown does not wait for the client.
        while not league.ending.is_set() and await permission():
            new_events = await run_in_threadpool(league.event_feed.since, cursor, partial(_since, league, cursor))
            for cursor, event in new_events:
                kind = f"event: {event.kind}\n" if named else ""
                yield f"id: {cursor[0]}.{cursor[1]}\n{kind}data: {_body(event)}\n\n"
            if not new_events:
                # Proxies close connections that are idle for long.
                yield _KEEP_ALIVE
            await asyncio.sleep(until_next(time.monotonic(), league.settings.events_poll_s))
    finally:
        league.streams.discard(own)


def _body(event: AuditEntry) -> str:
    return wire.Event.model_validate(event, from_attributes=True).model_dump_json()


def until_next(now_s: float, every_s: float) -> float:
    """Return the seconds until the next common poll of all streams, in (0, every_s], so that they share one read."""
    return every_s - now_s % every_s


def _register_stream(league: AppState) -> Stream:
    """Register a stream, which counts while it is referenced; streams are limited because each polls the database.

    Raises:
        BusyError: The maximum number of streams is open.
    """
    if len(league.streams) >= league.settings.events_streams_max:
        rule = f"{len(league.streams)} event streams are already open"
        error = BusyError("for GET /events", rule, "close others, or raise LEAGUE_EVENTS_STREAMS_MAX")
        error.retry_after_s = _RETRY_S
        raise error
    own = Stream()
    league.streams.add(own)
    return own


def _latest(league: AppState) -> Cursor:
    return audit_stream.latest(league.database)


def _since(league: AppState, cursor: Cursor) -> NewEvents:
    """Return the events after the cursor, each with the cursor that follows it."""
    event_id, match_id = cursor
    with league.database.read() as session:
        log = audit_log.read_after(session, event_id, _BATCH)
    for event in log:
        if event.kind == admission.KIND:  # SQLite may reuse the ids of deleted matches
            match_id = min(match_id, event.details.get("last_match_id", match_id))
    results = audit_stream.read_results_after(league.database, match_id)
    new_events = [((event.id, match_id), event) for event in log]
    last_id = log[-1].id if log else event_id
    # only the last result advances the match cursor, so a reader that disconnects before it gets all of them again
    return new_events + [((last_id, match_id if event is not results[-1] else event.id), event) for event in results]


def _cursor(text: str) -> Cursor:
    found = _CURSOR.fullmatch(text)
    if found is None:
        rule = "it is the id of an event of this stream"
        raise InvalidRequestError(f"Last-Event-ID={text!r}", rule, "leave it out to start from now")
    return int(found[1]), int(found[2])
