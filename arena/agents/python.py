"""External agent in Python: the callable `MODULE:ATTRIBUTE`."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from arena.agents.base import NO_MEMORY, Batch, Reply
from arena.agents.errors import ExternalPolicyError
from arena.environments.spec import EnvironmentSpec
from arena.errors import truncate
from arena.user_code import import_user_module

_PAIR = 2


class PythonAgent:
    """Agent that calls a Python callable.

    Args:
        answer: Called with every batch; returns actions by head, or (actions, memory).
    """

    def __init__(self, answer: Callable[[Batch], Any]) -> None:
        self._answer = answer

    @property
    def identity(self) -> str | None:
        """The callable's own `identity`, if it has one."""
        own = getattr(self._answer, "identity", None)
        return own if isinstance(own, str) else None

    def act(self, batch: Batch) -> Reply:
        """See `ExternalAgent.act`."""
        try:
            answered = self._answer(batch)
        except (Exception, SystemExit) as error:  # user code may raise anything
            raise ExternalPolicyError(f"it failed with {type(error).__name__}: {truncate(error)}") from error
        actions, memory = answered if isinstance(answered, tuple) and len(answered) == _PAIR else (answered, ())
        if not isinstance(actions, Mapping):
            raise ExternalPolicyError(
                f"it returned {truncate(repr(answered))}: return actions by head, or a tuple of actions and memory"
            )
        return Reply(actions, _memory_items(memory))

    def close(self) -> None:
        """Close the callable, if it has a `close` method."""
        close = getattr(self._answer, "close", None)
        if callable(close):
            close()


def open_callable(path: str, spec: EnvironmentSpec) -> PythonAgent:
    """Load `MODULE:ATTRIBUTE`, also from the working directory; a class is instantiated with the game's spec.

    Raises:
        ExternalPolicyError: The name does not exist, does not load, or is not callable.
    """
    found: Any = _find(path)
    if inspect.isclass(found):
        make: Callable[[EnvironmentSpec], Any] = found
        try:
            found = make(spec)
        except (Exception, SystemExit) as error:  # user code may raise anything
            raise ExternalPolicyError(
                f"{path}(game) failed with {type(error).__name__}: {truncate(error)}; a class is made with the game"
            ) from error
    if not callable(found):
        raise ExternalPolicyError(
            f"{path} is {truncate(repr(found))}, which is not callable: name a callable for a batch"
        )
    return PythonAgent(found)


def _memory_items(memory: object) -> Sequence[Any]:
    """Return the callable's memory as a sequence with one item per agent."""
    if memory is None:
        return NO_MEMORY
    if isinstance(memory, Iterable) and not isinstance(memory, Mapping | str | bytes):
        with suppress(TypeError):  # a zero-dimensional array is Iterable but cannot be iterated
            return tuple(memory)
    raise ExternalPolicyError(
        f"it gave {truncate(repr(memory))} as memory: return a list with one item per agent, or None"
    )


def _find(path: str) -> Any:  # noqa: ANN401  any object
    name, _, attribute = path.partition(":")
    try:
        module = import_user_module(name)
    except (Exception, SystemExit) as error:  # user code may raise anything on import
        raise ExternalPolicyError(
            f"{path} does not load ({type(error).__name__}: {truncate(error)}): use an importable module"
        ) from error
    if not hasattr(module, attribute):
        raise ExternalPolicyError(
            f"{path}: module {name} has no {attribute!r}; name a callable that returns actions for a batch"
        )
    return getattr(module, attribute)
