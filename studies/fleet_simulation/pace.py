"""What a fleet of workers asks of a league, on paper: calls, matches and checkpoints, per second."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

KINDS = ("registration", "heartbeat", "leases", "results", "download", "snapshot", "standings")
"""What is asked of a server. A snapshot is two or three calls; create_league ask for standings."""


@dataclass(frozen=True)
class Pace:
    """How one worker lives. Times are of its own clock, in seconds, > 0.

    Attributes:
        heartbeat_s: From heartbeat to heartbeat; trainers take 10 unless told otherwise, evaluators 30.
        round_s: From one request for leases to the next.
        leases: Of a request, >= 1.
        budget: Matches of a lease, >= 1; all are played within a round.
        reports: Batches in which a round's results go out, >= 1, at most `budget`.
        stay_s: Mean time until a worker drops out without a word.
        away_s: Until it registers again.
        cache: Checkpoints that it keeps, >= 0.
        learners: That all workers together train.
        snapshot_s: From one snapshot of a learner to the next.
        visits_s: From one look at the table to the next, of anybody.
    """

    heartbeat_s: float = 10.0
    round_s: float = 60.0
    leases: int = 2
    budget: int = 4
    reports: int = 2
    stay_s: float = 1800.0
    away_s: float = 60.0
    cache: int = 2
    learners: int = 8
    snapshot_s: float = 300.0
    visits_s: float = 1.0

    @property
    def matches(self) -> int:
        """Played in a round."""
        return self.leases * self.budget

    @property
    def present(self) -> float:
        """Share of the time that a worker is there."""
        return self.stay_s / (self.stay_s + self.away_s)

    def calls_per_s(self, workers: int, miss: float) -> dict[str, float]:
        """Return the calls of each kind.

        Args:
            workers: Of the fleet, those that are away included.
            miss: Share of leases whose opponent's checkpoint must be fetched, in [0, 1].
        """
        there = workers * self.present
        return {
            "registration": workers / (self.stay_s + self.away_s),
            "heartbeat": there / self.heartbeat_s,
            "leases": there / self.round_s,
            "results": there * self.reports / self.round_s,
            "download": there * self.leases * miss / self.round_s,
            "snapshot": self.learners / self.snapshot_s,
            "standings": 1.0 / self.visits_s,
        }

    def matches_per_s(self, workers: int) -> float:
        """Return the matches that the fleet reports."""
        return workers * self.present * self.matches / self.round_s

    def leases_per_s(self, workers: int) -> float:
        """Return the leases that the fleet is granted."""
        return workers * self.present * self.leases / self.round_s


@dataclass(frozen=True)
class Line:
    """What a call costs the server's process: cpu_s = fixed_s + row_s x rows."""

    fixed_s: float
    row_s: float

    def cpu_s(self, rows: float) -> float:
        """Return the CPU seconds of a call."""
        return self.fixed_s + self.row_s * rows

    @classmethod
    def through(cls, few: float, few_s: float, many: float, many_s: float) -> "Line":
        """Fit calls of few rows and of many; neither part is below 0."""
        row_s = max(0.0, (many_s - few_s) / (many - few))
        return cls(max(0.0, few_s - few * row_s), row_s)


@dataclass(frozen=True)
class Costs:
    """What was measured, each by itself.

    Attributes:
        calls: CPU of the API process, for each of KINDS.
        database: The same of the database's own processes; zeros on SQLite, which has none.
        idle_cores: Of the API process that nobody calls, in cores.
        close_s: CPU of closing a period, and `close_database_s` that of the database's processes.
        lease_bytes: Of the database, for each lease.
        match_bytes: For each match.
        period_bytes: For each period, ratings and pairs' records with it, and a draw for each learner.
        period_written_bytes: Written ahead for that.
        written_bytes: The same for each call as the fleet makes it; on SQLite all that is written.
    """

    calls: Mapping[str, Line]
    database: Mapping[str, Line]
    idle_cores: float
    close_s: float
    close_database_s: float
    lease_bytes: float
    match_bytes: float
    period_bytes: float
    period_written_bytes: float
    written_bytes: Mapping[str, float]


@dataclass(frozen=True)
class Needs:
    """What a fleet takes of the machines, on average.

    Attributes:
        calls_per_s: Of all kinds.
        api_cores: Of all API processes.
        books_cores: Of the process that closes periods.
        database_cores: Of the database's own processes.
        commits_per_s: If none shared a commit: the most that there are.
        written_bytes_per_s: Into the write-ahead log.
        grown_bytes_per_s: By how much the database grows.
        downloads_per_s: Checkpoints that are fetched.
    """

    calls_per_s: float
    api_cores: float
    books_cores: float
    database_cores: float
    commits_per_s: float
    written_bytes_per_s: float
    grown_bytes_per_s: float
    downloads_per_s: float


def needs(costs: Costs, pace: Pace, workers: int, miss: float, periods_per_s: float) -> Needs:
    """Add up what a fleet needs.

    Args:
        costs: Of calls, rows and periods.
        pace: Of a worker.
        workers: How many.
        miss: Share of leases whose checkpoint must be fetched.
        periods_per_s: How often a rating period closes.
    """
    calls = pace.calls_per_s(workers, miss)
    rows = rows_of(pace)
    written = {kind: rate for kind, rate in calls.items() if kind in costs.written_bytes}
    return Needs(
        calls_per_s=sum(calls.values()),
        api_cores=costs.idle_cores + sum(rate * costs.calls[kind].cpu_s(rows[kind]) for kind, rate in calls.items()),
        books_cores=periods_per_s * costs.close_s,
        database_cores=periods_per_s * costs.close_database_s
        + sum(rate * costs.database[kind].cpu_s(rows[kind]) for kind, rate in calls.items()),
        commits_per_s=sum(written.values()) + periods_per_s,
        written_bytes_per_s=periods_per_s * costs.period_written_bytes
        + sum(rate * costs.written_bytes[kind] for kind, rate in written.items()),
        grown_bytes_per_s=pace.matches_per_s(workers) * costs.match_bytes
        + pace.leases_per_s(workers) * costs.lease_bytes
        + periods_per_s * costs.period_bytes,
        downloads_per_s=calls["download"],
    )


def rows_of(pace: Pace) -> dict[str, float]:
    """Return how many rows a call of each kind brings or asks for."""
    return dict.fromkeys(KINDS, 1.0) | {"leases": pace.leases, "results": pace.matches / pace.reports}


def miss_rate(chances: ArrayLike, cache: int) -> float:
    """Estimate how often a worker must fetch its next opponent, which it draws independently of those before.

        sum_i (1 - exp(-p_i t)) = cache          t: draws for which a checkpoint stays
        miss = sum_i p_i exp(-p_i t)

    Args:
        chances: (P,) probability of each opponent, summing to 1 or less; the rest needs no checkpoint.
        cache: Checkpoints that are kept, the most recently used, >= 0.

    Source: Che, Tung and Wang (2002), Hierarchical web caching systems.
    """
    chance = np.asarray(chances, np.float64)
    chance = chance[chance > 0.0]
    if cache >= len(chance):
        return 0.0
    if cache == 0:
        return float(chance.sum())

    def surplus(draws: float) -> float:
        return float(-np.expm1(-chance * draws).sum()) - cache

    draws = brentq(surplus, 0.0, 100.0 * len(chance) / chance.min())
    return float((chance * np.exp(-chance * draws)).sum())
