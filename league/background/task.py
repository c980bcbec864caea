"""Periodic tasks of a server, each in a thread of its own."""

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar

log = logging.getLogger(__name__)


class PeriodicTask(ABC):
    """Done once `first_s` after `start`, and again `every_s` after each time, until `stop`.

    A failure is logged, and the next round tries again.

    Args:
        first_s: Seconds to the first round, > 0.
        every_s: Seconds from the end of a round to the next, > 0.

    Attributes:
        name: What it does, for the log and the thread.
    """

    name: ClassVar[str]

    def __init__(self, first_s: float, every_s: float) -> None:
        self._first_s, self._every_s = first_s, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the transaction that is just under way."""
        self._stopping.set()
        self._thread.join()

    @abstractmethod
    def run_once(self) -> None:
        """Do a round."""

    def interrupted(self, pause_s: float) -> bool:
        """Leave others room within a round for some seconds; true where the round is to end."""
        return self._stopping.wait(pause_s)

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stopping.wait(wait_s):
            try:
                self.run_once()
            except Exception:  # whatever it was; perhaps another process is sounder
                log.exception("%s failed; trying again in %g s", self.name, self._every_s)
            wait_s = self._every_s
