"""Calls for matches and their recordings."""

import gzip

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Call, Steps, get, iterator_of, operation
from league.client.responses import raise_for_problem, read
from league.wire import PREFIX


class MatchCalls:
    """Read the match log; upload and download recordings."""

    @operation
    def matches(
        self,
        player: PlayerKey | None = None,
        opponent: PlayerKey | None = None,
        environment: str | None = None,
        *,
        kind: wire.MatchKind | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[wire.Page[wire.Match]]:
        """List matches, newest first: all, a player's, or those between two players."""
        player_id = None if player is None else (yield from ids.player_id(player))
        opponent_id = None if opponent is None else (yield from ids.player_id(opponent))
        query = {"player_id": player_id, "opponent_id": opponent_id, "environment": environment, "kind": kind}
        return (yield from get("/matches", wire.Page[wire.Match], {**query, "limit": limit, "cursor": cursor}))

    iter_matches = iterator_of(matches)

    @operation
    def match(self, match_id: int) -> Steps[wire.PlayedMatch]:
        """Return a match with the behaviour of both sides."""
        return get(f"/matches/{match_id}", wire.PlayedMatch)

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
