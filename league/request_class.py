"""Request classes: which calls wait for one another when a server has more to do than it can.

Every lane lets so many calls run at once and so many wait; further ones are refused. What a worker lives by has lanes
of its own, so that neither leases nor people who look at tables can take its place.
"""

from typing import Literal

from league.wire import PREFIX

RequestClass = Literal["beats", "results", "registrations", "changes", "transfers", "leases", "reads", "comparisons"]


_READING = ("GET", "HEAD", "OPTIONS")
_AT_ONCE = ("docs", "healthz", "live", "metrics", "openapi.json", "readyz", "static")
_LONG = (["superiority"], ["redundancy"])  # calls of the lane of comparisons


def request_class(method: str, path: str) -> RequestClass | None:
    """Return the lane of a call; None for those that never wait: health, metrics, files, streams of events."""
    if not path.startswith(f"{PREFIX}/"):
        return _lane_of_page(method, path)
    if path == f"{PREFIX}/events":
        return None
    place = path.removeprefix(f"{PREFIX}/").split("/")
    if place[0] == "checkpoints" or place[-1] == "replay":
        return "transfers"
    if method in _READING:
        return "comparisons" if place in _LONG else "reads"
    if place[0] == "workers" and place[-1] == "heartbeat":
        return "beats"
    if place == ["workers"]:
        return "registrations"
    if place in (["results"], ["leases", "release"]):
        return "results"
    return "leases" if place == ["leases"] else "changes"


def _lane_of_page(method: str, path: str) -> RequestClass | None:
    place = path.split("/")[1:]
    if place[0] in _AT_ONCE:
        return None
    if place[0] == "checkpoints" or place[-1] == "recording":
        return "transfers"
    return "reads" if method in _READING else "changes"
