"""Checkpoint endpoints: bytes are stored and sent by the server, or uploaded to a bucket with signed URLs."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
from fastapi.responses import FileResponse, RedirectResponse
from starlette.types import Message, Receive, Scope, Send

from league import wire
from league.api import errors as api_errors
from league.api.dependencies import Now, Reader, Running, Worker
from league.api.routes import ApiRoute
from league.api.state import AppState
from league.errors import InvalidRequestError, UnsatisfiableRangeError
from league.services.checkpoints import quotas
from league.storage.base import Stored
from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store
from league.wire import PREFIX

router = APIRouter(route_class=ApiRoute, prefix=f"{PREFIX}/checkpoints", tags=["checkpoints"])

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="lower-case hexadecimal SHA-256 of the bytes")]

_CREATED, _NOT_MODIFIED, _TEMPORARY_REDIRECT, _REFUSED = 201, 304, 307, 400
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FOREVER = "private, max-age=31536000, immutable"
_ELSEWHERE: dict[int | str, dict[str, Any]] = {
    _TEMPORARY_REDIRECT: {"description": "At the signed URL in `Location`, valid for an hour"}
}
_ONCE = {"Cache-Control": "no-store"}


@router.get(
    "/{sha256}",
    response_class=FileResponse,
    responses={
        200: {"content": _BYTES},
        206: {"description": "The requested range", "content": _BYTES},
        _NOT_MODIFIED: {"description": "The caller already has them"},
        **_ELSEWHERE,
    },
)
@router.head("/{sha256}", include_in_schema=False)
def download_checkpoint(sha256: Sha256, request: Request, league: Running, now: Now, _: Reader) -> Response:
    """Send the bytes or the requested range, or redirect to the bucket."""
    cache_headers = {"ETag": f'"{sha256}"', "Cache-Control": _FOREVER}
    # The hash is the ETag, so an unchanged checkpoint needs no read of the file.
    if _has(request, cache_headers["ETag"]):
        league.store.find(sha256)
        return Response(status_code=_NOT_MODIFIED, headers=cache_headers)
    if isinstance(league.store, DirectoryStore):
        return _Bytes(league.store.path(sha256, now), headers=cache_headers, media_type="application/octet-stream")
    if request.method == "HEAD":
        size = league.store.find(sha256).size_bytes
        return Response(
            headers={**cache_headers, "Content-Length": str(size), "Content-Type": "application/octet-stream"}
        )
    return RedirectResponse(league.store.download_address(sha256), headers=_ONCE)


@router.put(
    "/{sha256}",
    status_code=_CREATED,
    response_model=wire.Checkpoint,
    responses=_ELSEWHERE,
    openapi_extra={"requestBody": {"required": True, "content": _BYTES}},
)
async def upload_checkpoint(
    sha256: Sha256, request: Request, league: Running, now: Now, caller: Worker
) -> wire.Checkpoint | Response:
    """Store the bytes; the upload is idempotent.

    If the league stores checkpoints in a bucket, the response redirects to it, and publishing verifies the uploaded
    bytes.
    """
    store = league.store
    if isinstance(store, S3Store):
        size_bytes = _declared_bytes(request)
        await run_in_threadpool(_announce, league, quotas.Upload(caller, sha256, size_bytes, now))
        return RedirectResponse(await run_in_threadpool(store.bare_upload_address, sha256, size_bytes), headers=_ONCE)
    announced = quotas.Upload(caller, sha256, _most_bytes(request, league), now)
    counted = quotas.counted(league.database, league.settings, store, announced)
    async with contextmanager_in_threadpool(counted), contextmanager_in_threadpool(store.receive(sha256)) as upload:
        async for chunk in request.stream():
            await run_in_threadpool(upload.write, chunk)
    return _described(await run_in_threadpool(store.find, sha256))


@router.post("/{sha256}/uploads")
def create_checkpoint_upload(
    sha256: Sha256, body: wire.UploadCreate, league: Running, now: Now, caller: Worker
) -> wire.Upload:
    """Return the upload URL, or that the bytes are stored already; a bucket accepts only this size and hash."""
    if league.store.touch(sha256, now):
        return wire.Upload(stored=True, url=None, headers={})
    if isinstance(league.store, DirectoryStore):
        league.store.require_size(body.size_bytes)
        with league.database.read() as session:
            quotas.require_room(session, league.settings, caller, body.size_bytes, now)
        return wire.Upload(stored=False, url=None, headers={})
    _announce(league, quotas.Upload(caller, sha256, body.size_bytes, now))
    address = league.store.upload_address(sha256, body.size_bytes)
    return wire.Upload(stored=False, url=address.url, headers=address.headers)


@router.post("/{sha256}/complete")
def complete_checkpoint_upload(sha256: Sha256, league: Running, now: Now, _: Worker) -> wire.Checkpoint:
    """Verify the bytes in the bucket and store them as a checkpoint; idempotent."""
    if isinstance(league.store, S3Store):
        league.store.complete(sha256)
    stored = league.store.find(sha256)
    with league.database.write() as session:
        quotas.note_arrival(session, sha256, now)
    return _described(stored)


def _announce(league: AppState, upload: quotas.Upload) -> None:
    with league.database.write() as session:
        quotas.announce(session, league.settings, upload)


class _Bytes(FileResponse):
    """File response that answers an unsatisfiable range with a problem document."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = False

        async def intercept(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] >= _REFUSED:
                refused = True
                answer = api_errors.response(_unsatisfiable(scope))
                answer.headers["Content-Range"] = f"bytes */{self.headers['content-length']}"
                await answer(scope, receive, send)
            if not refused:
                await send(message)

        await super().__call__(_without_other_units(scope), receive, intercept)


def _without_other_units(scope: Scope) -> Scope:
    """Remove a range in an unknown unit, which must be ignored (RFC 9110, section 14.2)."""
    unit, ranges, _ = dict(scope["headers"]).get(b"range", b"").partition(b"=")
    if not ranges or unit.strip().lower() == b"bytes":
        return scope
    return {**scope, "headers": [(name, value) for name, value in scope["headers"] if name != b"range"]}


def _unsatisfiable(scope: Scope) -> UnsatisfiableRangeError:
    requested = dict(scope["headers"]).get(b"range", b"").decode("latin-1")
    rule = "it is not a range, or begins after the last byte"
    return UnsatisfiableRangeError(f"{requested!r:.120}", rule, "request bytes=FIRST-LAST, or the whole file")


def _most_bytes(request: Request, league: AppState) -> int:
    """Return the declared size of the body, or the largest allowed size if it is not declared."""
    length = request.headers.get("content-length", "")
    return int(length) if length.isdecimal() else league.settings.checkpoint_max_bytes


def _declared_bytes(request: Request) -> int:
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        rule = "an object store requires the length of a body in advance"
        raise InvalidRequestError(f"Content-Length={length}", rule, "send the header")
    return int(length)


def _has(request: Request, tag: str) -> bool:
    named = request.headers.get("if-none-match", "")
    return named.strip() == "*" or tag in named


def _described(stored: Stored) -> wire.Checkpoint:
    return wire.Checkpoint(sha256=stored.sha256, size_bytes=stored.size_bytes)
