"""Transfer of checkpoints from and to the server or its object store.

Calls to the object store use presigned URLs, without the league's token.
"""

import re
from collections.abc import Mapping
from typing import IO

import httpx2

from league.client.operation import Call, Steps
from league.client.responses import Received, raise_for_problem
from league.errors import HashMismatchError, LeagueError, LeagueUnreachable, StoreUnavailableError

_PARTIAL, _PRECONDITION_FAILED = 206, 412
_BAD_DIGEST = {"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}
_ERROR_START_BYTES = 4096


def send(url: str, headers: Mapping[str, str], content: bytes | IO[bytes], size_bytes: int) -> Steps[None]:
    """Upload a checkpoint to a presigned URL.

    Raises:
        HashMismatchError: The store received other bytes.
        StoreUnavailableError: The store rejects the upload.
        LeagueUnreachable: The store does not respond.
    """
    # Without a length the client would send chunks, which presigned URLs do not accept.
    all_headers = {**headers, "Content-Length": str(size_bytes)}
    received = yield Call("PUT", url, content=content, headers=all_headers)
    # 412: the store already has the bytes from an attempt whose response was lost
    if not received.is_success and received.status != _PRECONDITION_FAILED:
        raise _refusal(url, received)


def fetch(path: str) -> Steps[bytes]:
    """Download a file from the server, or from the object store to which it redirects; a broken transfer resumes.

    Raises:
        StoreUnavailableError: The store rejects the request.
        LeagueUnreachable: The server or the store does not respond, or the connection breaks without progress.
    """
    data = bytearray()
    while True:
        before = len(data)
        headers = {"Range": f"bytes={before}-"} if data else {}
        received = yield Call("GET", path, headers=headers, partial=True)
        store = received.location
        if store is not None:
            received = yield Call("GET", store, headers=headers, partial=True)
        if received.is_success:
            # A server that ignores the range sends the whole file again.
            data[:] = (data if received.status == _PARTIAL else b"") + received.content
            if received.broken is None:
                return bytes(data)
        elif received.broken is None:
            if store is not None:
                raise _refusal(store, received)
            raise_for_problem(received)
        # Without progress, another attempt would only repeat the failure.
        if received.broken is not None and len(data) <= before:
            raise received.broken


def store_unreachable(url: str, error: httpx2.TransportError) -> LeagueUnreachable:
    """Return the error of an object store that does not respond."""
    cause = str(error) or type(error).__name__
    remedy = "check the network and the server's LEAGUE_STORE_PUBLIC_URL"
    return LeagueUnreachable(f"with its store {_bare(url)}", f"no response ({cause})", remedy)


def _refusal(url: str, received: Received) -> LeagueError:
    found = re.search(rb"<Code>(\w+)</Code>", received.content[:_ERROR_START_BYTES])
    code = found[1].decode() if found else f"status {received.status}"
    if code in _BAD_DIGEST:
        rule = f"the store returned {code}: it received other bytes"
        return HashMismatchError(_bare(url), rule, "send the whole file under its own SHA-256")
    rule = f"the object store returned {code}"
    return StoreUnavailableError(_bare(url), rule, "try again; if the error persists, check the store's log")


def _bare(url: str) -> str:
    """Remove the query with the signature, which is a secret."""
    return url.partition("?")[0]
