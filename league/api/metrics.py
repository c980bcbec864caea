"""Figures for Prometheus: counted in this process, or read from the database when they are asked for."""

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy import func, select
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from league.db.engine import Database
from league.db.models import Period, Player

LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_UNMATCHED = "unmatched"
_FAILED = 500


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

    def exposition(self, database: Database) -> bytes:
        """Return all figures in Prometheus' text format."""
        players = select(Player.environment, Player.kind, Player.standing, func.count())
        periods = select(Period.environment, func.count()).group_by(Period.environment)
        self._players.clear()
        with database.read() as session:
            for environment, kind, standing, count in session.execute(
                players.group_by(Player.environment, Player.kind, Player.standing)
            ):
                self._players.labels(environment, kind, standing or "").set(count)
            for environment, count in session.execute(periods):
                self._periods.labels(environment).set(count)
        return generate_latest(self.registry)


class Measurement:
    """Middleware that counts and times every request under its route's template."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and note what came of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = _FAILED

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        start_s = perf_counter()
        try:
            await self._app(scope, receive, noting)
        finally:
            route = getattr(scope.get("route"), "path", _UNMATCHED)
            self._metrics.requests.labels(scope["method"], route, str(status)).inc()
            self._metrics.seconds.labels(scope["method"], route).observe(perf_counter() - start_s)
