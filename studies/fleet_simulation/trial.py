"""What each call costs by itself, and what a fleet's mix of them comes to, on a real server in its own process."""

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from sqlalchemy import func, select, update

from studies.fleet_simulation import life, meter
from studies.fleet_simulation.front import Front, served
from studies.fleet_simulation.life import Fleet
from studies.fleet_simulation.meter import Used
from studies.fleet_simulation.pace import Costs, Line, Pace
from benchmarks.server.leases import ENVIRONMENT, LEASES_PATH, RESULTS_PATH, Body, result_batch, create_league
from benchmarks.server.open_loop import OpenLoopLoad
from benchmarks.server.testbed import Testbed
from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Match, Period, Player
from league.settings import Settings

RATE_PER_S = 100.0  # of calls of one kind: a fifth to a half of what one process can
CALLS = 200
SNAPSHOTS = 20
IDLE_S = 2.0

BULK_LEASES = 100  # of a call
BULK_BUDGET = 8
BULK_CALLS = 30
BULK_MATCHES = BULK_LEASES * BULK_BUDGET * BULK_CALLS
BULK_RATE_PER_S = 40.0

RAMP_ROUNDS = 2.0  # after one all workers have come, after the other as many results do as ever will

_PACED = ("heartbeat_s", "next_poll_s", "lease_expiry_s", "lease_grace_s", "lease_sweep_s",
          "aggregation_interval_s", "period_age_s", "period_spacing_s")  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A simulation, from the moment at which all workers have come.

    Attributes:
        seconds: Of our time.
        used: Meanwhile.
        calls: Answered, by kind.
        accepted: Results.
        periods: Closed.
        leases: Granted to workers since the beginning.
        fetched: Of those, whose opponent had to be fetched.
        chances: Of the opponents of a learner, at the end.
        refused: Calls that were sent away with a time to come back, since the beginning.
        resident_bytes: Of an API process and of its books, at the end.
        arrivals: All calls, for their latencies.
    """

    seconds: float
    used: Used
    calls: Counter[str]
    accepted: int
    periods: int
    leases: int
    fetched: int
    chances: list[float]
    refused: int
    resident_bytes: tuple[int, int]
    arrivals: OpenLoopLoad


def costs(testbed: Testbed, pace: Pace) -> Costs:
    """Make calls of one kind at a time, steadily, and read what each took."""
    database_url = _population(testbed)
    with served(testbed, 1, database_url, aggregation_interval_s=3600, lease_sweep_s=3600) as front:
        _stock(front.url, database_url)
        return _Bench(front, pace).costs()


class _Bench:
    """Calls of one kind at a time."""

    def __init__(self, front: Front, pace: Pace) -> None:
        self._front, self._pace = front, pace
        self._learners = learner_player_ids(front.url)
        self._arrivals = OpenLoopLoad(front.url)
        self._used: dict[str, Used] = {}
        self._calls: dict[str, int] = {}

    def costs(self) -> Costs:
        """Measure every kind."""
        names = [f"alone-{number}" for number in range(CALLS)]
        bodies = [{"name": name, "kind": "trainer", "version": "1", "signatures": [ENVIRONMENT]} for name in names]
        self._workers = workers = [told["id"] for told in self._post("registration", life.WORKERS_PATH, bodies)]
        self._post("heartbeat", [f"{life.WORKERS_PATH}/{worker}/heartbeat" for worker in workers], [{}] * CALLS)
        granted = self._lease("leases", workers, self._pace.leases, self._pace.budget, RATE_PER_S)
        size = self._pace.budget // self._pace.reports
        for first in range(0, size * self._pace.reports, size):
            self._report("results", granted, range(first, first + size), RATE_PER_S)
        self._get("download", f"{wire.PREFIX}/checkpoints/{_first_checkpoint()[0]}")
        self._get("standings", life.STANDINGS_PATH)
        self._measure("snapshot", SNAPSHOTS, self._publish)
        self._close()
        bulk = self._lease("many leases", workers[:BULK_CALLS], BULK_LEASES, BULK_BUDGET, BULK_RATE_PER_S)
        for sequence in range(BULK_BUDGET):
            self._report("many results", bulk, (sequence,), BULK_RATE_PER_S)
        closing = self._spent(self._close)
        idle = self._spent(lambda: time.sleep(IDLE_S))
        return Costs(
            calls=self._lines(lambda used: used.api_s),
            database=self._lines(lambda used: used.database_s),
            idle_cores=idle.api_s / IDLE_S,
            close_s=closing.api_s + closing.books_s,
            close_database_s=closing.database_s,
            lease_bytes=self._used["many leases"].size_bytes / (BULK_CALLS * BULK_LEASES),
            match_bytes=self._used["many results"].size_bytes / (BULK_CALLS * BULK_LEASES * BULK_BUDGET),
            period_bytes=closing.size_bytes,
            period_written_bytes=closing.written_bytes,
            written_bytes={
                kind: self._used[kind].written_bytes / self._calls[kind]
                for kind in ("registration", "heartbeat", "leases", "results")
            },
        )

    def _lines(self, of: Callable[[Used], float]) -> dict[str, Line]:
        each = {kind: of(used) / self._calls[kind] for kind, used in self._used.items()}
        lines = {kind: Line(cost, 0.0) for kind, cost in each.items() if not kind.startswith("many")}
        pace = self._pace
        lines["leases"] = Line.through(pace.leases, each["leases"], BULK_LEASES, each["many leases"])
        lines["results"] = Line.through(pace.matches / pace.reports, each["results"], BULK_LEASES, each["many results"])
        return lines

    def _lease(self, kind: str, workers: list[str], count: int, budget: int, rate: float) -> list[tuple[str, Any]]:
        """Return each worker's leases."""
        players = [player_id for _, player_id in self._learners]
        bodies = [
            {"kind": "training", "worker_id": worker, "player_id": players[number % len(players)],
             "count": count, "budget": budget}
            for number, worker in enumerate(workers)
        ]  # fmt: skip
        return list(zip(workers, (told["items"] for told in self._post(kind, LEASES_PATH, bodies, rate)), strict=True))

    def _report(self, kind: str, granted: list[tuple[str, Any]], sequences: Sequence[int], rate: float) -> None:
        bodies = [result_batch(worker, leases, sequences) for worker, leases in granted]
        told = self._post(kind, RESULTS_PATH, bodies, rate)
        if any(item["status"] != "accepted" for answer in told for item in answer["items"]):
            raise SystemExit("results were refused: what refusals cost says nothing")

    def _post(self, kind: str, paths: str | list[str], bodies: list[Body], rate: float = RATE_PER_S) -> list[Any]:
        places = repeat(paths) if isinstance(paths, str) else paths
        calls = list(zip(places, bodies, strict=False))
        return self._steadily(
            kind, len(calls), lambda each: self._arrivals.post(kind, each / rate, calls[each][0], calls[each][1])
        )

    def _get(self, kind: str, path: str) -> None:
        self._steadily(kind, CALLS, lambda each: self._arrivals.get(kind, each / RATE_PER_S, path))

    def _steadily(self, kind: str, count: int, call: Callable[[int], Awaitable[Any]]) -> list[Any]:
        told: list[Any] = []

        async def run() -> None:
            self._arrivals.start()
            told.extend(await asyncio.gather(*(call(each) for each in range(count))))

        self._measure(kind, count, lambda: asyncio.run(run()))
        _refuse_failures(self._arrivals)
        return told

    def _measure(self, kind: str, count: int, work: Callable[[], object]) -> None:
        used = self._spent(work)
        if kind in self._used:
            before, count = self._used[kind], count + self._calls[kind]
            used = Used(*map(sum, zip(vars(before).values(), vars(used).values(), strict=True)))
        self._used[kind], self._calls[kind] = used, count

    def _spent(self, work: Callable[[], object]) -> Used:
        before = meter.read(self._front)
        work()
        return meter.read(self._front) - before

    def _publish(self) -> None:
        rng = np.random.default_rng(0)
        for number in range(SNAPSHOTS):
            learner_id = self._learners[number % len(self._learners)][0]
            life.publish(self._front.url, learner_id, 2_000_000 + number, rng)

    def _close(self) -> None:
        """Close a period and draw once for every learner."""
        with LeagueClient(self._front.url) as client:
            client.close_period(ENVIRONMENT)
            for number, (_, player_id) in enumerate(self._learners):
                client.lease(wire.TrainingLeases(kind="training", worker_id=self._workers[number],
                                                 player_id=player_id, count=1, budget=1))  # fmt: skip


