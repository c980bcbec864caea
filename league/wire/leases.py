"""Permission to play: who asks, for what, and how it is given back."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from league.wire.base import PLAIN, Answer, EnvironmentName, Id, Request, Text

LEASE_ID_MAX_LENGTH = 64
LeaseKind = Literal["training", "rating"]
Side = Literal["home", "away"]


def storable_lease_id(text: str) -> bool:
    """Say whether some league may have granted a lease of this id."""
    return len(text) <= LEASE_ID_MAX_LENGTH and text.isascii() and text.isprintable()


class TrainingLeases(Request):
    """Ask for opponents of one learner, by its player id.

    A trainer that lets the learner play itself in environments of its own says that `self_play` is false: then others
    are drawn, as long as there are any.
    """

    kind: Literal["training"]
    worker_id: Text
    player_id: Id
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    budget: Annotated[int, Field(ge=1), PLAIN]
    self_play: bool = True


class RatingLeases(Request):
    """Ask for pairs of frozen players; with `player_id` those of one external player, which the worker brings.

    Two consecutive items are one pair on one seed with sides swapped, so `count` is made even.
    """

    kind: Literal["rating"]
    worker_id: Text
    environment: EnvironmentName
    count: Annotated[int, Field(ge=1, le=4096), PLAIN]
    budget: Annotated[int, Field(ge=1), PLAIN]
    player_id: Id | None = None


LeaseRequest = Annotated[TrainingLeases | RatingLeases, Field(discriminator="kind")]


class Seat(Answer):
    """Who sits on a side: `checkpoint` is a SHA-256, `baseline:NAME`, `external:NAME`, or null for the live learner."""

    player_id: int
    checkpoint: str | None
    name: str


class Lease(Answer):
    """Permission to play up to `budget` matches until `expires_at`.

    The match of sequence s (0-based) has the seed `arena.seeding.match_seed(seed, s)`. `propensity` is the probability
    with which this opponent was drawn, null for a rating pair, whose sampling has none in closed form; `branch` names
    the rule and `reason` says it in words. `gate_id` names the gate that a rating pair is played for.
    """

    lease_id: str
    kind: LeaseKind
    home: Seat
    away: Seat
    learner_side: Side | None
    seed: int
    budget: int
    expires_at: datetime
    propensity: float | None
    branch: str
    reason: str = ""
    gate_id: int | None = None


class LeaseAnswer(Answer):
    """Granted leases; fewer than asked, or none, while there is nobody to play."""

    items: list[Lease]
    next_poll_s: float


class UnplayablePlayer(Request):
    """Somebody on the released leases whom the worker cannot play for good, such as for damaged weights, and why."""

    player_id: Id
    reason: Annotated[Text, Field(min_length=1)]


class ReleaseRequest(Request):
    """Leases that will not be played further.

    A player that is named in `unplayable` is not leased to this worker again for a while. It is quarantined if the
    server finds its stored weights broken, or if it is a candidate that workers of several tokens name.
    """

    worker_id: Text
    lease_ids: Annotated[list[Text], Field(max_length=4096)]
    unplayable: Annotated[list[UnplayablePlayer], Field(max_length=4096)] = []


class ReleaseAnswer(Answer):
    """How many of the named leases were still open, and the players who were quarantined by this call."""

    released: int
    quarantined: list[int] = []
