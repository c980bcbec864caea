"""Threads that do one thing side by side."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import torch


class Hands:
    """So many hands, of which the caller's are the first pair; torch uses one thread in each of them meanwhile.

    Args:
        count: How many things are done at a time.
    """

    def __init__(self, count: int) -> None:
        self._count, self._threads_before = count, 1
        self._others = ThreadPoolExecutor(count - 1, "hands", torch.set_num_threads, (1,)) if count > 1 else None

    def __enter__(self) -> "Hands":
        self._threads_before = torch.get_num_threads()
        if self._others is not None:
            torch.set_num_threads(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._others is not None:
            torch.set_num_threads(self._threads_before)

    def each(self, work: Callable[[int], None]) -> None:
        """Do the work with 0, 1, ... at the same time and wait for all of it; the first error is raised."""
        others = [] if self._others is None else [self._others.submit(work, each) for each in range(1, self._count)]
        try:
            work(0)
        finally:
            errors = [other.exception() for other in others]
        for error in errors:
            if error is not None:
                raise error
