"""Prometheus metrics: counted in this process, or read from the database on request."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from http import HTTPMethod
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from sqlalchemy import Connection, Engine, event

from league.db.engine import Database
from league.recent_value import RecentValue
from league.services.audit import webhooks
from league.services.audit.webhooks import DeliveryCounts
from league.services.operations import population_counts
from league.services.operations.population_counts import PopulationCounts
from league.settings import Settings

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_METHODS = frozenset(HTTPMethod)

_START_S = "league_statement_start_s"


class Metrics:
    """Metrics of one API process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "league_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "league_request_seconds",
            "Time from a request to the end of its response.",
            ("method", "route"),
            buckets=LATENCY_BUCKETS_S,
            registry=self.registry,
        )
        self.leases = Counter("league_leases", "Leases granted.", ("kind",), registry=self.registry)
        self.settled = Counter(
            "league_leases_settled", "Expired leases that were closed.", ("state",), registry=self.registry
        )
        self.results = Counter("league_results", "Results answered.", ("status",), registry=self.registry)
        self.refused = Counter(
            "league_calls_refused",
            "Calls rejected because their class was full.",
            ("request_class",),
            registry=self.registry,
        )
        self.waiting = Gauge("league_calls_waiting", "Queued calls.", ("request_class",), registry=self.registry)
        self._environments = Gauge(
            "league_environments",
            "Environments. The least recently played ones are combined as environment=(others).",
            registry=self.registry,
        )
        self._players = Gauge("league_players", "Players.", ("environment", "kind", "standing"), registry=self.registry)
        self._periods = Gauge("league_periods", "Closed rating periods.", ("environment",), registry=self.registry)
        self._lag_s = Gauge(
            "league_period_lag_seconds",
            "Age of the oldest match that is not in a rating period yet, or 0.",
            ("environment",),
            registry=self.registry,
        )
        self._regressions = Gauge(
            "league_regressions",
            "Snapshots that a main learner used to defeat and now loses to.",
            ("environment",),
            registry=self.registry,
        )
        self._rms_z = Gauge(
            "league_prediction_rms_z",
            "Root mean square of z of predicted scores, over pairs with at least 40 games. 1 if only chance is left.",
            ("environment",),
            registry=self.registry,
        )
        self._webhook_attempts = Gauge(
            "league_webhook_attempts",
            "Attempts to deliver an event to a receiver of webhooks.",
            ("receiver", "outcome"),
            registry=self.registry,
        )
        self._webhook_lag_s = Gauge(
            "league_webhook_lag_seconds",
            "Age of the oldest event that a receiver of webhooks has not confirmed yet, or 0.",
            ("receiver",),
            registry=self.registry,
        )
        self._webhook_success = Gauge(
            "league_webhook_last_success_timestamp_seconds",
            "Unix time of the last event that a receiver of webhooks confirmed.",
            ("receiver",),
            registry=self.registry,
        )
        self._statements = Summary(
            "league_database_seconds",
            "Time of statements, including the wait for database locks.",
            ("transaction",),
            registry=self.registry,
        )
        self._connections = Gauge("league_database_connections", "Connections that are in use.", registry=self.registry)
        self._rendered = RecentValue[bytes]()

    def watch(self, database: Database) -> None:
        """Time every statement of a database, and count its connections in use."""
        _StatementClock(database.engine, self._statements)
        event.listen(database.engine, "checkout", lambda *_: self._connections.inc())
        event.listen(database.engine, "checkin", lambda *_: self._connections.dec())

    def count_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a finished request under its route template; unknown HTTP methods count as "other"."""
        # Methods are the caller's text: each new one would create time series without limit.
        method = method if method in _METHODS else "other"
        self.requests.labels(method, route, str(status)).inc()
        self.seconds.labels(method, route).observe(seconds)

    def exposition(self, database: Database, settings: Settings, now: datetime) -> bytes:
        """Return all metrics in Prometheus' text format, at most `metrics_cache_s` old.

        Concurrent callers share one computation.
        """

        def render() -> bytes:
            with database.read() as session:
                counts = population_counts.count(session, settings.metrics_environments_max, now)
                deliveries = webhooks.read_counts(session, settings.webhooks, now)
            self._show(counts)
            self._show_deliveries(deliveries)
            return generate_latest(self.registry)

        return self._rendered.get(None, now, timedelta(seconds=settings.metrics_cache_s), render)

    def _show(self, counts: PopulationCounts) -> None:
        self._players.clear()
        self._environments.set(counts.environments)
        for group, number in counts.players.items():
            self._players.labels(*group).set(number)
        for gauge, by_environment in (
            (self._periods, counts.periods),
            (self._lag_s, counts.lag_s),
            (self._regressions, counts.regressions),
            (self._rms_z, counts.rms_z),
        ):
            # Labels of deleted environments would otherwise keep their last value.
            gauge.clear()
            for environment, value in by_environment.items():
                gauge.labels(environment).set(value)

    def _show_deliveries(self, deliveries: Mapping[str, DeliveryCounts]) -> None:
        for receiver, counts in deliveries.items():
            self._webhook_attempts.labels(receiver, "delivered").set(counts.delivered)
            self._webhook_attempts.labels(receiver, "failed").set(counts.failed)
            self._webhook_lag_s.labels(receiver).set(counts.lag_s)
            if counts.delivered_at is not None:
                self._webhook_success.labels(receiver).set(counts.delivered_at.timestamp())


class _StatementClock:
    """Measures the duration of an engine's statements."""

    def __init__(self, engine: Engine, seconds: Summary) -> None:
        self._kinds = {write: seconds.labels("write" if write else "read") for write in (False, True)}
        event.listen(engine, "before_cursor_execute", self._begin)
        event.listen(engine, "after_cursor_execute", self._end)

    def _begin(self, connection: Connection, *_: object) -> None:
        connection.info[_START_S] = perf_counter()

    def _end(self, connection: Connection, *_: object) -> None:
        write = connection.get_execution_options().get("league_write", False)
        self._kinds[write].observe(perf_counter() - connection.info[_START_S])
