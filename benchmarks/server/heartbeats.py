"""Latency of a storm: 10,000 workers lease, report and send heartbeats while all of them reconnect within 30 s."""

import asyncio
import json
from contextlib import ExitStack

import numpy as np
from sqlalchemy import func, select

from benchmarks.server.closed_loop import post_all
from benchmarks.server.leases import ENVIRONMENT, Body, create_league, learner_player_ids, result_batch
from benchmarks.server.open_loop import OpenLoopLoad
from benchmarks.server.testbed import Row, Server, Testbed
from league import wire
from league.db.engine import Database
from league.db.models import Lease, Match

WORKERS = 10_000
CALLS_PER_S = 0.017  # of each worker: a third each leases, results, heartbeats
CONNECTIONS = 8  # for registration before the measurement

RAMP_S = 20.0  # until calls of all three kinds are equally frequent
MEASURED_S = 60.0
STORM_S = (30.0, 60.0)  # all workers reconnect
LEASES = 4
REPORT_AFTER_S = 10.0
HEARTBEAT_AFTER_S = 20.0
EXPIRY_S = 30.0  # short, so that a delayed result would expire its lease

WORKERS_PATH = f"{wire.PREFIX}/workers"
LEASES_PATH = f"{wire.PREFIX}/leases"
RESULTS_PATH = f"{wire.PREFIX}/results"


def measure(testbed: Testbed) -> list[Row]:
    """Run the workers against the league, then send as many heartbeats to the plain endpoint."""
    database_url = testbed.database()
    create_league(database_url)
    with ExitStack() as servers:
        league = servers.enter_context(
            testbed.league(database_url, heartbeat_s=HEARTBEAT_AFTER_S, lease_expiry_s=EXPIRY_S, lease_sweep_s=5)
        )
        plain_url = testbed.database()
        command = ("-m", "benchmarks.server.plain_league", "--database-url", plain_url)
        plain = servers.enter_context(testbed.process(command, plain_url))
        workers = _attach(league.url)
        load, accepted = asyncio.run(_run_workers(league, workers))
        reference = asyncio.run(_heartbeats_alone(plain, workers))
    log = (testbed.folder / "servers.log").read_text()
    return _rows(load, reference) + _integrity_rows(load, accepted, database_url, log)


def _rows(load: OpenLoopLoad, reference: OpenLoopLoad) -> list[Row]:
    work = f"heartbeats of {WORKERS:,} workers, all reconnecting within {STORM_S[1] - STORM_S[0]:g} s"
    reference_ms = f"plain heartbeats alone: {reference.quantiles('heartbeat')}"
    rows = [Row(f"{work}: p50 / p99 ms", load.quantiles("heartbeat"), "p99 100", reference_ms)]
    kinds = ("registration", "results", "leases")
    return rows + [Row(f"{kind} in this storm: p50 / p99 ms", load.quantiles(kind)) for kind in kinds]


def _integrity_rows(load: OpenLoopLoad, accepted: int, database_url: str, log: str) -> list[Row]:
    """Rows that must be zero: lost or duplicate results, expired leases, database locks, rejected calls."""
    database = Database(database_url)
    with database.read() as session:
        matches = session.scalar(select(func.count()).select_from(Match)) or 0
        keys = session.scalar(
            select(func.count()).select_from(select(Match.lease_id, Match.sequence).distinct().subquery())
        )
        late = session.scalar(select(func.count()).where(Match.late)) or 0
        states = session.execute(select(Lease.state, func.count()).group_by(Lease.state).order_by(Lease.state)).all()
    database.close()
    refused = ", ".join(f"{kind} {count}" for kind, count in sorted(load.rejected.items())) or "none"
    return [
        Row(
            "results of this storm: accepted / in the log / with different keys",
            f"{accepted:,} / {matches:,} / {keys:,}",
            "the same",
        ),
        Row("leases of live workers that expired in this storm", str(late), "0"),
        Row("leases by state", ", ".join(f"{state} {count:,}" for state, count in states)),
        Row(
            "failed calls in this storm; `database is locked` in the log",
            f"{load.failures.total()}; {log.count('is locked')}",
            "0; 0",
        ),
        Row("calls rejected with `Retry-After` in this storm", refused, "no heartbeat"),
    ]


def _attach(url: str) -> list[tuple[str, Body]]:
    """Register all workers; return each one's id and registration."""
    bodies = [
        {"name": f"worker-{number}", "kind": "trainer", "version": "1", "signatures": [ENVIRONMENT]}
        for number in range(WORKERS)
    ]
    _, answers = post_all(url, WORKERS_PATH, [json.dumps(body).encode() for body in bodies], CONNECTIONS)
    return [(json.loads(answer)["id"], body) for answer, body in zip(answers, bodies, strict=True)]


async def _run_workers(league: Server, workers: list[tuple[str, Body]]) -> tuple[OpenLoopLoad, int]:
    """Run all workers; return their calls and the number of accepted results."""
    rng = np.random.default_rng(0)
    learners = learner_player_ids(league.url)
    load = OpenLoopLoad(league.url)
    lives = round(WORKERS * CALLS_PER_S / 3 * (RAMP_S + MEASURED_S))
    due_s = np.sort(rng.uniform(0.0, RAMP_S + MEASURED_S, lives))
    storm_s = rng.uniform(*STORM_S, WORKERS)
    load.start()
    accepted, _ = await asyncio.gather(
        asyncio.gather(
            *(
                _run_worker(load, float(due), workers[number % WORKERS][0], learners[number % len(learners)])
                for number, due in enumerate(due_s)
            )
        ),
        asyncio.gather(
            *(
                load.post("registration", float(due), WORKERS_PATH, body)
                for due, (_, body) in zip(storm_s, workers, strict=True)
            )
        ),
    )
    return load, sum(accepted)


async def _run_worker(load: OpenLoopLoad, due_s: float, worker_id: str, player_id: int) -> int:
    """Lease, send a heartbeat and report; return the number of accepted results."""
    heartbeat_s = due_s + HEARTBEAT_AFTER_S
    kind = "heartbeat" if RAMP_S <= heartbeat_s < RAMP_S + MEASURED_S else "heartbeat outside"
    accepted, _ = await asyncio.gather(
        _lease_and_report(load, due_s, worker_id, player_id),
        load.post(kind, heartbeat_s, f"{WORKERS_PATH}/{worker_id}/heartbeat", {}),
    )
    return accepted


async def _lease_and_report(load: OpenLoopLoad, due_s: float, worker_id: str, player_id: int) -> int:
    request = {"kind": "training", "worker_id": worker_id, "player_id": player_id, "count": LEASES, "budget": 1}
    leased = await load.post("leases", due_s, LEASES_PATH, request)
    if leased is None:
        return 0
    over_s = max(due_s, load.now_s()) + REPORT_AFTER_S
    answer = await load.post("results", over_s, RESULTS_PATH, result_batch(worker_id, leased["items"]))
    return 0 if answer is None else sum(result["status"] == "accepted" for result in answer["items"])


async def _heartbeats_alone(plain: Server, workers: list[tuple[str, Body]]) -> OpenLoopLoad:
    """Send heartbeats only, at the rate of all calls of the storm together."""
    load = OpenLoopLoad(plain.url)
    rate = WORKERS * CALLS_PER_S + WORKERS / (STORM_S[1] - STORM_S[0])
    load.start()
    await asyncio.gather(
        *(
            load.post("heartbeat", number / rate, f"{WORKERS_PATH}/{worker_id}/heartbeat", {})
            for number, (worker_id, _) in enumerate(workers)
        )
    )
    return load
