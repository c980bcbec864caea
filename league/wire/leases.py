"""Bodies of leases: requests, grants and releases."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from league.wire.base import PLAIN, Answer, EnvironmentName, Id, Request, Text

LEASE_ID_MAX_LENGTH = 64
LeaseKind = Literal["training", "rating"]
Side = Literal["home", "away"]


def storable_lease_id(text: str) -> bool:
    """Return whether a text can be the id of a lease."""
    return len(text) <= LEASE_ID_MAX_LENGTH and text.isascii() and text.isprintable()


class TrainingLeases(Request):
    """Request for opponents of one learner."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"kind": "training", "worker_id": "0193f2", "player_id": 7, "count": 64, "budget": 4}
        }
    )

    kind: Literal["training"]
    """Training matches."""
    worker_id: Text
    """Id of the worker."""
    player_id: Id
    """Player id of the learner."""
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    """Number of leases."""
    budget: Annotated[int, Field(ge=1), PLAIN]
    """Matches per lease."""
    self_play: bool = True
    """Whether the league may draw the learner itself."""


class RatingLeases(Request):
    """Request for pairs of frozen players; two consecutive leases are one pair with sides swapped."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"kind": "rating", "worker_id": "0193f2", "environment": "mech-duel", "count": 8, "budget": 4}
        }
    )

    kind: Literal["rating"]
    """Rating matches."""
    worker_id: Text
    """Id of the worker."""
    environment: EnvironmentName
    """Name of the environment."""
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    """Number of leases; rounded to an even number."""
    budget: Annotated[int, Field(ge=1), PLAIN]
    """Matches per lease."""
    player_id: Id | None = None
    """External player of the worker; null for any pairs."""


LeaseRequest = Annotated[TrainingLeases | RatingLeases, Field(discriminator="kind")]


class Seat(Answer):
    """Player on one side of a match."""

    player_id: int
    """Id of the player."""
    checkpoint: str | None
    """SHA-256, `baseline:NAME`, `external:NAME`, or null for the live learner."""
    name: str
    """Its name."""


class Lease(Answer):
    """Permission to play up to `budget` matches of two players."""

    lease_id: str
    """Id of the lease."""
    kind: LeaseKind
    """Kind of matches."""
    home: Seat
    """Home player."""
    away: Seat
    """Away player."""
    learner_side: Side | None
    """Side of the learner; null for rating matches."""
    seed: int
    """Match s has the seed `arena.seeding.match_seed(seed, s)`."""
    budget: int
    """Maximum number of matches."""
    expires_at: datetime
    """Expiry; results are late afterwards."""
    propensity: float | None
    """Probability of drawing this opponent; null for rating pairs."""
    branch: str
    """Branch of the distribution that drew the opponent."""
    reason: str = ""
    """Rule of the branch in words."""
    gate_id: int | None = None
    """Gate of a gate match."""


class LeaseAnswer(Answer):
    """Granted leases; fewer than requested, or none, if there are not enough opponents."""

    items: list[Lease]
    """The leases."""
    next_poll_s: float
    """Seconds to wait before the next request for leases."""


class UnplayablePlayer(Request):
    """A player that the worker cannot play, for example because its weights are damaged."""

    player_id: Id
    """Id of the player."""
    reason: Annotated[Text, Field(min_length=1)]
    """Reason in words."""
    local: bool = False
    """Whether only this worker cannot play it, for example because a package is not installed."""


class ReleaseRequest(Request):
    """Leases that the worker gives up."""

    worker_id: Text
    """Id of the worker."""
    lease_ids: Annotated[list[Text], Field(max_length=4096)]
    """Ids of the leases."""
    unplayable: Annotated[list[UnplayablePlayer], Field(max_length=4096)] = []
    """Players that the worker cannot play. It gets no leases of them for a while; if others agree, they are
    quarantined.
    """


class ReleaseAnswer(Answer):
    """Outcome of a release."""

    released: int
    """Number of leases that were still open."""
    quarantined: list[int] = []
    """Ids of players that this call quarantined."""
