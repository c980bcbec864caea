"""State of one server process: settings, database, store and caches."""

import threading
from dataclasses import dataclass
from weakref import WeakSet

import numpy as np

from league.api.event_feed import EventFeed
from league.api.metrics import Metrics
from league.api.rate_limit import RateLimiter
from league.api.token_cache import TokenCache
from league.db.engine import Database
from league.services.gates.sprt import GateEvaluator
from league.services.matchmaking.lease_cache import LeaseCache
from league.services.matchmaking.leases import LeaseService
from league.services.population.cache import PopulationCache
from league.services.replays.service import ReplayService
from league.services.trust.review import ReviewCache
from league.services.workers.polling import WorkerCount
from league.settings import Settings
from league.storage.inspection import Inspector
from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store


class Stream:
    """An open event stream."""


@dataclass(frozen=True)
class AppState:
    """State of one API process; all persistent data is in the database and the store.

    Threads share `rng`, which has its own lock: creating a generator per call takes as long as a statement. `ending` is
    set at shutdown. Open streams, each with an entry in `streams`, then end.
    """

    settings: Settings
    database: Database
    store: DirectoryStore | S3Store
    inspector: Inspector
    population: PopulationCache
    lease_cache: LeaseCache
    leases: LeaseService
    replays: ReplayService
    gate_evaluator: GateEvaluator
    review_cache: ReviewCache
    event_feed: EventFeed
    worker_count: WorkerCount
    metrics: Metrics
    rate_limiter: RateLimiter
    tokens: TokenCache
    ending: threading.Event
    streams: WeakSet[Stream]
    rng: np.random.Generator
