"""Fast route: the calls that workers make all the time skip the router and go to their endpoints.

The framework tries routes one by one, solves a tree of dependencies and unwinds stacks of contexts for each call, which
takes longer than what these calls ask for. Whatever is unusual about one of them, such as a body that breaks a rule,
sends it the framework's way, which then says what is wrong.

See docs/decisions/050-frequent-calls-take-a-shortcut.md.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Self, get_type_hints

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic_core import from_json
from starlette.types import ASGIApp, Receive, Scope, Send

from league import auth
from league.api import errors as api_errors
from league.api.authentication import authorise, secret_of
from league.api.dependencies import clock
from league.api.middleware.body_limit import replayed
from league.api.routers import leases, results, workers
from league.api.state import AppState

FREQUENT = results.report, leases.lease, workers.heartbeat, workers.register
"""Endpoints for workers that take `league`, `now`, `caller`, `body` and the parts of their paths, and nothing else."""

_ROUTERS = results.router, leases.router, workers.router
_GIVEN = frozenset({"league", "now", "caller", "body", "return"})
_JSON = b"content-type", b"application/json"


@dataclass(frozen=True)
class Destination:
    """The route of an endpoint, and what reads its body and the parts of its path."""

    route: APIRoute
    body: TypeAdapter[Any]
    parts: Mapping[str, TypeAdapter[Any]]
    waits: bool

    @classmethod
    def of(cls, route: APIRoute) -> Self:
        """Learn from its annotations what an endpoint takes; it waits for others, or needs a thread."""
        hints = get_type_hints(route.endpoint, include_extras=True)
        parts = {name: TypeAdapter(hint) for name, hint in hints.items() if name not in _GIVEN}
        return cls(route, TypeAdapter(hints["body"]), parts, iscoroutinefunction(route.endpoint))

    def parts_of(self, scope: Scope) -> dict[str, str] | None:
        """Return the parts of a request's path; None where it asks for something else."""
        if scope["method"] not in (self.route.methods or ()):
            return None
        found = self.route.path_regex.match(scope["path"])
        return None if found is None else found.groupdict()

    def read(self, parts: Mapping[str, str], content: bytes) -> dict[str, Any] | None:
        """Return what a request gives the endpoint, as the framework reads it; None where it breaks a rule."""
        try:
            given = {name: self.parts[name].validate_python(part) for name, part in parts.items()}
            return given | {"body": self.body.validate_python(from_json(content))}
        except (ValueError, RecursionError):
            return None


class FastRouteMiddleware:
    """Middleware that answers frequent calls, and passes all others on.

    Args:
        app: Answers the others.
        league: Whom the calls are for.
    """

    def __init__(self, app: ASGIApp, league: AppState) -> None:
        self._app, self._league = app, league
        routes = (route for router in _ROUTERS for route in router.routes if isinstance(route, APIRoute))
        self._destinations = [Destination.of(route) for route in routes if route.endpoint in FREQUENT]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "http" and _JSON in scope["headers"] and not scope["query_string"]:
            for destination in self._destinations:
                parts = destination.parts_of(scope)
                if parts is not None:
                    await self._lead(destination, parts, scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _lead(
        self, destination: Destination, parts: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = Request(scope, receive)
        try:
            content = await request.body()
            given = destination.read(parts, content)
            response = None if given is None else await self._answer(destination, request, given)
        except api_errors.FORESEEN as error:
            response = api_errors.response(api_errors.to_league_error(request, error))
        if response is None:
            whole = {"type": "http.request", "body": content, "more_body": False}
            await self._app(scope, replayed([whole], receive), send)
        else:
            await response(scope, receive, send)

    async def _answer(self, destination: Destination, request: Request, given: Mapping[str, Any]) -> Response:
        request.scope["route"] = destination.route  # by which the call is counted
        now = await request.app.dependency_overrides.get(clock, clock)()
        caller = await authorise(request, self._league, await secret_of(request), now, auth.Scope.WORKER)
        endpoint = partial(destination.route.endpoint, league=self._league, now=now, caller=caller, **given)
        response: Response = await (endpoint() if destination.waits else asyncio.to_thread(endpoint))
        return response
