"""Recordings of some of an evaluator's matches, on their way to the league."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from arena.replay import Recording, RecordingError, pack_recording
from arena.replay.recorder import FirstMatch
from league.wire import ResultAnswer

MOST_WAITING = 16
"""Recordings that wait for a league which is away; older ones are dropped."""

Key = tuple[str, int]
"""Lease and sequence of a match."""

Send = Callable[[int, bytes], bool]
"""Sends the recording of a match; false where it is to be tried again later."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Waiting:
    """A recording's file, and the id of its match once the league has given it one."""

    data: bytes
    match_id: int | None


class Recordings:
    """Chooses which matches are recorded, and keeps recordings until the league has them.

    The league takes a recording of a match that it has accepted. Recordings wait in memory alone: a league that is
    away for long, or a crash, costs some of them, and never a result.

    Args:
        every_s: Least time between two recorded matches of an environment, in seconds; None records none.
        clock: Monotonic seconds.
    """

    def __init__(self, every_s: float | None, clock: Callable[[], float]) -> None:
        self._every_s, self._clock = every_s, clock
        self._due_at: dict[str, float] = {}
        self._waiting: dict[Key, _Waiting] = {}

    def film(self, environment: str) -> FirstMatch | None:
        """What records the first of the matches that are played next; None where it is not yet time for one."""
        now = self._clock()
        if self._every_s is None or now < self._due_at.get(environment, now):
            return None
        self._due_at[environment] = now + self._every_s
        return FirstMatch()

    def keep(self, key: Key, recording: Recording) -> None:
        """Keep the recording of a match until its result is accepted."""
        try:
            self._waiting[key] = _Waiting(pack_recording(recording), None)
        except RecordingError as error:
            logger.warning("%s", error)
        while len(self._waiting) > MOST_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def heed(self, answers: Iterable[ResultAnswer]) -> None:
        """Learn under which ids the league has matches, and drop the recordings of those that it did not accept."""
        for answer in answers:
            key = (answer.lease_id, answer.sequence)
            if (waiting := self._waiting.pop(key, None)) is not None and answer.status in ("accepted", "duplicate"):
                self._waiting[key] = replace(waiting, match_id=answer.match_id)

    def deliver(self, send: Send) -> None:
        """Send the recordings of accepted matches, until one is to be tried again later."""
        for key, waiting in list(self._waiting.items()):
            if waiting.match_id is not None:
                if not send(waiting.match_id, waiting.data):
                    return
                del self._waiting[key]
