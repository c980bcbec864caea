"""What a worker takes from the outside: time, and when to stop."""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType


@dataclass(frozen=True)
class Surroundings:
    """Time and signals.

    Attributes:
        now: The time, aware.
        clock: Monotonic seconds.
        stopping: Whether to leave at the next occasion.
        pause: Sleeps so many seconds, or until `stopping`.
    """

    now: Callable[[], datetime]
    clock: Callable[[], float]
    stopping: Callable[[], bool]
    pause: Callable[[float], None]


def of_process(say: Callable[[str], None]) -> Surroundings:
    """This process's clock, and its SIGINT and SIGTERM; a second signal ends it at once."""
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        asked.set()
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_DFL)
        say(f"{signal.Signals(number).name}: saving and leaving; again to leave at once")

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    return Surroundings(
        now=lambda: datetime.now(UTC), clock=time.monotonic, stopping=asked.is_set, pause=lambda s: _pause(asked, s)
    )


def _pause(asked: threading.Event, seconds: float) -> None:
    asked.wait(seconds)
