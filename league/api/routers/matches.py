"""Endpoints of matches and their recordings."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from league import wire
from league.api.dependencies import Before, Filter, Id, Limit, Now, PlayerFilter, Reader, Running, Worker
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.errors import InvalidRequestError
from league.pagination import Page
from league.services.environments import lookup as environments
from league.services.matches import behaviours
from league.services.matches import queries as match_queries
from league.services.matches.queries import MatchFilter, MatchRow
from league.services.ratings import rated_players
from league.services.replays import service as replays
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/matches", tags=["matches"])


@router.get("", response_model=wire.Page[wire.Match])
def list_matches(
    league: Running,
    _: Reader,
    environment: Filter = None,
    kind: Annotated[wire.MatchKind | None, Query(description="Only matches of this kind")] = None,
    player_id: PlayerFilter = None,
    opponent_id: PlayerFilter = None,
    recorded: Annotated[bool, Query(description="Only matches with a recording")] = False,
    limit: Limit = 100,
    cursor: Before = None,
) -> Page[MatchRow]:
    """List matches, newest first: all, a player's, or those between two players.

    A page may have fewer than `limit` matches; read on while `next_cursor` is not null.
    """
    if player_id is None and opponent_id is not None:
        raise InvalidRequestError(f"opponent_id={opponent_id}", "it requires player_id", "name both players")
    players = tuple(each for each in (player_id, opponent_id) if each is not None)
    with league.database.read() as session:
        environments.require_known(session, environment)
        for each in players:
            rated_players.require(session, each)
        if environment is None and not players:
            environment = environments.only(session)
        return match_queries.list_matches(
            session, league.settings, MatchFilter(environment, kind, players, recorded), limit, cursor
        )


@router.get("/{match_id}")
def get_match(match_id: Id, league: Running, _: Reader) -> wire.PlayedMatch:
    """Return one match with the behaviour measures of both sides."""
    with league.database.read() as session:
        match = wire.Match.model_validate(
            match_queries.get_match(session, league.settings, match_id), from_attributes=True
        )
        return wire.PlayedMatch(**dict(match), behaviour=behaviours.of_match(session, match_id))


_CREATED, _NOT_MODIFIED = 201, 304
_FOREVER = "private, max-age=31536000, immutable"
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_JSON: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}


@router.get(
    "/{match_id}/replay",
    response_class=Response,
    responses={
        200: {"description": "The recording; see docs/reference/formats.md", "content": _JSON},
        _NOT_MODIFIED: {"description": "The caller has it"},
    },
)
def get_replay(match_id: Id, request: Request, league: Running, _: Reader) -> Response:
    """Send a match's recording."""
    return send(league, match_id, request.headers.get("if-none-match", ""))


@router.put(
    "/{match_id}/replay",
    status_code=_CREATED,
    response_model=wire.Replay,
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def upload_replay(match_id: Id, request: Request, league: Running, now: Now, caller: Worker) -> wire.Replay:
    """Store the recording of a match played by one of the caller's workers; idempotent."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        replays.require_size(league.settings.replays, len(data))

    # In a thread: validation decompresses the recording, which would block the event loop.
    return await run_in_threadpool(league.replays.upload, caller, match_id, bytes(data), now)


def send(league: AppState, match_id: int, known: str) -> Response:
    """Return the response with a recording.

    Args:
        league: The running league.
        match_id: The match.
        known: `If-None-Match` of the request.

    Raises:
        UnknownMatchError: There is no such match.
        UnknownReplayError: It has no recording.
    """
    with league.database.read() as session:
        file = replays.find(session, match_id)
    headers = {"ETag": f'"{file.sha256}"', "Cache-Control": _FOREVER}
    if headers["ETag"] in known or known.strip() == "*":
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    data = replays.read(league.store.recordings, file)
    return Response(data, headers={**headers, "Content-Encoding": "gzip"}, media_type="application/json")
