"""Fast route: frequent worker calls bypass FastAPI's dependency resolution.

For each call, FastAPI walks a tree of dependencies and unwinds two context stacks, which takes longer than the call
itself. Unusual requests, such as one with an invalid body, take FastAPI's path, which then reports the error. See
docs/contributing/decisions/0015-frequent-writes-share-commits.md.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from inspect import iscoroutinefunction
from typing import Any, get_type_hints

from fastapi import Request
from fastapi.responses import Response
from pydantic import TypeAdapter
from pydantic_core import from_json

from league import auth
from league.api.authentication import authorise, bearer, secret_of
from league.api.dependencies import Worker, clock
from league.api.routes import ApiRoute

_GIVEN = frozenset({"league", "now", "caller", "body", "return"})
_JSON = b"content-type", b"application/json"


class FastRoute(ApiRoute):
    """A route that calls worker endpoints directly if they return a finished response.

    Such an endpoint takes `league`, `now`, `caller`, `body` and path parameters only.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle = super().get_route_handler()
        endpoint, hints = self.endpoint, get_type_hints(self.endpoint, include_extras=True)
        if hints.get("return") is not Response or hints.get("caller") != Worker or "body" not in hints:
            return handle
        body = TypeAdapter(hints["body"])
        parts = {name: TypeAdapter(hint) for name, hint in hints.items() if name not in _GIVEN}
        waits = iscoroutinefunction(endpoint)

        async def answer(request: Request) -> Response:
            # FastAPI handles other content types and query parameters, with its own errors.
            if _JSON not in request.scope["headers"] or request.scope["query_string"]:
                return await handle(request)
            given = _read(body, parts, request.path_params, await request.body())
            if given is None:
                return await handle(request)
            league = request.app.state.league
            now = await request.app.dependency_overrides.get(clock, clock)()
            caller = await authorise(request, league, await secret_of(await bearer(request)), now, auth.Scope.WORKER)
            arguments = {"league": league, "now": now, "caller": caller, **given}
            response: Response
            if waits:
                response = await endpoint(**arguments)
            else:
                response = await asyncio.to_thread(endpoint, **arguments)
            return response

        return answer


def _read(
    body: TypeAdapter[Any], parts: Mapping[str, TypeAdapter[Any]], path: Mapping[str, Any], content: bytes
) -> dict[str, Any] | None:
    """Return the endpoint's arguments with FastAPI's validation; None if they are invalid."""
    try:
        given = {name: adapter.validate_python(path[name]) for name, adapter in parts.items()}
        return given | {"body": body.validate_python(from_json(content))}
    # FastAPI validates the body again and reports the error in its usual form.
    except (ValueError, RecursionError):
        return None
