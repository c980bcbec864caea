"""Tables of the league.

`matches` with `behaviours` is append-only and the truth; `ratings` and `payoffs`, by side as well, and `fingerprints`
are derived from it when a period closes and can be computed again at any time. A period takes in the matches of its
environment with ids in (`last_match_id` of the period before, its own `last_match_id`].
"""

from league.db.models.base import Base
from league.db.models.matches import Draw, Lease, Match, Replay
from league.db.models.measures import Behaviour, Fingerprint, FingerprintMark, MeasureSet, MetricPoint
from league.db.models.players import Champion, Gate, Learner, Player, SnapshotDecision
from league.db.models.ratings import Payoff, Period, Rating, SidePayoff, SideRating
from league.db.models.records import Election, Event, Upload
from league.db.models.workers import Quarantine, Refusal, Token, UnplayableReport, Worker

__all__ = [
    "Base",
    "Behaviour",
    "Champion",
    "Draw",
    "Election",
    "Event",
    "Fingerprint",
    "FingerprintMark",
    "Gate",
    "Learner",
    "Lease",
    "Match",
    "MeasureSet",
    "MetricPoint",
    "Payoff",
    "Period",
    "Player",
    "Quarantine",
    "Rating",
    "Refusal",
    "Replay",
    "SidePayoff",
    "SideRating",
    "SnapshotDecision",
    "Token",
    "UnplayableReport",
    "Upload",
    "Worker",
]
