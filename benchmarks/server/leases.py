"""Leases of 64 opponents among 1,000 players with their results, against a plain endpoint that inserts as many rows."""

import asyncio
import json
import statistics
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import insert, select

from arena.seeding import match_seed
from benchmarks.server.closed_loop import post_all
from benchmarks.server.open_loop import OpenLoopLoad
from benchmarks.server.testbed import Row, Server, Testbed
from league import wire
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.db.models import Environment, Learner, LearnerProgress, Player

ENVIRONMENT = "benchmark"
PLAYERS = 1_000
LEARNERS = 8
COUNT = 64
DECISIONS_MAX = 240  # of a match, as trainers declare it

RATE_PER_S = 50
SECONDS = 30
REPORT_AFTER_S = 2.0  # time from a grant to its result

CALLS = 200  # per round of the throughput measurement
ROUNDS = 5
CONNECTIONS = 8

LEASES_PATH = f"{wire.PREFIX}/leases"
RESULTS_PATH = f"{wire.PREFIX}/results"
REPEATED_PATH = f"{wire.PREFIX}/repeated"

Body = dict[str, Any]


def measure(testbed: Testbed) -> list[Row]:
    """Measure latency at a steady rate, then throughput in turn with the plain endpoint."""
    database_url = testbed.database()
    create_league(database_url)
    with ExitStack() as servers:
        league = servers.enter_context(testbed.league(database_url))
        plain_url = testbed.database()
        command = ("-m", "benchmarks.server.plain_league", "--database-url", plain_url)
        plain = servers.enter_context(testbed.process(command, plain_url))
        requests = _attach(league)
        steady = asyncio.run(_lease_steadily(league, requests, report=True))
        reference = asyncio.run(_lease_steadily(plain, requests, report=False))
        rounds = [_round(league, plain, requests) for _ in range(ROUNDS + 1)][1:]  # the first warms both up
    return [*_steady_rows(steady, reference), *_draw_rows(rounds)]


def _steady_rows(steady: OpenLoopLoad, reference: OpenLoopLoad) -> list[Row]:
    if steady.failures:
        raise SystemExit(f"calls failed: {steady.failures}")
    work = f"leases of {COUNT}, {PLAYERS:,} players, {RATE_PER_S} requests/s with their results: p50 / p99 ms"
    return [
        Row(
            work,
            steady.quantiles("leases"),
            "p99 60",
            f"plain endpoint, without results: {reference.quantiles('leases')}",
        ),
        Row("results beside these leases: p50 / p99 ms", steady.quantiles("results")),
        Row("leases rejected with `Retry-After`", str(steady.rejected.total()), "0"),
    ]


def _draw_rows(rounds: list[tuple[float, float, float]]) -> list[Row]:
    ours, reference, bounds = zip(*rounds, strict=True)
    return [
        Row(
            f"opponents drawn per second, in leases of {COUNT} over eight connections",
            f"{statistics.median(ours):,.0f}",
            "20,000",
            f"plain endpoint {statistics.median(reference):,.0f}",
        ),
        Row(
            "opponents drawn per second, ratio to the plain endpoint",
            f"{statistics.median(own / reference for own, reference, _ in rounds):.2f}",
        ),
        Row("an endpoint that repeats one answer: opponents per second", f"{statistics.median(bounds):,.0f}"),
    ]


def create_league(database_url: str) -> None:
    """Create learners with their baselines, and snapshots with normally distributed ratings."""
    database = Database(database_url)
    schema.upgrade(database)
    rng = np.random.default_rng(0)
    now = datetime.now(UTC)
    with database.write() as session:
        learners = [
            {
                "environment": ENVIRONMENT,
                "name": f"learner-{number}",
                "role": "main",
                "signature": ENVIRONMENT,
                "created_at": now,
            }
            for number in range(LEARNERS)
        ]
        session.add(Environment(name=ENVIRONMENT, signature=ENVIRONMENT, max_decisions=DECISIONS_MAX, created_at=now))
        session.flush()
        session.execute(insert(Learner), learners)
        ids = session.scalars(select(Learner.id)).all()
        session.execute(insert(LearnerProgress), [{"learner_id": each, "metrics": {}, "points": 0} for each in ids])
        common = {
            "environment": ENVIRONMENT,
            "signature": ENVIRONMENT,
            "role": "main",
            "card": {},
            "start_volatility": 0.06,
            "created_at": now,
        }
        own = [
            common
            | {
                "kind": "learner",
                "name": f"learner-{one}",
                "learner_id": one,
                "start_rating": 1500.0,
                "start_deviation": 350.0,
            }
            for one in ids
        ]
        snapshots = [
            common
            | {
                "kind": "snapshot",
                "name": f"snapshot-{number}",
                "standing": "commander" if number % 50 == 0 else "candidate",
                "checkpoint": rng.bytes(32).hex(),
                "learner_id": ids[number % LEARNERS],
                "step": number,
                "start_rating": float(rng.normal(1500, 300)),
                "start_deviation": 80.0,
            }
            for number in range(PLAYERS)
        ]
        session.execute(insert(Player), own)
        session.execute(insert(Player), snapshots)
    database.close()


