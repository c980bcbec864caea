"""Bodies of matchmaking: opponent distributions, and the explanation of a lease."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer
from league.wire.leases import Lease


class Record(Answer):
    """A number of matches and their mean score."""

    matches: int
    """Number of matches."""
    score: float
    """Mean score in [0, 1]."""


class OpponentChance(Answer):
    """Probability of an opponent, and the inputs of the rules."""

    player_id: int
    """Id of the player."""
    name: str
    """Its name."""
    propensity: float | None
    """Probability over all branches."""
    weights: dict[str, float]
    """Probability within each branch."""
    win_rate: float | None
    """The learner's win rate against it."""
    games: int
    """Matches against the learner; for rating leases, all its rated games."""
    rating: float
    """Rating on the Glicko scale."""
    deviation: float
    """Rating deviation (RD)."""
    provisional: bool = False
    """Whether its interval is too wide for a promotion."""
    among: Record | None = None
    """Its results against the other opponents."""
    earlier: Record | None = None
    """The learner's score against it in the older half of their matches."""
    recent: Record | None = None
    """Score in the newer half."""


class DrawFilter(Answer):
    """A rule that excludes players from the draw."""

    name: str
    """Name of the rule."""
    rule: str
    """The rule in words."""
    removed: list[int]
    """Ids of the excluded players."""


class GroupShare(Answer):
    """Share of a group of players in a branch; groups may overlap."""

    group: str
    """Name of the group."""
    players: int
    """Number of its players."""
    share: float | None
    """Its share; null if unknown."""


class DrawBranch(Answer):
    """A component of a distribution."""

    name: str
    """Its name."""
    share: float
    """Its share of all draws."""
    rule: str
    """The rule in words."""
    opponents: int
    """Number of players that it can draw."""
    effective_opponents: float | None
    """Number of equally likely opponents with the same entropy."""
    groups: list[GroupShare]
    """Distribution of its weight over groups."""


class DrawLearner(Answer):
    """The learner at the time of the draw."""

    player_id: int
    """Id of the player."""
    rating: float
    """Rating on the Glicko scale."""
    games: int
    """Number of rated games."""


class DrawAccount(Answer):
    """A distribution over opponents."""

    learner: DrawLearner | None = None
    """The learner; null for rating leases."""
    branches: list[DrawBranch]
    """Components of the distribution."""
    self_play: float
    """Probability of self-play."""
    filters: list[DrawFilter]
    """Rules that excluded players, in order."""
    items: list[OpponentChance]
    """The opponents; their propensities and `self_play` sum to 1."""


class Preview(DrawAccount):
    """Opponent distribution of the learner's next lease."""

    player_id: int
    """Player id of the learner."""
    environment: str
    """Name of the environment."""


LeaseState = Literal["open", "released", "played", "expired"]


class LeaseExplanation(DrawAccount):
    """A lease, its state, and the distribution that it was drawn from."""

    lease: Lease
    """The lease."""
    worker_id: str
    """Id of the worker."""
    environment: str
    """Name of the environment."""
    granted_at: datetime
    """Time of the grant."""
    released_at: datetime | None
    """Time of the release."""
    state: LeaseState
    """`played` once every match of its budget is reported."""
    matches: int
    """Reported matches."""
    branch: str
    """Branch of the distribution that drew it."""
    propensity: float | None
    """Probability of drawing this opponent."""
    pruned_at: datetime | None = None
    """Time at which the opponents of the stored distribution were deleted; null if they are stored."""
