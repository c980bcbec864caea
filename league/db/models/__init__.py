"""Tables of the league.

`matches` with `behaviours` is append-only and the source of truth. `ratings`, `payoffs` and `side_payoffs` are derived
from it when a period closes and can be recomputed at any time. A period covers the matches of its environment with ids
in (`last_match_id` of the previous period, its own `last_match_id`].
"""

from league.db.models.audit import Event, Webhook
from league.db.models.base import Base
from league.db.models.behaviours import Behaviour, MeasureSet
from league.db.models.checkpoints import Checkpoint
from league.db.models.environments import Environment
from league.db.models.gates import Gate
from league.db.models.learners import Learner, LearnerProgress, MetricPoint, Run, SnapshotDecision
from league.db.models.leases import Draw, Lease
from league.db.models.matches import Match, Refusal, Replay
from league.db.models.pair_records import Payoff, SidePayoff
from league.db.models.players import Champion, Player, PlayerTag
from league.db.models.ratings import LeaderLease, PairModelFit, Period, Rating
from league.db.models.tokens import Token
from league.db.models.workers import Quarantine, UnplayableReport, Worker

__all__ = [
    "Base",
    "Behaviour",
    "Champion",
    "Checkpoint",
    "Draw",
    "Environment",
    "Event",
    "Gate",
    "LeaderLease",
    "Learner",
    "LearnerProgress",
    "Lease",
    "Match",
    "MeasureSet",
    "MetricPoint",
    "PairModelFit",
    "Payoff",
    "Period",
    "Player",
    "PlayerTag",
    "Quarantine",
    "Rating",
    "Refusal",
    "Replay",
    "Run",
    "SidePayoff",
    "SnapshotDecision",
    "Token",
    "UnplayableReport",
    "Webhook",
    "Worker",
]
