"""Idle gate: a measurement counts only if other processes hardly used the machine."""

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

START_BELOW = 0.06
"""Largest share of the machine used by other processes at the start of a measurement."""

DROP_ABOVE = 0.10
"""Largest share used by other processes during a measurement."""

SAMPLE_S = 0.25
"""Seconds of observation before a measurement starts."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)
"""Idle fields of the first line of /proc/stat: idle and iowait."""

COUNTED_FIELDS = 8
"""Fields of that line that add up to all time; guest times after them are included in user and nice."""

OWN_FIELDS = slice(11, 13)
"""User and system time in /proc/PID/stat, counted after the name in parentheses."""


@dataclass(frozen=True)
class Load:
    """CPU seconds of all processors since boot."""

    total_s: float
    busy_s: float
    own_s: float

    def others(self, before: "Load") -> float:
        """Return the share of the machine that other processes used since `before`."""
        busy = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return max(0.0, busy / max(self.total_s - before.total_s, 1 / TICKS_PER_S))


def machine_seconds(stat: str) -> tuple[float, float]:
    """Return total and busy CPU seconds from the text of /proc/stat."""
    ticks = [int(field) for field in stat.splitlines()[0].split()[1:]][:COUNTED_FIELDS]
    idle = sum(ticks[field] for field in IDLE_FIELDS)
    return sum(ticks) / TICKS_PER_S, (sum(ticks) - idle) / TICKS_PER_S


def process_seconds(stat: str) -> float:
    """Return the CPU seconds of a process with its threads from the text of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()[OWN_FIELDS]
    return sum(int(field) for field in fields) / TICKS_PER_S


def with_children(processes: Iterable[int]) -> set[int]:
    """Return the processes and all their descendants."""
    every, new = set(), set(processes)
    while new:
        every |= new
        lists = [path for process in new for path in Path(f"/proc/{process}/task").glob("*/children")]
        new = {int(child) for path in lists for child in _read(path).split()} - every
    return every


def read_load(processes: Iterable[int]) -> Load:
    """Read the load now; `processes` and their descendants count as own."""
    total_s, busy_s = machine_seconds(Path("/proc/stat").read_text())
    own = [_read(Path(f"/proc/{process}/stat")) for process in with_children(processes)]
    own_s = sum(process_seconds(stat) for stat in own if stat)
    return Load(total_s, busy_s, own_s)


def _read(path: Path) -> str:
    """Read a file of /proc, or return an empty string if the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


class IdleGate:
    """Start measurements on an idle machine, and drop those during which other processes ran.

    Args:
        max_wait_s: Longest wait for an idle machine, over all measurements. After it, measurements start at once and
            are dropped if the machine was busy. With `None` every measurement starts at once and counts.
        observe: Returns the load so far.
        clock: Monotonic clock in seconds.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        max_wait_s: float | None,
        observe: Callable[[], Load],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience_s, self.closes = max_wait_s or 0.0, max_wait_s is not None
        self._observe, self._clock, self._sleep = observe, clock, sleep
        self.dropped = 0
        self.shares: list[float] = []

    def measure(self, work: Callable[[], Result]) -> Result | None:
        """Return the result of the work, or None if other processes were active."""
        if self.closes:
            self._wait_until_idle()
        before = self._observe()
        result = work()
        share = self._observe().others(before)
        self.shares.append(share)
        if self.closes and share > DROP_ABOVE:
            self.dropped += 1
            return None
        return result

    def _wait_until_idle(self) -> None:
        while self._patience_s > 0.0:
            started, before = self._clock(), self._observe()
            self._sleep(SAMPLE_S)
            if self._observe().others(before) < START_BELOW:
                return
            self._patience_s -= self._clock() - started


def idle_note(gate: IdleGate) -> str:
    """Describe how idle the machine was."""
    if not gate.shares:
        return "no measurements"
    share = f"other processes used {statistics.median(gate.shares):.1%} of the machine"
    share += f" (median of {len(gate.shares)} iterations)"
    if not gate.closes:
        return f"{share}; no gate: every iteration counts"
    advice = "; none is left: try again later or pass --no-gate" if gate.dropped == len(gate.shares) else ""
    return f"{share}; {gate.dropped} dropped because of more than {DROP_ABOVE:.0%}{advice}"
