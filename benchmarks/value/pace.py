"""Trainers at the pace of one of them, as if each had a processor of its own."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from benchmarks.value.meter import seconds_of

LEAD_S = 0.5
"""Processor seconds that a trainer may be ahead."""


class Pace:
    """Stops whoever gets ahead until it is caught up with; at the end of a `with` block everybody goes on.

    Counted is what everybody has used since this was made.

    Args:
        leader: Process whose pace counts.
        followers: Processes that are held to it.
        used_s: Returns the processor seconds of a process so far.
    """

    def __init__(
        self, leader: int, followers: Sequence[int], used_s: Callable[[int], float] = lambda pid: seconds_of({pid})
    ) -> None:
        self._leader, self._used_s = leader, used_s
        self._before_s = {process: used_s(process) for process in (leader, *followers)}
        self._held = dict.fromkeys(followers, False)

    def keep(self) -> None:
        """Stop those who are ahead, and let the others go on."""
        limit_s = self._since_s(self._leader) + LEAD_S
        for process in self._held:
            self._hold(process, held=self._since_s(process) > limit_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._held:
            self._hold(process, held=False)  # a process that is stopped heeds no other signal

    def _since_s(self, process: int) -> float:
        return self._used_s(process) - self._before_s[process]

    def _hold(self, process: int, *, held: bool) -> None:
        if held != self._held[process]:
            with suppress(ProcessLookupError):  # it has ended
                os.kill(process, signal.SIGSTOP if held else signal.SIGCONT)
            self._held[process] = held
