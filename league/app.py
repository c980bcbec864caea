"""Application factory: builds the ASGI application from the settings."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from weakref import WeakSet

import numpy as np
from fastapi import FastAPI

from league import web
from league.api import errors as api_errors
from league.api import health, openapi
from league.api.event_feed import EventFeed
from league.api.metrics import Metrics
from league.api.middleware.body_limit import BodyLimitMiddleware
from league.api.middleware.concurrency import ConcurrencyMiddleware
from league.api.middleware.protocol_version import ProtocolVersionMiddleware
from league.api.middleware.request_id import RequestIdMiddleware
from league.api.rate_limit import RateLimiter
from league.api.routers import (
    analysis,
    champions,
    checkpoints,
    environments,
    events,
    gates,
    learners,
    leases,
    matches,
    players,
    rating_periods,
    results,
    runs,
    standings,
    workers,
)
from league.api.state import AppState
from league.api.token_cache import TokenCache
from league.background import process as background_process
from league.background.leases import ExpireLeasesTask
from league.background.process import BackgroundProcess
from league.background.task import PeriodicTask
from league.background.worker_count import WorkerCountTask
from league.db import schema
from league.db.engine import Database
from league.services.auth import tokens
from league.services.gates.sprt import GateEvaluator
from league.services.matchmaking.lease_cache import LeaseCache
from league.services.matchmaking.leases import LeaseService
from league.services.population.cache import PopulationCache
from league.services.replays.service import ReplayService
from league.services.trust.review import ReviewCache
from league.services.workers.polling import WorkerCount
from league.settings import Settings
from league.storage.factory import open_store
from league.storage.inspection import Inspector

_BODY_PAUSE_S = 30.0  # a client whose network was cut sends nothing more


def create_app(settings: Settings, *, with_background_process: bool = False) -> FastAPI:
    """Create the application of one league.

    Its start-up fails for a database of another version, and for a non-loopback address without a token.

    Args:
        settings: Settings of the league.
        with_background_process: Whether to run the background tasks in a child process, which reads LEAGUE_*.

    Raises:
        ConfigurationError: The database or the store cannot be used.
    """
    database = Database(settings.database_address, settings.database_connections)
    store = open_store(settings)
    population, lease_cache, gate_evaluator = PopulationCache(), LeaseCache(), GateEvaluator()
    league = AppState(
        settings=settings,
        database=database,
        store=store,
        inspector=Inspector(store),
        population=population,
        lease_cache=lease_cache,
        leases=LeaseService(database, settings, population, lease_cache, gate_evaluator),
        replays=ReplayService(database, store.recordings, settings.replays),
        gate_evaluator=gate_evaluator,
        review_cache=ReviewCache(),
        # Half the poll interval: streams that poll at the same time share a read, and each next poll reads again.
        event_feed=EventFeed(settings.events_poll_s / 2, time.monotonic),
        worker_count=WorkerCount(),
        metrics=Metrics(),
        rate_limiter=RateLimiter(settings.rate_per_s, settings.rate_burst),
        tokens=TokenCache(settings.token_memory_s),
        ending=threading.Event(),
        streams=WeakSet(),
        rng=np.random.default_rng(),
    )
    app = FastAPI(
        title="Echelon League",
        summary="A self-play league with a Glicko-2 arena.",
        version=version("echelon-league"),
        lifespan=partial(_lifespan, with_background_process=with_background_process),
        openapi_tags=openapi.TAGS,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # otherwise evaluated at every request
    )
    # Before any statement runs, so that no statement is missing in the metrics.
    league.metrics.watch(league.database)
    app.state.league = league
    for router in (  # routes are matched in this order: the most frequent ones first
        results.router,
        leases.router,
        leases.preview_router,
        workers.router,
        learners.router,
        runs.router,
        checkpoints.router,
        players.router,
        players.externals_router,
        champions.router,
        gates.router,
        standings.router,
        analysis.router,
        rating_periods.router,
        matches.router,
        events.router,
        environments.router,
        health.router,
    ):
        app.include_router(router)
    api_errors.install(app)
    openapi.install(app)
    web.install(app)
    # Middleware runs in reverse order of addition: request id, protocol version, body limit, then concurrency. A call
    # must have its body before it takes a turn, and every rejection needs a request id.
    app.add_middleware(
        ConcurrencyMiddleware,
        limits=settings.concurrency,
        metrics=league.metrics,
        clock=time.monotonic,
        rng=np.random.default_rng(),
        refusal=web.refusal,
    )
    app.add_middleware(
        BodyLimitMiddleware,
        body_max_bytes=settings.body_max_bytes,
        checkpoint_max_bytes=settings.checkpoint_max_bytes,
        pause_s=_BODY_PAUSE_S,
    )
    app.add_middleware(ProtocolVersionMiddleware)
    app.add_middleware(RequestIdMiddleware, metrics=league.metrics)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI, *, with_background_process: bool) -> AsyncIterator[None]:
    league: AppState = app.state.league
    # Callbacks run in reverse order: the tasks stop before the database that they use is closed.
    with ExitStack() as stack:
        stack.callback(league.database.close)
        schema.check(league.database)
        league.store.prepare()
        with league.database.read() as session:
            tokens.require_closed_or_loopback(session, league.settings)
        tasks = periodic_tasks(league, with_background_process=with_background_process)
        app.state.background = next((task for task in tasks if isinstance(task, BackgroundProcess)), None)
        for task in tasks:
            task.start()
            stack.callback(task.stop)
        # `asyncio.to_thread` uses this pool, so that its size limits the concurrent writes of worker calls.
        executor = ThreadPoolExecutor(league.settings.concurrency.writes_running, "write")
        asyncio.get_running_loop().set_default_executor(executor)
        yield


def periodic_tasks(league: AppState, *, with_background_process: bool) -> list[PeriodicTask]:
    """Return the periodic tasks of an API process."""
    database, settings = league.database, league.settings
    background = (
        [BackgroundProcess(settings)]
        if with_background_process
        else background_process.periodic_tasks(database, settings)
    )
    worker_count = WorkerCountTask(database, league.worker_count, settings.heartbeat_s, _now)
    return [*background, ExpireLeasesTask(database, settings, league.metrics, _now), worker_count]


def _now() -> datetime:
    return datetime.now(UTC)
