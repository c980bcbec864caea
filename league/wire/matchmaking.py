"""Matchmaking: the distributions that opponents are drawn from, and how a lease came about."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer
from league.wire.leases import Lease


class Record(Answer):
    """A number of matches, and a mean score."""

    matches: int
    score: float


class OpponentChance(Answer):
    """How likely one opponent is drawn, and why.

    `weights` has its probability inside each branch, `propensity` over all of them. `win_rate` is the learner's against
    it, resting on `games` matches of the two. For rating leases all three are unknown, and `games` counts all its rated
    games.

    What rules looked at beyond that; null where none did: `among`, its matches against the other opponents, and its
    mean win rate against all of them by these and by ratings; `earlier` and `recent`, the learner's score against it in
    the older and in the newer half of their matches.
    """

    player_id: int
    name: str
    propensity: float | None
    weights: dict[str, float]
    win_rate: float | None
    games: int
    rating: float
    deviation: float
    among: Record | None = None
    earlier: Record | None = None
    recent: Record | None = None


class DrawFilter(Answer):
    """A rule about who is drawn, and the ids of the players that it took out of those whom the filters before left."""

    name: str
    rule: str
    removed: list[int]


class GroupShare(Answer):
    """How much of a branch falls to a group of players; null where it is unknown. Groups may overlap."""

    group: str
    players: int
    share: float | None


class DrawBranch(Answer):
    """A component of a distribution: its share, by which rule it weighs opponents, and upon whom its weight falls.

    `opponents` counts those it may draw. `effective_opponents` is the number of equally likely ones with the same
    entropy: far below `opponents` means that few are drawn again and again.
    """

    name: str
    share: float
    rule: str
    opponents: int
    effective_opponents: float | None
    groups: list[GroupShare]


class DrawLearner(Answer):
    """The learner that opponents were drawn for, as it was then."""

    player_id: int
    rating: float
    games: int


class DrawAccount(Answer):
    """A distribution over opponents; propensities and `self_play` sum to 1. `filters` are in order.

    `learner` is null for rating leases, and for draws of version 0.1.
    """

    learner: DrawLearner | None = None
    branches: list[DrawBranch]
    self_play: float
    filters: list[DrawFilter]
    items: list[OpponentChance]


class Preview(DrawAccount):
    """The distribution that the learner's next lease is drawn from."""

    player_id: int
    environment: str


class Estimate(Answer):
    """An estimated mean score with its 95 % interval."""

    value: float
    low: float
    high: float


class RuleShare(Answer):
    """What share of its games a learner was to play against a player, and would have had to by another rule.

    The learner itself stands for self-play.
    """

    player_id: int
    name: str
    logged: float
    target: float


class MatchmakingEvaluation(Answer):
    """What another rule of matchmaking would have done with the games that a learner played.

    Of the `leases` looked at `draws` count, with their `matches`; `unplayed` have none that count, and of `unknown` it
    is not stored, or not any more, whom they were drawn from. `score` estimates what the learner would have scored,
    null where the other rule never draws whom it met; `weighted` is the plain importance sampling estimate of it.
    `too_few` says that there are too few `effective_draws` for intervals that hold. `uncovered` is the share of the
    other rule's draws that the logged one never makes. `shares` are ordered by `target`, the largest first.
    """

    environment: str
    player_id: int
    rule: str
    prefers: str
    leases: int
    draws: int
    matches: int
    unplayed: int
    unknown: int
    logged_score: Estimate
    score: Estimate | None
    weighted: Estimate
    effective_draws: float
    too_few: bool
    uncovered: float
    shares: list[RuleShare]


LeaseState = Literal["open", "released", "played", "expired"]


class LeaseExplanation(DrawAccount):
    """A lease, what became of it, and the distribution it was drawn from.

    `state` is `played` where every match of the budget was reported before the lease was swept or looked at.
    `pruned_at` says since when an old distribution is without its opponents; null where it has them.
    """

    lease: Lease
    worker_id: str
    environment: str
    granted_at: datetime
    released_at: datetime | None
    state: LeaseState
    matches: int
    branch: str
    propensity: float | None
    pruned_at: datetime | None = None
