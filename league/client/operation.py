"""Operations of the HTTP API without input and output, so that one definition serves both clients.

As in the authentication flows of httpx, an operation is a generator that yields calls and receives their responses.
`LeagueClient` runs it with blocking calls, `AsyncLeagueClient` with awaited ones.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import GenericAlias, MethodType
from typing import IO, TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_args, overload
from urllib.parse import quote

from pydantic import BaseModel

from league.client.responses import Received, raise_for_problem, read
from league.wire import PREFIX, Page

if TYPE_CHECKING:
    from league.client.async_connection import AsyncConnection
    from league.client.connection import Connection

PAGE_SIZE = 1000
"""Items per call of an iterator: the maximum of the server."""

P = ParamSpec("P")
T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=BaseModel)
Query = Mapping[str, str | int | Sequence[str] | None]


@dataclass(frozen=True)
class Call:
    """One HTTP call.

    Attributes:
        method: HTTP method.
        path: Path on the league server, or the URL of an object store, which does not get the token.
        body: JSON body.
        query: Query parameters; those that are None are left out.
        content: Body of bytes; a file is sent from its current position.
        headers: Additional headers.
        partial: Whether to return a redirect as it is, and the received part of a body if the connection breaks.
    """

    method: str
    path: str
    body: BaseModel | None = None
    query: Query = field(default_factory=dict)
    content: bytes | IO[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False

    @property
    def to_store(self) -> bool:
        """Whether the call goes to an object store, with a presigned URL."""
        return not self.path.startswith("/")


Steps = Generator[Call, Received, T]
"""Calls of an operation, which returns its result."""


def segment(name: str) -> str:
    """Escape an id as one path segment."""
    return quote(name, safe="")


def get(path: str, kind: type[BodyT], query: Query | None = None) -> Steps[BodyT]:
    """Read a resource of the API."""
    received = yield Call("GET", PREFIX + path, query=query or {})
    raise_for_problem(received)
    return read(received, kind)


def post(path: str, body: BaseModel, kind: type[BodyT]) -> Steps[BodyT]:
    """Post a body to a resource of the API."""
    received = yield Call("POST", PREFIX + path, body)
    raise_for_problem(received)
    return read(received, kind)


def patch(path: str, body: BaseModel, kind: type[BodyT]) -> Steps[BodyT]:
    """Change a resource of the API."""
    received = yield Call("PATCH", PREFIX + path, body)
    raise_for_problem(received)
    return read(received, kind)


class operation(Generic[P, T]):  # noqa: N801 - a decorator
    """Decorator that makes a function that returns `Steps` a method of both clients."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.plan = plan
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, client: "Connection", owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: "AsyncConnection", owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: object, owner: type) -> Any:
        """Return the method of a client, or the function of a class."""
        return _bound(client, self._awaited if _is_async(owner) else self._blocking)

    @cached_property
    def _blocking(self) -> Callable[..., Any]:
        def call(client: "Connection", *args: P.args, **kwargs: P.kwargs) -> T:
            return client.run(self.plan(client, *args, **kwargs))

        return _described(call, self.plan, self.plan.__name__, self.result)

    @cached_property
    def _awaited(self) -> Callable[..., Any]:
        async def call(client: "AsyncConnection", *args: P.args, **kwargs: P.kwargs) -> T:
            return await client.run(self.plan(client, *args, **kwargs))

        return _described(call, self.plan, self.plan.__name__, self.result)

    @property
    def result(self) -> type[T]:
        """Type of the result."""
        # The return annotation is Steps[T], which stands for Generator[Call, Received, T].
        result: type[T] = get_args(self.plan.__annotations__["return"])[2]
        return result


class iterator_of(Generic[P, T]):  # noqa: N801 - reads like `operation`
    """Method of both clients that iterates over all pages of an operation, and has its arguments.

    `limit` is the number of items per call, and `cursor` the start.
    """

    def __init__(self, pages: operation[P, Page[T]]) -> None:
        self._pages, self._plan = pages, cast("Callable[..., Steps[Page[T]]]", pages.plan)
        self._name = f"iter_{pages.plan.__name__}"
        self.__doc__ = f"Iterate over the items of all pages of `{pages.plan.__name__}`."

    @overload
    def __get__(self, client: "Connection", owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: "AsyncConnection", owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: object, owner: type) -> Any:
        """Return the method of a client, or the function of a class."""
        return _bound(client, self._awaited if _is_async(owner) else self._blocking)

    @cached_property
    def _blocking(self) -> Callable[..., Any]:
        def iterate(client: "Connection", *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
            arguments = self._arguments(args, kwargs)
            while True:
                page = client.run(self._plan(client, **arguments))
                yield from page.items
                if page.next_cursor is None:
                    return
                arguments["cursor"] = page.next_cursor

        return self._documented(iterate, Iterator)

    @cached_property
    def _awaited(self) -> Callable[..., Any]:
        async def iterate(client: "AsyncConnection", *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
            arguments = self._arguments(args, kwargs)
            while True:
                page = await client.run(self._plan(client, **arguments))
                for item in page.items:
                    yield item
                if page.next_cursor is None:
                    return
                arguments["cursor"] = page.next_cursor

        return self._documented(iterate, AsyncIterator)

    def _arguments(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, Any]:
        # None stands for the client: `bind` turns positional arguments into names, so that `cursor` can be replaced.
        _, *given = inspect.signature(self._plan).bind(None, *args, **kwargs).arguments.items()
        return {"limit": PAGE_SIZE, **dict(given)}

    def _documented(self, function: Callable[..., Any], kind: type) -> Callable[..., Any]:
        (item,) = get_args(self._pages.result.model_fields["items"].annotation)
        function.__doc__ = self.__doc__
        return _described(function, self._plan, self._name, GenericAlias(kind, item))


def _is_async(owner: type) -> bool:
    return getattr(owner, "is_async", False)


def _bound(client: object, function: Callable[..., Any]) -> Callable[..., Any]:
    return function if client is None else MethodType(function, client)


def _described(function: Callable[..., Any], plan: Callable[..., Any], name: str, result: object) -> Callable[..., Any]:
    """Give a function the name and the signature that its callers see."""
    function.__name__, function.__qualname__, function.__module__ = name, name, plan.__module__
    function.__doc__ = function.__doc__ or plan.__doc__
    function.__signature__ = inspect.signature(plan).replace(return_annotation=result)  # type: ignore[attr-defined]
    return function