def simulate(testbed: Testbed, pace: Pace, workers: int, minutes: float, speed: float, seed: int, servers: int) -> Seen:
    """Let a fleet live for so many minutes of its time, by servers whose clocks run as fast.

    Args:
        testbed: Where.
        pace: Of each worker.
        workers: How many.
        minutes: More than RAMP_ROUNDS rounds; only what comes after these is watched.
        speed: How fast its time goes.
        seed: Of all chance.
        servers: How many, behind one address.

    Raises:
        SystemExit: A call failed, or a result was lost.
    """
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    database_url = _population(testbed)
    with served(testbed, servers, database_url, **{name: defaults[name] / speed for name in _PACED}) as front:
        _stock(front.url, database_url)
        fleet = Fleet(OpenLoopLoad(front.url), pace, speed, learner_player_ids(front.url), 60.0 * minutes / speed, seed)
        ramp_s = RAMP_ROUNDS * pace.round_s / speed
        before, calls_before, used, calls, resident = asyncio.run(_run(front, fleet, workers, ramp_s))
        with LeagueClient(front.url) as client:
            chances = [item.propensity or 0.0 for item in client.preview(fleet.learners[0][1]).items]
    _refuse_failures(fleet.arrivals)
    matches, periods = _counted(database_url)
    if matches != fleet.sent["accepted"] or set(fleet.sent) - {"accepted"}:
        raise SystemExit(f"the log has {matches} matches, and workers were told {dict(fleet.sent)}")
    return Seen(
        seconds=fleet.end_s - ramp_s, used=used - before, calls=calls - calls_before,
        accepted=matches, periods=periods, leases=fleet.drawn["all"], fetched=fleet.drawn["fetched"],
        chances=chances, refused=fleet.arrivals.rejected.total(), resident_bytes=resident, arrivals=fleet.arrivals,
    )  # fmt: skip


