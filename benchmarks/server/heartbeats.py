"""10,000 workers that lease, report and beat, each over connections of its own, while as many reconnect in 30 s."""

import asyncio
import json
from contextlib import ExitStack

import numpy as np
from sqlalchemy import func, select

from benchmarks.server.closed_loop import post_all
from benchmarks.server.leases import ENVIRONMENT, Body, batch_of, learners_of, people
from benchmarks.server.open_loop import Arrivals
from benchmarks.server.testbed import Row, Server, Stage
from league import wire
from league.db.engine import Database
from league.db.models import Lease, Match

WORKERS = 10_000
CALLS_PER_S = 0.017  # of each worker: a third each leases, results, heartbeats
CONNECTIONS = 8  # that attach the workers beforehand

RAMP_S = 20.0  # until calls of all three kinds come as often
MEASURED_S = 60.0
STORM_S = (30.0, 60.0)  # when everybody reconnects
LEASES = 4
REPORT_AFTER_S = 10.0
BEAT_AFTER_S = 20.0
EXPIRY_S = 30.0  # short, so that a lease whose results were held up would show

WORKERS_PATH = f"{wire.PREFIX}/workers"
LEASES_PATH = f"{wire.PREFIX}/leases"
RESULTS_PATH = f"{wire.PREFIX}/results"


def measure(stage: Stage) -> list[Row]:
    """Run the workers against the league, and as many bare heartbeats against the floor."""
    database_url = stage.database()
    people(database_url)
    with ExitStack() as servers:
        league = servers.enter_context(
            stage.league(database_url, heartbeat_s=BEAT_AFTER_S, lease_expiry_s=EXPIRY_S, lease_sweep_s=5)
        )
        bare_url = stage.database()
        command = ("-m", "benchmarks.server.plain_league", "--database-url", bare_url)
        bare = servers.enter_context(stage.process(command, bare_url))
        workers = _attach(league.url)
        arrivals, accepted = asyncio.run(_live(league, workers))
        floor = asyncio.run(_beat_alone(bare, workers))
    log = (stage.folder / "servers.log").read_text()
    return _rows(arrivals, floor) + _honesty(arrivals, accepted, database_url, log)


def _rows(arrivals: Arrivals, floor: Arrivals) -> list[Row]:
    work = f"heartbeats of {WORKERS:,} workers, all reconnecting within {STORM_S[1] - STORM_S[0]:g} s"
    floor_ms = f"plain heartbeats alone: {floor.quantiles('heartbeat')}"
    rows = [Row(f"{work}: p50 / p99 ms", arrivals.quantiles("heartbeat"), "p99 100", floor_ms)]
    kinds = ("registration", "results", "leases")
    return rows + [Row(f"{kind} in this storm: p50 / p99 ms", arrivals.quantiles(kind)) for kind in kinds]


def _honesty(arrivals: Arrivals, accepted: int, database_url: str, log: str) -> list[Row]:
    """Count what must not be: lost or double results, leases that ended before their results, locks, refusals."""
    database = Database(database_url)
    with database.read() as session:
        matches = session.scalar(select(func.count()).select_from(Match)) or 0
        keys = session.scalar(
            select(func.count()).select_from(select(Match.lease_id, Match.sequence).distinct().subquery())
        )
        late = session.scalar(select(func.count()).where(Match.late)) or 0
        states = session.execute(select(Lease.state, func.count()).group_by(Lease.state).order_by(Lease.state)).all()
    database.close()
    refused = ", ".join(f"{kind} {count}" for kind, count in sorted(arrivals.refused.items())) or "none"
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
            f"{arrivals.failures.total()}; {log.count('is locked')}",
            "0; 0",
        ),
        Row("calls rejected with `Retry-After` in this storm", refused, "no heartbeat"),
    ]


def _attach(url: str) -> list[tuple[str, Body]]:
    """Register all workers; return the id of each with what it registers as."""
    bodies = [
        {"name": f"worker-{number}", "kind": "trainer", "version": "1", "signatures": [ENVIRONMENT]}
        for number in range(WORKERS)
    ]
    _, answers = post_all(url, WORKERS_PATH, [json.dumps(body).encode() for body in bodies], CONNECTIONS)
    return [(json.loads(answer)["id"], body) for answer, body in zip(answers, bodies, strict=True)]


async def _live(league: Server, workers: list[tuple[str, Body]]) -> tuple[Arrivals, int]:
    """Let every worker live; return what came of the calls, and how many results were accepted."""
    rng = np.random.default_rng(0)
    learners = learners_of(league.url)
    arrivals = Arrivals(league.url)
    lives = round(WORKERS * CALLS_PER_S / 3 * (RAMP_S + MEASURED_S))
    due_s = np.sort(rng.uniform(0.0, RAMP_S + MEASURED_S, lives))
    storm_s = rng.uniform(*STORM_S, WORKERS)
    arrivals.begin()
    accepted, _ = await asyncio.gather(
        asyncio.gather(
            *(
                _life(arrivals, float(due), workers[number % WORKERS][0], learners[number % len(learners)])
                for number, due in enumerate(due_s)
            )
        ),
        asyncio.gather(
            *(
                arrivals.post("registration", float(due), WORKERS_PATH, body)
                for due, (_, body) in zip(storm_s, workers, strict=True)
            )
        ),
    )
    return arrivals, sum(accepted)


async def _life(arrivals: Arrivals, due_s: float, worker_id: str, player_id: int) -> int:
    """Lease and report a while later; beat meanwhile. Return how many results were accepted."""
    beat_s = due_s + BEAT_AFTER_S
    kind = "heartbeat" if RAMP_S <= beat_s < RAMP_S + MEASURED_S else "heartbeat outside"
    accepted, _ = await asyncio.gather(
        _play(arrivals, due_s, worker_id, player_id),
        arrivals.post(kind, beat_s, f"{WORKERS_PATH}/{worker_id}/heartbeat", {}),
    )
    return accepted


async def _play(arrivals: Arrivals, due_s: float, worker_id: str, player_id: int) -> int:
    request = {"kind": "training", "worker_id": worker_id, "player_id": player_id, "count": LEASES, "budget": 1}
    leased = await arrivals.post("leases", due_s, LEASES_PATH, request)
    if leased is None:
        return 0
    over_s = max(due_s, arrivals.now_s()) + REPORT_AFTER_S
    told = await arrivals.post("results", over_s, RESULTS_PATH, batch_of(worker_id, leased["items"]))
    return 0 if told is None else sum(answer["status"] == "accepted" for answer in told["items"])


async def _beat_alone(bare: Server, workers: list[tuple[str, Body]]) -> Arrivals:
    """Send heartbeats alone, as many a second as all calls of the storm together."""
    arrivals = Arrivals(bare.url)
    rate = WORKERS * CALLS_PER_S + WORKERS / (STORM_S[1] - STORM_S[0])
    arrivals.begin()
    await asyncio.gather(
        *(
            arrivals.post("heartbeat", number / rate, f"{WORKERS_PATH}/{worker_id}/heartbeat", {})
            for number, (worker_id, _) in enumerate(workers)
        )
    )
    return arrivals
