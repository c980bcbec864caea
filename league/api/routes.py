"""API routes that reject unknown query parameters, because a mistyped one would otherwise be ignored.

Bodies are as strict. Pages for people and probes accept any parameter: links from elsewhere carry `utm_source`, and
monitors add cache-busting numbers.
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
    """A route that rejects query parameters which neither its endpoint nor a dependency declares."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the request handler."""
        handle = super().get_route_handler()
        names = query_parameters(self.dependant)

        async def answer(request: Request) -> Response:
            if request.scope.get("query_string"):
                _refuse_unknown(request.query_params, names)
            return await handle(request)

        return answer


def query_parameters(dependant: Dependant) -> tuple[str, ...]:
    """Return the names of a call's query parameters as clients write them, those of models field by field."""
    own = [name for field in dependant.query_params for name in _written(field.alias, field.field_info.annotation)]
    nested = [name for dependency in dependant.dependencies for name in query_parameters(dependency)]
    return tuple(dict.fromkeys([*own, *nested]))


def _written(name: str, annotation: object) -> list[str]:
    """Return the names that clients write for a parameter: its own, or the fields of its model."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [field.alias or name for name, field in annotation.model_fields.items()]
    return [name]


def _refuse_unknown(given: Iterable[str], names: tuple[str, ...]) -> None:
    """Reject unknown query parameters.

    The error contains only the name of the first one: its value may be a misplaced secret.

    Raises:
        InvalidRequestError: There is an unknown parameter.
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