async def _run(
    front: Front, fleet: Fleet, workers: int, ramp_s: float
) -> tuple[Used, Counter[str], Used, Counter[str], tuple[int, int]]:
    """Let them live; return what was used, and called, when all had come, and at the end."""
    fleet.arrivals.start()
    lives = asyncio.create_task(fleet.live(workers, ramp_s / RAMP_ROUNDS))
    await asyncio.sleep(ramp_s)
    before, calls_before = await asyncio.to_thread(meter.read, front), _answered(fleet.arrivals)
    await asyncio.sleep(fleet.end_s - fleet.arrivals.now_s())
    used, calls = await asyncio.to_thread(meter.read, front), _answered(fleet.arrivals)
    resident = meter.resident_bytes(front)
    await lives
    return before, calls_before, used, calls, resident


def learner_player_ids(url: str) -> list[tuple[int, int]]:
    """Return the ids of the learners, and of each one's player."""
    with LeagueClient(url) as client:
        return [(learner.id, learner.player_id) for learner in client.learners(ENVIRONMENT).items]


def _population(testbed: Testbed) -> str:
    """Make a league of eight learners and a thousand snapshots that share one small checkpoint; return its database."""
    database_url = testbed.database()
    create_league(database_url)
    return database_url


def _stock(url: str, database_url: str) -> None:
    sha256, content = _first_checkpoint()
    with LeagueClient(url) as client:
        client.upload(content, sha256)
    database = Database(database_url)
    with database.write() as session:
        session.execute(update(Player).where(Player.kind == "snapshot").values(checkpoint=sha256))
    database.close()


def _first_checkpoint() -> tuple[str, bytes]:
    content = life.checkpoint(np.random.default_rng(0))
    return hashlib.sha256(content).hexdigest(), content


def _answered(arrivals: OpenLoopLoad) -> Counter[str]:
    return Counter({kind: len(latencies) for kind, latencies in arrivals.latencies_s.items()})


def _counted(database_url: str) -> tuple[int, int]:
    """Return the matches in the log, and the periods."""
    database = Database(database_url)
    with database.read() as session:
        counts = [session.scalar(select(func.count()).select_from(table)) or 0 for table in (Match, Period)]
    database.close()
    return counts[0], counts[1]


def _refuse_failures(arrivals: OpenLoopLoad) -> None:
    if arrivals.failures:
        raise SystemExit(f"calls failed: {dict(arrivals.failures)}")
