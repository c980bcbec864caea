"""Checkpoints between a worker and the place where a league keeps them: its server, or an object store beside it.

What goes to the object store goes there by an address that the server signed, without the league's token.
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
    """Send a checkpoint to a signed address.

    Raises:
        HashMismatchError: The store says that the bytes are not those they were to be.
        StoreUnavailableError: The store refuses them.
        LeagueUnreachable: It does not answer.
    """
    told = {**headers, "Content-Length": str(size_bytes)}
    try:
        answer = httpx2.put(url, content=content, headers=told, timeout=timeout_s)
    except httpx2.TransportError as error:
        raise _unreachable(url, error) from error
    # a store that has been sent them already, by an attempt whose answer got lost, is done as well
    if not answer.is_success and answer.status_code != _PRECONDITION_FAILED:
        raise _refusal(url, answer)


class Fetch:
    """Bytes on their way here. Where the connection breaks, the next attempt goes on from where it broke."""

    def __init__(self, timeout_s: float) -> None:
        self.complete = False
        self._timeout_s = timeout_s
        self._data = bytearray()

    @property
    def headers(self) -> dict[str, str]:
        """What to ask for: the rest."""
        return {"Range": f"bytes={len(self._data)}-"} if self._data else {}

    @property
    def received(self) -> int:
        """Bytes that are here."""
        return len(self._data)

    def take(self, answer: httpx2.Response) -> None:
        """Read the answer of the league's server, or follow it to the object store.

        Raises:
            StoreUnavailableError: The store refuses.
            LeagueUnreachable: The store does not answer.
            TransportError: The connection broke.
        """
        if answer.has_redirect_location:
            self._follow(str(answer.url.join(answer.headers["location"])))
        else:
            self._read(answer)
        self.complete = True

    def content(self) -> bytes:
        """Return what is here."""
        return bytes(self._data)

    def _follow(self, url: str) -> None:
        before = self.received
        try:
            with httpx2.stream("GET", url, headers=self.headers, timeout=self._timeout_s) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _refusal(url, answer)
                self._read(answer)
        except httpx2.TransportError as error:
            if self.received <= before:
                raise _unreachable(url, error) from error
            raise

    def _read(self, answer: httpx2.Response) -> None:
        if answer.status_code != _PARTIAL:
            self._data.clear()
        for chunk in answer.iter_bytes():
            self._data += chunk


def _unreachable(url: str, error: httpx2.TransportError) -> LeagueUnreachable:
    cause = str(error) or type(error).__name__
    way_out = "check the network, and what the league's server has as LEAGUE_STORE_PUBLIC_URL"
    return LeagueUnreachable(f"with its store {_bare(url)}", f"no answer ({cause})", way_out)


def _refusal(url: str, answer: httpx2.Response) -> LeagueError:
    found = re.search(rb"<Code>(\w+)</Code>", answer.content[:_ERROR_START_BYTES])
    code = found[1].decode() if found else f"status {answer.status_code}"
    if code in _BAD_DIGEST:
        rule = f"the store answered {code}: other bytes arrived"
        return HashMismatchError(_bare(url), rule, "send the whole file under its own SHA-256")
    rule = f"the object store answered {code}"
    return StoreUnavailableError(_bare(url), rule, "try again; if it stays, see the store's log")


def _bare(url: str) -> str:
    """Leave out the signature, with which anybody may do what it was made for."""
    return url.partition("?")[0]
