"""The league's HTTP bodies: what workers, scripts and the page send and receive.

A request refuses fields that it does not know. An answer tolerates them, so that an older client reads a newer server.
Every time is aware UTC; ratings are on the Glicko scale; a score is home's, in [0, 1].
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
