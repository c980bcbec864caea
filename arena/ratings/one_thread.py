"""Linear algebra on one thread, so that a fit gives the same bits in every process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


class _OneThread:
    """Limits BLAS to one thread while at least one fit runs; the limit applies to the whole process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fits = 0
        self._limit: threadpool_limits | None = None

    def enter(self) -> None:
        with self._lock:
            if self._fits == 0:
                self._limit = threadpool_limits(1, user_api="blas")
            self._fits += 1

    def leave(self) -> None:
        with self._lock:
            self._fits -= 1
            # Fits may overlap in threads: the last one to end restores the limit.
            if self._fits == 0 and self._limit is not None:
                self._limit.restore_original_limits()


_ONE_THREAD = _OneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Run linear algebra on one thread, so that sums have the same order, and bits, in every process."""
    _ONE_THREAD.enter()
    try:
        yield
    finally:
        _ONE_THREAD.leave()
