"""Thread team: runs one function for several indices in parallel threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType

import torch


class ThreadTeam:
    """A fixed number of threads, including the caller's.

    Inside the `with` block torch uses a single thread per operation, so that the threads do not compete for cores.

    Args:
        count: Number of threads.
    """

    def __init__(self, count: int) -> None:
        self._count, self._torch_threads_before = count, 1
        # OpenMP stores its number of threads per thread, so each thread of the pool sets it, too.
        self._pool = ThreadPoolExecutor(count - 1, "rollout", torch.set_num_threads, (1,)) if count > 1 else None

    def __enter__(self) -> "ThreadTeam":
        self._torch_threads_before = torch.get_num_threads()
        if self._pool is not None:
            torch.set_num_threads(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            torch.set_num_threads(self._torch_threads_before)

    def run_all(self, work: Callable[[int], None]) -> None:
        """Call `work` with 0, 1, ... in parallel, wait for every call, and raise the first error."""
        futures = [] if self._pool is None else [self._pool.submit(work, index) for index in range(1, self._count)]
        try:
            work(0)
        finally:
            # Wait for all threads even if one fails: they write to buffers that the caller may free.
            errors = [future.exception() for future in futures]
        for error in errors:
            if error is not None:
                raise error
