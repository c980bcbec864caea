"""Request classes: calls of one class wait for one another when a server is busy, and for no other calls.

Heartbeats are never queued or rejected. They are few, because the server sets their interval, and cheap. In a burst of
5,000 registrations within a second, 21 to 95 of 900 heartbeats were rejected while both shared a class.
"""

from typing import Literal

from league.wire import PREFIX

RequestClass = Literal["registrations", "writes", "reads", "slow"]

_READING = ("GET", "HEAD", "OPTIONS")
_UNLIMITED = ("docs", "healthz", "live", "metrics", "openapi.json", "readyz", "static")
_ANALYSES = (["superiority"], ["redundancy"])  # take seconds
_TRANSFERS = ("recording", "replay")


def request_class(method: str, path: str) -> RequestClass | None:
    """Return the class of a call; None for calls that are never queued: heartbeats, health, files, event streams."""
    segments = path.removeprefix(PREFIX).split("/")[1:] or [""]
    if path == f"{PREFIX}/events" or segments[0] in _UNLIMITED or segments[-1] == "heartbeat":
        return None
    if segments[0] == "checkpoints" or segments[-1] in _TRANSFERS or segments in _ANALYSES:
        return "slow"
    if method in _READING:
        return "reads"
    # A class of their own, so that a fleet that reconnects does not delay results.
    return "registrations" if segments == ["workers"] else "writes"
