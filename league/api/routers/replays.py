"""Recordings of matches, as their workers made them: gzip, which browsers unpack by themselves."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool

from league import wire
from league.api.dependencies import Id, Now, Reader, Running, Worker
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.services.replays import service as replays
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/matches", tags=["tables"])

_CREATED, _NOT_MODIFIED = 201, 304
_FOREVER = "private, max-age=31536000, immutable"
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_JSON: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}


@router.get(
    "/{match_id}/replay",
    response_class=Response,
    responses={
        200: {"description": "The recording; see docs/replays.md", "content": _JSON},
        _NOT_MODIFIED: {"description": "The caller has it"},
    },
)
def fetch(match_id: Id, request: Request, league: Running, _: Reader) -> Response:
    """Send a match's recording."""
    return send(league, match_id, request.headers.get("if-none-match", ""))


@router.put(
    "/{match_id}/replay",
    status_code=_CREATED,
    response_model=wire.Replay,
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def store(match_id: Id, request: Request, league: Running, now: Now, caller: Worker) -> wire.Replay:
    """Take in the recording of a match that a worker of the caller's played; the same again is fine."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        replays.require_size(league.settings.replays, len(data))

    def take_in() -> wire.Replay:
        header = replays.read_header(league.settings.replays, match_id, bytes(data))
        with league.database.write() as session:
            return replays.store(session, league.settings.replays, caller, match_id, header, bytes(data), now)

    return await run_in_threadpool(take_in)


def send(league: AppState, match_id: int, known: str) -> Response:
    """Return the answer that carries a recording.

    Args:
        league: The running league.
        match_id: The match.
        known: `If-None-Match` of the request.

    Raises:
        UnknownMatchError: There is no such match.
        UnknownReplayError: It has no recording.
    """
    with league.database.read() as session:
        replay = replays.find(session, match_id)
        headers = {"ETag": f'"{replay.sha256}"', "Cache-Control": _FOREVER}
        if headers["ETag"] in known or known.strip() == "*":
            return Response(status_code=_NOT_MODIFIED, headers=headers)
        data = replays.content(session, match_id)
    return Response(data, headers={**headers, "Content-Encoding": "gzip"}, media_type="application/json")
