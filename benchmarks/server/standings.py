"""The league table, the close of a large period and the rebuild of a long log.

The log has LEAGUE_BENCHMARK_MATCHES matches, a million unless set.
"""

import os
import statistics
import time
import urllib.request
from collections.abc import Callable
from functools import partial

from benchmarks.server import match_history
from benchmarks.server.testbed import Row, Testbed
from league import wire
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.rating_periods import closing
from league.services.rating_periods.rebuild import rebuild
from league.services.ratings.period import RatingConfig
from league.settings import Settings

MATCHES = int(os.environ.get("LEAGUE_BENCHMARK_MATCHES", "1000000"))
PERIOD_MATCHES = 1_000_000
PLAYERS = 1_000
CROWD = 5_000
PERIOD_GAMES = 15
CALLS = 50


def measure(testbed: Testbed) -> list[Row]:
    """Measure each on a league of its own."""
    return [*_standings(testbed), _close(testbed), _rebuild(testbed)]


def _standings(testbed: Testbed) -> list[Row]:
    """Request the standings over a tenth of the log, then over all of it."""
    rows, played = [], 0
    database = _league(testbed, CROWD)
    settings = Settings(automatic_promotion=False)
    for matches in (MATCHES // 10, MATCHES):
        match_history.append_matches(database, matches - played)
        played = matches
        closing.close(database, settings, match_history.ENVIRONMENT, Cause("benchmark", "", match_history.NOW))
        with testbed.league(_url(database), aggregation_interval_s=3600) as server:
            address = f"{server.url}{wire.PREFIX}/standings?limit=100"
            seconds = statistics.median(_timed(partial(_read, address)) for _ in range(CALLS))
        work = f"standings, {CROWD:,} players, {matches:,} matches"
        rows.append(Row(work, f"{1e3 * seconds:.0f} ms", "100 ms"))
    database.close()
    return rows


def _close(testbed: Testbed) -> Row:
    """Close one period over HTTP."""
    database = _league(testbed, PLAYERS)
    match_history.append_matches(database, PERIOD_MATCHES)
    with testbed.league(_url(database), aggregation_interval_s=3600) as server, LeagueClient(server.url) as client:
        client.standings()  # the first call of a fresh server loads what it needs
        seconds = _timed(client.close_period)
    database.close()
    return Row(f"closing a period, {PLAYERS:,} players, {PERIOD_MATCHES:,} results", f"{seconds:.1f} s", "2 s")


def _rebuild(testbed: Testbed) -> Row:
    """Rebuild twice and time the second run, which must change nothing."""
    database = _league(testbed, PLAYERS)
    match_history.append_matches(database, MATCHES)
    count = match_history.write_periods(database, RatingConfig.of(Settings()), PERIOD_GAMES * PLAYERS // 2)
    rebuild(database, match_history.NOW)
    start = time.perf_counter()
    (outcome,) = rebuild(database, match_history.NOW)
    seconds = time.perf_counter() - start
    database.close()
    if outcome.differing:
        raise SystemExit(f"{outcome.differing} ratings differ after the second rebuild, which must be identical")
    return Row(f"rebuild of {MATCHES:,} results in {count:,} periods", f"{seconds:.0f} s", "60 s for 10,000,000")


def _league(testbed: Testbed, players: int) -> Database:
    database = Database(testbed.database())
    schema.upgrade(database)
    match_history.create_players(database, players)
    return database


def _url(database: Database) -> str:
    return database.url.set(drivername=database.url.get_backend_name()).render_as_string(hide_password=False)


def _read(address: str) -> bytes:
    with urllib.request.urlopen(address) as answer:
        content: bytes = answer.read()
    return content


def _timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
