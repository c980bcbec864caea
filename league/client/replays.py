"""Calls about recordings of matches."""

import gzip

from league import wire
from league.client.connection import Connection, raise_for_problem, read
from league.wire import PREFIX


class ReplayCalls(Connection):
    """Send recordings and fetch them."""

    def upload_replay(self, match_id: int, recording: bytes) -> wire.Replay:
        """Store the recording of a match, the file that `arena.replay` makes; the same again is fine.

        Raises:
            RefusedReplayError: It is no recording, or shows another match.
            ReplayConflictError: The match has another one.
        """
        answer = self._send("PUT", f"{PREFIX}/matches/{match_id}/replay", content=recording)
        raise_for_problem(answer)
        return read(answer, wire.Replay)

    def replay(self, match_id: int) -> bytes:
        """Fetch the recording of a match, as the file that `arena replay` shows.

        Raises:
            UnknownReplayError: The match has none.
        """
        answer = self._send("GET", f"{PREFIX}/matches/{match_id}/replay")
        raise_for_problem(answer)
        return gzip.compress(answer.content, compresslevel=9, mtime=0)  # the connection unpacked it
