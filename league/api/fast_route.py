"""Fast route: frequent calls of workers go to their endpoints without FastAPI's dependency solver.

The solver walks a tree of dependencies and unwinds two stacks of contexts for each call, which takes longer than the
call itself. Anything unusual, such as a body that breaks a rule, goes FastAPI's way, which then says what is wrong.

See docs/contributing/decisions/0034-frequent-calls-bypass-dependency-resolution.md.
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
    """A route whose endpoint is called directly if it is a worker's and returns a finished response.

    Such an endpoint takes `league`, `now`, `caller`, `body` and the parts of its path, and nothing else.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()
        endpoint, hints = self.endpoint, get_type_hints(self.endpoint, include_extras=True)
        if hints.get("return") is not Response or hints.get("caller") != Worker or "body" not in hints:
            return handle
        body = TypeAdapter(hints["body"])
        parts = {name: TypeAdapter(hint) for name, hint in hints.items() if name not in _GIVEN}
        waits = iscoroutinefunction(endpoint)

        async def answer(request: Request) -> Response:
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
    """Return the arguments of an endpoint as FastAPI reads them; None if they break a rule."""
    try:
        given = {name: adapter.validate_python(path[name]) for name, adapter in parts.items()}
        return given | {"body": body.validate_python(from_json(content))}
    except (ValueError, RecursionError):
        return None
