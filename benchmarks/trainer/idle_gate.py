"""A measurement counts only while nobody else uses the machine."""

import os
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

START_BELOW = 0.06
"""Share of the machine that others may use when a measurement starts."""

DROP_ABOVE = 0.10
"""Share that others may have used once it has ended."""

GLANCE_S = 0.25
"""How long the machine is watched before a measurement starts."""

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
IDLE_FIELDS = (3, 4)
"""Fields of the first line of /proc/stat in which nothing ran: idle, and waiting for a disk."""

COUNTED_FIELDS = 8
"""Fields of that line that add up to all time; what follows them is counted in them already."""

OWN_FIELDS = slice(11, 13)
"""User and system time in /proc/PID/stat, behind the name in brackets."""


@dataclass(frozen=True)
class Load:
    """Processor seconds since the machine started, over all processors."""

    total_s: float
    busy_s: float
    own_s: float

    def others(self, before: "Load") -> float:
        """Share of the machine that other processes have used since."""
        busy = (self.busy_s - before.busy_s) - (self.own_s - before.own_s)
        return max(0.0, busy / max(self.total_s - before.total_s, 1 / TICKS_PER_S))


def machine_seconds(stat: str) -> tuple[float, float]:
    """All and busy processor seconds from the text of /proc/stat."""
    ticks = [int(field) for field in stat.splitlines()[0].split()[1:]][:COUNTED_FIELDS]
    idle = sum(ticks[field] for field in IDLE_FIELDS)
    return sum(ticks) / TICKS_PER_S, (sum(ticks) - idle) / TICKS_PER_S


def process_seconds(stat: str) -> float:
    """Processor seconds of a process, its threads included, from the text of /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()[OWN_FIELDS]
    return sum(int(field) for field in fields) / TICKS_PER_S


def with_children(processes: Iterable[int]) -> set[int]:
    """Processes, those that they have started, and so on."""
    every, new = set(), set(processes)
    while new:
        every |= new
        lists = [path for process in new for path in Path(f"/proc/{process}/task").glob("*/children")]
        new = {int(child) for path in lists for child in _read(path).split()} - every
    return every


def look(processes: Iterable[int]) -> Load:
    """The machine now; `processes` are ours, and so are those that they have started."""
    total_s, busy_s = machine_seconds(Path("/proc/stat").read_text())
    own = [_read(Path(f"/proc/{process}/stat")) for process in with_children(processes)]
    own_s = sum(process_seconds(stat) for stat in own if stat)
    return Load(total_s, busy_s, own_s)


def _read(path: Path) -> str:
    """What Linux says of a process; nothing once it has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


class Gate:
    """Starts measurements when the machine is quiet, and forgets those during which it was not.

    Args:
        patience_s: How long to wait for a quiet machine, over all measurements; from then on they start all the same,
            and are dropped if the machine is busy. Without a gate (`None`) everything starts at once and counts.
        observe: What the machine has done so far.
        clock: Seconds.
        sleep: Lets time pass.
    """

    def __init__(
        self,
        patience_s: float | None,
        observe: Callable[[], Load],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._patience_s, self.closes = patience_s or 0.0, patience_s is not None
        self._observe, self._clock, self._sleep = observe, clock, sleep
        self.dropped = 0
        self.shares: list[float] = []

    def measure(self, work: Callable[[], Result]) -> Result | None:
        """What the work says; nothing if others were at work meanwhile."""
        if self.closes:
            self._wait_for_quiet()
        before = self._observe()
        result = work()
        share = self._observe().others(before)
        self.shares.append(share)
        if self.closes and share > DROP_ABOVE:
            self.dropped += 1
            return None
        return result

    def _wait_for_quiet(self) -> None:
        while self._patience_s > 0.0:
            started, before = self._clock(), self._observe()
            self._sleep(GLANCE_S)
            if self._observe().others(before) < START_BELOW:
                return
            self._patience_s -= self._clock() - started


def gate_note(gate: Gate) -> str:
    """How quiet the machine was."""
    if not gate.shares:
        return "nothing was measured"
    share = f"others used {statistics.median(gate.shares):.1%} of the machine (median of {len(gate.shares)} iterations)"
    if not gate.closes:
        return f"{share}; no gate: every iteration counts"
    advice = "; nothing is left: try later, or --no-gate" if gate.dropped == len(gate.shares) else ""
    return f"{share}; {gate.dropped} dropped because they used over {DROP_ABOVE:.0%}{advice}"
