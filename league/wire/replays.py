"""Recordings of matches."""

from league.wire.bodies import Answer


class Replay(Answer):
    """A stored recording: whose match it shows, and its file's hash and size."""

    match_id: int
    sha256: str
    size_bytes: int
