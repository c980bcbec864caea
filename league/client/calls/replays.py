"""Calls for recordings of matches."""

import gzip

from league import wire
from league.client.connection import Connection, raise_for_problem, read
from league.wire import PREFIX


class ReplayCalls(Connection):
    """Upload and download recordings."""

    def upload_replay(self, match_id: int, recording: bytes) -> wire.Replay:
        """Upload the recording of a match, a file of `arena.replay`; idempotent.

        Raises:
            RefusedReplayError: The bytes are not a recording, or belong to another match.
            ReplayConflictError: The match has another recording.
        """
        response = self._send("PUT", f"{PREFIX}/matches/{match_id}/replay", content=recording)
        raise_for_problem(response)
        return read(response, wire.Replay)

    def replay(self, match_id: int) -> bytes:
        """Download the recording of a match as a file for `arena replay`.

        Raises:
            UnknownReplayError: The match has no recording.
        """
        response = self._send("GET", f"{PREFIX}/matches/{match_id}/replay")
        raise_for_problem(response)
        return gzip.compress(response.content, compresslevel=9, mtime=0)  # the HTTP client decompressed it
