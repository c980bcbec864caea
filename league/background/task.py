"""Periodic tasks, each in its own thread."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar

log = logging.getLogger(__name__)


class PeriodicTask(ABC):
    """Task that runs `first_s` after `start` and then every `every_s`, until `stop`.

    A failure is logged, and the next run retries.

    Args:
        first_s: Delay of the first run in seconds, > 0.
        every_s: Pause between the end of a run and the next one in seconds, > 0.

    Attributes:
        name: Name in the log and of the thread.
    """

    name: ClassVar[str]

    def __init__(self, first_s: float, every_s: float) -> None:
        self._first_s, self._every_s = first_s, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current transaction and join the thread."""
        self._stopping.set()
        self._thread.join()

    @abstractmethod
    def run_once(self) -> None:
        """Run the task once."""

    def interrupted(self, pause_s: float) -> bool:
        """Pause within a run; return True if the task is stopping."""
        return self._stopping.wait(pause_s)

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stopping.wait(wait_s):
            try:
                self.run_once()
            except Exception:  # the next run retries
                log.exception("%s failed; retrying in %g s", self.name, self._every_s)
            wait_s = self._every_s
