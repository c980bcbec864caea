"""Checkpoint bytes."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
from fastapi.responses import FileResponse

from league.api.dependencies import Reader, Running, Worker
from league.wire import PREFIX

router = APIRouter(prefix=f"{PREFIX}/checkpoints", tags=["checkpoints"])

Sha256 = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="lower-case hexadecimal SHA-256 of the bytes")]

_CREATED = 201
_NOT_MODIFIED = 304
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_FOREVER = "public, max-age=31536000, immutable"


@router.get("/{sha256}", response_class=FileResponse, responses={200: {"content": _BYTES}})
@router.head("/{sha256}", include_in_schema=False)
def fetch(sha256: Sha256, request: Request, league: Running, _: Reader) -> Response:
    """Send the bytes, or the asked range of them."""
    path = league.store.path(sha256)
    headers = {"ETag": f'"{sha256}"', "Cache-Control": _FOREVER}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=_NOT_MODIFIED, headers=headers)
    return FileResponse(path, headers=headers, media_type="application/octet-stream")


@router.put("/{sha256}", status_code=_CREATED, openapi_extra={"requestBody": {"required": True, "content": _BYTES}})
async def store(sha256: Sha256, request: Request, league: Running, _: Worker) -> dict[str, str]:
    """Take the bytes in; sending them again is fine."""
    async with contextmanager_in_threadpool(league.store.receive(sha256)) as upload:
        async for chunk in request.stream():
            await run_in_threadpool(upload.write, chunk)
    return {"sha256": sha256}
