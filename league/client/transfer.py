"""Transfer of checkpoints from and to the server or its object store.

Requests to the object store use presigned URLs, without the league's token.
"""

import re
from collections.abc import Mapping
from typing import IO

import httpx2

from league.errors import HashMismatchError, LeagueError, LeagueUnreachable, StoreUnavailableError

_PARTIAL, _PRECONDITION_FAILED = 206, 412
_BAD_DIGEST = {"BadDigest", "InvalidDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch"}
_ERROR_START_BYTES = 4096


def send(url: str, headers: Mapping[str, str], content: bytes | IO[bytes], size_bytes: int, timeout_s: float) -> None:
    """Upload a checkpoint to a presigned URL.

    Raises:
        HashMismatchError: The store received other bytes.
        StoreUnavailableError: The store rejects the upload.
        LeagueUnreachable: The store does not respond.
    """
    # Without a length the client would send chunks, which presigned URLs do not accept.
    all_headers = {**headers, "Content-Length": str(size_bytes)}
    try:
        response = httpx2.put(url, content=content, headers=all_headers, timeout=timeout_s)
    except httpx2.TransportError as error:
        raise _unreachable(url, error) from error
    # 412: the store already has the bytes from an attempt whose response was lost
    if not response.is_success and response.status_code != _PRECONDITION_FAILED:
        raise _refusal(url, response)


class Fetch:
    """Resumable download."""

    def __init__(self, timeout_s: float) -> None:
        self.complete = False
        self._timeout_s = timeout_s
        self._data = bytearray()

    @property
    def headers(self) -> dict[str, str]:
        """Range header of the remaining bytes."""
        return {"Range": f"bytes={len(self._data)}-"} if self._data else {}

    @property
    def received(self) -> int:
        """Number of received bytes."""
        return len(self._data)

    def take(self, response: httpx2.Response) -> None:
        """Read the server's response, or follow its redirect to the object store.

        Raises:
            StoreUnavailableError: The store rejects the request.
            LeagueUnreachable: The store does not respond.
            TransportError: The connection broke.
        """
        if response.has_redirect_location:
            self._follow(str(response.url.join(response.headers["location"])))
        else:
            self._read(response)
        self.complete = True

    def content(self) -> bytes:
        """Return the received bytes."""
        return bytes(self._data)

    def _follow(self, url: str) -> None:
        before = self.received
        try:
            with httpx2.stream("GET", url, headers=self.headers, timeout=self._timeout_s) as response:
                if not response.is_success:
                    response.read()
                    raise _refusal(url, response)
                self._read(response)
        except httpx2.TransportError as error:
            # With progress the caller resumes. Without any, another attempt would fail in the same way.
            if self.received <= before:
                raise _unreachable(url, error) from error
            raise

    def _read(self, response: httpx2.Response) -> None:
        # A server that ignores the range sends the whole file again.
        if response.status_code != _PARTIAL:
            self._data.clear()
        for chunk in response.iter_bytes():
            self._data += chunk


def _unreachable(url: str, error: httpx2.TransportError) -> LeagueUnreachable:
    cause = str(error) or type(error).__name__
    way_out = "check the network and the server's LEAGUE_STORE_PUBLIC_URL"
    return LeagueUnreachable(f"with its store {_bare(url)}", f"no response ({cause})", way_out)


def _refusal(url: str, response: httpx2.Response) -> LeagueError:
    found = re.search(rb"<Code>(\w+)</Code>", response.content[:_ERROR_START_BYTES])
    code = found[1].decode() if found else f"status {response.status_code}"
    if code in _BAD_DIGEST:
        rule = f"the store returned {code}: it received other bytes"
        return HashMismatchError(_bare(url), rule, "send the whole file under its own SHA-256")
    rule = f"the object store returned {code}"
    return StoreUnavailableError(_bare(url), rule, "try again; if the error persists, check the store's log")


def _bare(url: str) -> str:
    """Remove the query with the signature, which is a secret."""
    return url.partition("?")[0]
