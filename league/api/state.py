"""State of one server process: its settings, database and store, and what it caches."""

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
from league.services.trust.review import ReviewCache
from league.services.workers.polling import WorkerCount
from league.settings import Settings
from league.storage.inspection import Inspector
from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store


class Stream:
    """An answer that goes on until its reader leaves."""


@dataclass(frozen=True)
class AppState:
    """What one API process holds; all truth is in the database and the store.

    Threads share `rng`, which locks itself: to make one for each call takes as long as a statement. `ending` is set
    when the process is asked to end: answers without an end of their own, of which `streams` has one entry each, then
    end.
    """

    settings: Settings
    database: Database
    store: DirectoryStore | S3Store
    inspector: Inspector
    population: PopulationCache
    terms: LeaseCache
    leases: LeaseService
    judge: GateEvaluator
    review: ReviewCache
    news: EventFeed
    census: WorkerCount
    metrics: Metrics
    rate_limiter: RateLimiter
    tokens: TokenCache
    ending: threading.Event
    streams: WeakSet[Stream]
    rng: np.random.Generator
