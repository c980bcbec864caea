"""Responses of a league server, and the errors in them."""

import json
from dataclasses import dataclass
from typing import TypeVar

import httpx2
from pydantic import BaseModel, ValidationError

from league.errors import BusyError, LeagueError, LeagueUnreachable, from_problem

_TOO_MANY_REQUESTS = 429

ResponseT = TypeVar("ResponseT", bound=BaseModel)


@dataclass(frozen=True)
class Received:
    """The received part of a response.

    Attributes:
        url: URL of the request.
        status: HTTP status; 0 if the connection broke before it.
        headers: Headers.
        content: Decoded body.
        broken: Error of a connection that broke before the end of the body.
    """

    url: httpx2.URL
    status: int
    headers: httpx2.Headers
    content: bytes
    broken: LeagueUnreachable | None = None

    @property
    def is_success(self) -> bool:
        """Whether the status is 2xx."""
        return httpx2.codes.is_success(self.status)

    @property
    def location(self) -> str | None:
        """Target of a redirect as an absolute URL; None for other responses."""
        target = self.headers.get("location") if httpx2.codes.is_redirect(self.status) else None
        return None if target is None else str(self.url.join(target))


def retriable_rejection(received: Received) -> LeagueError | None:
    """Return the error of a 429 or 503 with Retry-After, which had no side effect; None for other responses."""
    if received.status not in (BusyError.status, _TOO_MANY_REQUESTS):
        return None
    error = _problem(received)
    # Rejected before any work, so the call can be repeated. Another 503 may come from a commit with unknown outcome.
    early = isinstance(error, BusyError) or received.status == _TOO_MANY_REQUESTS
    return error if early and error is not None and error.retry_after_s is not None else None


def raise_for_problem(received: Received) -> None:
    """Raise the error of an unsuccessful response."""
    if received.is_success:
        return
    raise _problem(received) or _unexpected(received, f"it returned {received.status}")


def read(received: Received, kind: type[ResponseT]) -> ResponseT:
    """Parse a response.

    Raises:
        LeagueError: The response is not from a league server of this version.
    """
    try:
        return kind.model_validate_json(received.content)
    except ValidationError as error:
        raise _unexpected(
            received, f"its response is not a {kind.__name__} ({error.error_count()} fields differ)"
        ) from error


def _problem(received: Received) -> LeagueError | None:
    """Return the error of a problem response, or None."""
    try:
        problem = json.loads(received.content)
    except ValueError:
        return None
    if not (isinstance(problem, dict) and "type" in problem):
        return None
    error = from_problem(problem)
    seconds = received.headers.get("Retry-After", "")
    error.retry_after_s = int(seconds) if seconds.isdecimal() else None
    return error


def _unexpected(received: Received, rule: str) -> LeagueError:
    return LeagueError(received.url, rule, "check that a league server of this version listens there")
