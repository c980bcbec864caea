"""Simulates a league on a clock that begins in the past and ends now."""

from datetime import UTC, datetime, timedelta

from fastapi.testclient import TestClient

from league.api.dependencies import clock, get_clock
from league.app import create_app
from league.cli.demo.simulation import Scale, SimulatedLeague, Simulation
from league.client import LeagueClient
from league.db.engine import Database
from league.services.gates import sprt
from league.settings import Settings

WEEK = Scale(
    rounds=14,
    round_length=timedelta(hours=12),
    snapshots={"main": 2, "main-exploiter": 1, "league-exploiter": 1},
    heartbeats=4,
    rating_leases=60,
    rating_budget=12,
    training_leases=12,
)

_NEVER_S = 3600.0


def simulate(settings: Settings, scale: Scale) -> SimulatedLeague:
    """Fill the empty database of a league with a history that ends now.

    Args:
        settings: Settings of the league, whose schema exists and which has no tokens.
        scale: Length and size of the history.
    """
    # The periodic tasks read the real time, at which everything of the past would be overdue.
    paused = settings.model_copy(update={"aggregation_interval_s": _NEVER_S, "lease_sweep_s": _NEVER_S})
    app = create_app(paused)
    remaining = scale.length

    def now() -> datetime:
        return datetime.now(UTC) - remaining

    async def read_clock() -> datetime:
        return now()

    def advance(passed: timedelta) -> None:
        nonlocal remaining
        remaining -= passed
        database: Database = app.state.league.database
        sprt.close_decided(database, now())

    app.dependency_overrides |= {clock: read_clock, get_clock: lambda: read_clock}
    with TestClient(app) as http:
        return Simulation(LeagueClient(http=http), advance, scale).play()
