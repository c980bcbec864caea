"""Routes of the API refuse query parameters that they do not have: one that is mistyped would be ignored otherwise.

Fields of bodies are as strict. Pages for people and probes take any parameter: links from elsewhere carry `utm_source`,
and monitors add numbers against caches.
"""

from collections.abc import Callable, Coroutine, Iterable
from difflib import get_close_matches
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel

from league.errors import InvalidRequestError

_SHOWN_LENGTH = 120


class ApiRoute(APIRoute):
    """A route that refuses query parameters that neither its endpoint nor a dependency declares."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        handle = super().get_route_handler()
        names = query_parameters(self.dependant)

        async def answer(request: Request) -> Response:
            if request.scope.get("query_string"):
                _refuse_unknown(request.query_params, names)
            return await handle(request)

        return answer


def query_parameters(dependant: Dependant) -> tuple[str, ...]:
    """Return the names of the query parameters that a call has, as callers write them; those of models one by one."""
    own = [name for field in dependant.query_params for name in _written(field.alias, field.field_info.annotation)]
    nested = [name for dependency in dependant.dependencies for name in query_parameters(dependency)]
    return tuple(dict.fromkeys([*own, *nested]))


def _written(name: str, annotation: object) -> list[str]:
    """Return the names that callers write for a parameter: its own, or those of the fields of its model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [field.alias or name for name, field in annotation.model_fields.items()]
    return [name]


def _refuse_unknown(given: Iterable[str], names: tuple[str, ...]) -> None:
    """Raise an error for the first query parameter that a call does not have.

    The error shows its name alone: the value may be a secret that was sent the wrong way.

    Raises:
        InvalidRequestError: There is one.
    """
    for name in given:
        if name not in names:
            shown = name[:_SHOWN_LENGTH]
            raise InvalidRequestError(f"query.{shown}", "the call has no such parameter", _remedy(shown, names))


def _remedy(name: str, names: tuple[str, ...]) -> str:
    if not names:
        return "leave it out: the call has no query parameters"
    close = get_close_matches(name, names, n=1)
    return f"write {close[0]}, or leave it out" if close else f"leave it out, or use one of {', '.join(names)}"
