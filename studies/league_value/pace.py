"""Trainers at the pace of one of them: as if each had a processor of its own, or at the shares they should have."""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from studies.league_value.meter import seconds_of

LEAD_S = 0.5
"""Processor seconds that a trainer may be ahead."""


class Pace:
    """Stops whoever gets ahead until it is caught up with; at the end of a `with` block everybody goes on.

    Counted is what everybody has come on since this was made.

    Args:
        leader: Process whose pace counts.
        followers: Processes that are held to it.
        far: Returns how far a process is, by default its processor seconds.
        lead: How much further than the leader a follower may have come, in the same unit.
    """

    def __init__(
        self,
        leader: int,
        followers: Sequence[int],
        far: Callable[[int], float] = lambda pid: seconds_of({pid}),
        lead: float = LEAD_S,
    ) -> None:
        self._leader, self._far, self._lead = leader, far, lead
        self._before = {process: far(process) for process in (leader, *followers)}
        self._held = dict.fromkeys(followers, False)

    def keep(self) -> None:
        """Stop those who are ahead, and let the others go on."""
        limit = self._since(self._leader) + self._lead
        for process in self._held:
            self._hold(process, held=self._since(process) > limit)

    def release(self) -> None:
        """Let everybody go on: a process that is stopped heeds no other signal."""
        for process in self._held:
            self._hold(process, held=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _since(self, process: int) -> float:
        return self._far(process) - self._before[process]

    def _hold(self, process: int, *, held: bool) -> None:
        if held != self._held[process]:
            with suppress(ProcessLookupError):  # it has ended
                os.kill(process, signal.SIGSTOP if held else signal.SIGCONT)
            self._held[process] = held
