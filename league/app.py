"""The application: settings in, ASGI out."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from weakref import WeakSet

import numpy as np
from fastapi import FastAPI

from league.aggregator import Aggregator
from league.api import (
    champions,
    checkpoints,
    events,
    gates,
    health,
    learners,
    matchmaking,
    play,
    players,
    problems,
    reference,
    tables,
    workers,
)
from league.api.admission import Admission
from league.api.callers import Callers
from league.api.commits import BEATS_TOGETHER, REGISTRATIONS_TOGETHER, Commits
from league.api.dependencies import League
from league.api.limits import BodyLimit
from league.api.metrics import Measurement, Metrics
from league.api.request_ids import RequestIds
from league.config import Settings
from league.db import schema
from league.db.engine import Database
from league.duty import Duty
from league.gatekeeper import Gatekeeper
from league.lookout import Lookout
from league.pruner import Pruner
from league.services import tokens
from league.services.population import PopulationCache
from league.services.superiority import Comparisons
from league.services.terms import TermsCache
from league.storage.opening import open_store
from league.sweeper import Sweeper


def create_app(settings: Settings) -> FastAPI:
    """Make the application of one league.

    Starting it refuses a database of another version, and an address beyond loopback while no token exists.

    Raises:
        ConfigurationError: The database or the store cannot be used.
    """
    database = Database(settings.database_address, settings.database_connections)
    league = League(
        settings=settings,
        database=database,
        store=open_store(settings),
        population=PopulationCache(),
        terms=TermsCache(),
        comparisons=Comparisons(),
        metrics=Metrics(),
        callers=Callers(settings.rate_per_s, settings.rate_burst, settings.token_memory_s),
        beats=Commits(database, BEATS_TOGETHER),
        registrations=Commits(database, REGISTRATIONS_TOGETHER),
        ending=threading.Event(),
        streams=WeakSet(),
    )
    app = FastAPI(
        title="Echelon League",
        summary="A self-play league with a Glicko-2 arena.",
        version=version("echelon-league"),
        lifespan=_lifespan,
        responses=problems.RESPONSES,
        docs_url=None,
        redoc_url=None,
    )
    league.metrics.watch(league.database)
    app.state.league = league
    for module in (  # routes are tried in this order: first what workers call all the time
        play,
        matchmaking,
        workers,
        learners,
        checkpoints,
        players,
        champions,
        gates,
        tables,
        events,
        health,
        reference,
    ):
        app.include_router(module.router)
    problems.install(app)
    app.add_middleware(
        BodyLimit, body_max_bytes=settings.body_max_bytes, checkpoint_max_bytes=settings.checkpoint_max_bytes
    )
    app.add_middleware(
        Admission, config=settings.lanes, metrics=league.metrics, clock=time.monotonic, rng=np.random.default_rng()
    )
    app.add_middleware(Measurement, metrics=league.metrics)
    app.add_middleware(RequestIds)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    league: League = app.state.league
    with ExitStack() as stack:
        stack.callback(league.database.close)
        schema.check(league.database)
        league.store.prepare()
        with league.database.read() as session:
            tokens.require_closed_or_loopback(session, league.settings)
        for duty in duties(league):
            duty.start()
            stack.callback(duty.stop)
        yield


def duties(league: League) -> list[Duty]:
    """Return what a process of the league does by itself."""
    database, settings = league.database, league.settings
    always: list[Duty] = [
        Aggregator(database, settings, _now),
        Gatekeeper(database, settings, _now),
        Lookout(database, settings, _now),
        Sweeper(database, settings, league.metrics, _now),
    ]
    return always if settings.retention_days is None else [*always, Pruner(database, settings.retention_days, _now)]


def _now() -> datetime:
    return datetime.now(UTC)
