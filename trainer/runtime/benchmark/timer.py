"""Where time goes: calls of methods, timed by name."""

import time
from collections.abc import Callable
from typing import Any


class SectionTimer:
    """Seconds by name.

    Args:
        settle: Waits until a device has done what it was asked to; called around every timed call.
    """

    def __init__(self, settle: Callable[[], None]) -> None:
        self._settle = settle
        self._seconds: dict[str, list[float]] = {}

    def watch(self, holder: object, method: str, name: str) -> None:
        """Time every call of an object's method from now on."""
        plain, spent = getattr(holder, method), self._seconds.setdefault(name, [])

        def timed(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401  whatever the method takes
            self._settle()
            started = time.perf_counter()
            try:
                return plain(*arguments, **named)
            finally:
                self._settle()
                spent.append(time.perf_counter() - started)

        setattr(holder, method, timed)

    def close(self) -> dict[str, float]:
        """What was spent since the last time; what several threads spent at once is added up."""
        seconds = {name: sum(spent) for name, spent in self._seconds.items()}
        for spent in self._seconds.values():
            spent.clear()
        return seconds
