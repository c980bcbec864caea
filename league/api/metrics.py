"""Figures for Prometheus: counted in this process, or read from the database when they are asked for."""

from datetime import datetime
from threading import Lock
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from league.db.engine import Database
from league.db.models import Match, Period, Player
from league.services import exclusion, learners, regressions

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_START_S = "league_statement_start_s"


class Metrics:
    """The figures of one API process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "league_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "league_request_seconds",
            "Time from a request to the end of its answer.",
            ("method", "route"),
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.leases = Counter("league_leases", "Leases granted.", ("kind",), registry=self.registry)
        self.settled = Counter(
            "league_leases_settled", "Leases swept after their end.", ("state",), registry=self.registry
        )
        self.results = Counter("league_results", "Results answered.", ("status",), registry=self.registry)
        self.refused = Counter(
            "league_calls_refused", "Calls refused because their lane was full.", ("lane",), registry=self.registry
        )
        self.waiting = Gauge(
            "league_calls_waiting", "Calls that wait for their turn.", ("lane",), registry=self.registry
        )
        self._players = Gauge("league_players", "Players.", ("environment", "kind", "standing"), registry=self.registry)
        self._periods = Gauge("league_periods", "Closed rating periods.", ("environment",), registry=self.registry)
        self._lag_s = Gauge(
            "league_period_lag_seconds",
            "Age of the oldest match that is to be rated and no rating period has taken in; 0 where there is none.",
            ("environment",),
            registry=self.registry,
        )
        self._regressions = Gauge(
            "league_regressions",
            "Snapshots that a main learner used to beat and now loses to.",
            ("environment",),
            registry=self.registry,
        )
        self._statements = Summary(
            "league_database_seconds",
            "Time of statements, waiting for the database's locks included.",
            ("transaction",),
            registry=self.registry,
        )
        self._connections = Gauge("league_database_connections", "Connections that are in use.", registry=self.registry)
        self._telling = Lock()

    def watch(self, database: Database) -> None:
        """Time every statement of a database, and count its connections in use."""
        _StatementClock(database.engine, self._statements)
        event.listen(database.engine, "checkout", lambda *_: self._connections.inc())
        event.listen(database.engine, "checkin", lambda *_: self._connections.dec())

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Note an answered request, under its route's template."""
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def exposition(self, database: Database, now: datetime) -> bytes:
        """Return all figures in Prometheus' text format."""
        with database.read() as session:
            games = learners.environments(session)
            players = _count(session, Player.environment, Player.kind, Player.standing)
            periods = _count(session, Period.environment)
            lags_s = {game: _lag_s(session, game, now) for game in games}
            alarms = {game: len(regressions.active(session, game)) for game in games}
        with self._telling:  # who asks meanwhile must not read a gauge that is being filled
            self._players.clear()
            for (environment, kind, standing), count in players.items():
                self._players.labels(environment, kind, standing or "").set(count)
            for (environment,), count in periods.items():
                self._periods.labels(environment).set(count)
            for game in games:
                self._lag_s.labels(game).set(lags_s[game])
                self._regressions.labels(game).set(alarms[game])
            return generate_latest(self.registry)


def _count(session: Session, *columns: InstrumentedAttribute[Any]) -> dict[tuple[Any, ...], int]:
    """Return how many rows there are of each combination of values of these columns, all of one table."""
    rows = session.execute(select(*columns, func.count()).group_by(*columns))
    return {tuple(values): count for *values, count in rows}


def _lag_s(session: Session, environment: str, now: datetime) -> float:
    rated = session.scalar(select(func.max(Period.last_match_id)).where(Period.environment == environment)) or 0
    waiting = Match.environment == environment, Match.id > rated, *exclusion.rated(session)
    oldest = session.scalar(select(Match.reported_at).where(*waiting).order_by(Match.id).limit(1))
    return 0.0 if oldest is None else (now - oldest).total_seconds()


class _StatementClock:
    """Times the statements of an engine."""

    def __init__(self, engine: Engine, seconds: Summary) -> None:
        self._kinds = {write: seconds.labels("write" if write else "read") for write in (False, True)}
        event.listen(engine, "before_cursor_execute", self._begin)
        event.listen(engine, "after_cursor_execute", self._end)

    def _begin(self, connection: Connection, *_: object) -> None:
        connection.info[_START_S] = perf_counter()

    def _end(self, connection: Connection, *_: object) -> None:
        write = connection.get_execution_options().get("league_write", False)
        self._kinds[write].observe(perf_counter() - connection.info[_START_S])
