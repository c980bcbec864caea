"""Recording of some rating matches, and upload of the replays to the league."""

import logging
from collections.abc import Callable, Iterable

from arena.play.recording import RecordFirstMatch
from arena.replay import Recording, RecordingError, pack_recording
from league.wire import ResultAnswer

MAX_WAITING = 16
"""Most replays that wait for upload. Older ones are dropped."""

Key = tuple[str, int]
"""Lease id and sequence of a match."""

Upload = Callable[[int, bytes], bool]
"""Uploads the replay of a match; false if the upload must be retried."""

logger = logging.getLogger(__name__)


class ReplayUploader:
    """Chooses the matches to record, and holds their replays until they are uploaded.

    The league takes a replay only for an accepted match. Replays wait in memory: a long outage of the league or a crash
    loses some of them, but never a result.

    Args:
        every_s: Minimum seconds between two recorded matches of an environment; None records none.
        clock: Monotonic seconds.
    """

    def __init__(self, every_s: float | None, clock: Callable[[], float]) -> None:
        self._every_s, self._clock = every_s, clock
        self._due_at: dict[str, float] = {}
        self._waiting: dict[Key, tuple[bytes, int | None]] = {}  # with the id of the match once it is accepted

    def start_recording(self, environment: str) -> RecordFirstMatch | None:
        """Return a recorder for the first match of the next round; None if no recording is due."""
        now = self._clock()
        if self._every_s is None or now < self._due_at.get(environment, now):
            return None
        self._due_at[environment] = now + self._every_s
        return RecordFirstMatch()

    def add(self, key: Key, recording: Recording) -> None:
        """Add the recording of a match; it waits until the result is accepted."""
        try:
            self._waiting[key] = pack_recording(recording), None
        except RecordingError as error:
            logger.warning("%s", error)
        while len(self._waiting) > MAX_WAITING:
            del self._waiting[next(iter(self._waiting))]

    def on_results(self, answers: Iterable[ResultAnswer]) -> None:
        """Note the ids of accepted matches, and drop the replays of all others."""
        for answer in answers:
            key = (answer.lease_id, answer.sequence)
            # Only a stored match can have a recording, and after a conflict another match is stored.
            data, _ = self._waiting.pop(key, (None, None))
            if data is not None and answer.status in ("accepted", "duplicate"):
                self._waiting[key] = data, answer.match_id

    def deliver(self, upload: Upload) -> None:
        """Upload the replays of accepted matches; stop at the first that must be retried."""
        for key, (data, match_id) in list(self._waiting.items()):
            if match_id is not None:
                if not upload(match_id, data):
                    return
                del self._waiting[key]