def learner_player_ids(url: str) -> list[int]:
    """Return the player ids of the learners."""
    with LeagueClient(url) as client:
        return [learner.player_id for learner in client.learners(ENVIRONMENT, limit=LEARNERS).items]


def _attach(league: Server) -> list[Body]:
    """Register a worker per learner and finish all warm-ups; return each worker's lease request."""
    with LeagueClient(league.url) as client:
        requests = []
        for learner in client.learners(ENVIRONMENT, limit=LEARNERS).items:
            worker = client.register_worker(
                wire.WorkerCreate(name=learner.name, kind="trainer", version="1", signatures=[ENVIRONMENT])
            )
            request = wire.TrainingLeases(
                kind="training", worker_id=worker.id, player_id=learner.player_id, count=COUNT, budget=1
            )
            requests.append(request.model_dump())
            for _ in range(4):
                batch = result_batch(request.worker_id, client.lease(request).model_dump(mode="json")["items"])
                client.report(wire.ResultBatch.model_validate(batch))
        client.close_period(ENVIRONMENT)
    return requests


async def _lease_steadily(server: Server, requests: list[Body], *, report: bool) -> OpenLoopLoad:
    """Lease at `RATE_PER_S` for `SECONDS`, with or without reporting results."""
    load = OpenLoopLoad(server.url)
    calls = SECONDS * RATE_PER_S
    lease = _lease_and_report if report else _lease
    load.start()
    await asyncio.gather(*(lease(load, number / RATE_PER_S, requests[number % LEARNERS]) for number in range(calls)))
    return load


async def _lease(load: OpenLoopLoad, due_s: float, request: Body) -> Body | None:
    return await load.post("leases", due_s, LEASES_PATH, request)


async def _lease_and_report(load: OpenLoopLoad, due_s: float, request: Body) -> None:
    leases = await _lease(load, due_s, request)
    if leases is not None:
        batch = result_batch(request["worker_id"], leases["items"])
        await load.post("results", due_s + REPORT_AFTER_S, RESULTS_PATH, batch)


def result_batch(worker_id: str, leases: list[Body], sequences: Iterable[int] = (0,)) -> Body:
    """Return a result for every lease and sequence."""
    return {"worker_id": worker_id, "results": [_result(lease, each) for each in sequences for lease in leases]}


def _result(lease: Body, sequence: int) -> Body:
    seed = match_seed(lease["seed"], sequence)
    return {
        "lease_id": lease["lease_id"],
        "sequence": sequence,
        "score": seed % 3 / 2,
        "decisions": 100 + seed % (DECISIONS_MAX - 100),
        "reason": "elimination",
        "seed": seed,
        "learner_step": 1_000,
    }


def _round(league: Server, plain: Server, requests: list[Body]) -> tuple[float, float, float]:
    """Return draws/s of the league, of the plain endpoint, and of the one that repeats an answer."""
    bodies = [json.dumps(requests[number % LEARNERS]).encode() for number in range(CALLS)]
    own_s, _ = post_all(league.url, LEASES_PATH, bodies, CONNECTIONS)
    reference_s, _ = post_all(plain.url, LEASES_PATH, bodies, CONNECTIONS)
    bound_s, _ = post_all(plain.url, REPEATED_PATH, bodies, CONNECTIONS)
    return CALLS * COUNT / own_s, CALLS * COUNT / reference_s, CALLS * COUNT / bound_s
