"""HTTP bodies of the league: requests and responses of workers, scripts and the dashboard.

A request rejects unknown fields. A response tolerates them, so that an older client can read a newer server. Every time
is aware UTC, ratings are on the Glicko scale, and a score is the home score in [0, 1].
"""

from league.wire.analysis import *
from league.wire.base import *
from league.wire.checkpoints import *
from league.wire.environments import *
from league.wire.events import *
from league.wire.gates import *
from league.wire.learners import *
from league.wire.leases import *
from league.wire.matches import *
from league.wire.matchmaking import *
from league.wire.players import *
from league.wire.rating_periods import *
from league.wire.results import *
from league.wire.workers import *
