"""Processor seconds of a run: what its processes take on processors of their own, however busy the machine is."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.trainer.idle_gate import read_load, with_children


def seconds_of(processes: Iterable[int]) -> float:
    """Return the processor seconds of processes, and of those that they have started and that still run."""
    return read_load(processes).own_s


def started_s() -> float:
    """Return the processor seconds of all processes that this one has started, and they again, and that still run."""
    own = os.getpid()
    return seconds_of(with_children({own}) - {own})


class Meter:
    """Counts processor seconds over all sessions of a run.

    Wall time is the same for two runs that share no processor; on a machine with other work it is not, and this is.

    Args:
        file: Where the count is kept between sessions.
        used_s: Returns the processor seconds of the processes that run now.
    """

    def __init__(self, file: Path, used_s: Callable[[], float] = started_s) -> None:
        self._file, self._used_s = file, used_s
        self._before_s = float(file.read_text()) if file.exists() else 0.0
        self._start_s: float | None = None

    def start(self) -> None:
        """Count from now on; what was used since the processes were started was for loading."""
        self._start_s = self._used_s()

    def read(self) -> float:
        """Return and keep the seconds of all sessions; those of former ones before the start."""
        if self._start_s is None:
            return self._before_s
        seconds = self._before_s + self._used_s() - self._start_s
        unfinished = self._file.with_suffix(".part")
        unfinished.write_text(f"{seconds:.3f}")
        unfinished.replace(self._file)
        return seconds
