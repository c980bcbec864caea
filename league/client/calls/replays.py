"""Calls for recordings of matches."""

import gzip

from league import wire
from league.client.operation import Call, Steps, operation
from league.client.responses import raise_for_problem, read
from league.wire import PREFIX


class ReplayCalls:
    """Upload and download recordings."""

    @operation
    def upload_replay(self, match_id: int, recording: bytes) -> Steps[wire.Replay]:
        """Upload the recording of a match, a file of `arena.replay`; idempotent.

        Raises:
            RefusedReplayError: The bytes are not a recording, or belong to another match.
            ReplayConflictError: The match has another recording.
        """
        received = yield Call("PUT", f"{PREFIX}/matches/{match_id}/replay", content=recording)
        raise_for_problem(received)
        return read(received, wire.Replay)

    @operation
    def replay(self, match_id: int) -> Steps[bytes]:
        """Download the recording of a match as a file for `arena replay`.

        Raises:
            UnknownReplayError: The match has no recording.
        """
        received = yield Call("GET", f"{PREFIX}/matches/{match_id}/replay")
        raise_for_problem(received)
        return gzip.compress(received.content, compresslevel=9, mtime=0)  # the HTTP client decompressed it
