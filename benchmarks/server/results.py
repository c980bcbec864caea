"""Results per second in batches of 100, against a plain FastAPI endpoint that inserts the same batches unchecked."""

import json
import statistics
from collections.abc import Iterator
from contextlib import ExitStack

from arena.seeding import match_seed
from benchmarks.server.closed_loop import post_all
from benchmarks.server.testbed import Row, Testbed
from league import wire
from league.client import LeagueClient

BATCH = 100
BUDGET = 8  # matches of a lease, as trainers ask for
LONGEST = 240  # decisions
BATCHES = 200  # a round
ROUNDS = 7
CONNECTIONS = 8
PATH = f"{wire.PREFIX}/results"


def measure(testbed: Testbed) -> list[Row]:
    """Send the same batches to the league and to the plain endpoint, in turn."""
    with ExitStack() as servers:
        league = servers.enter_context(testbed.league(aggregation_interval_s=3600))
        plain_url = testbed.database()
        command = ("-m", "benchmarks.server.plain_results", "--database-url", plain_url)
        plain = servers.enter_context(testbed.process(command, plain_url))
        batches = _batches(league.url)
        pairs = [_round(batches, league.url, plain.url) for _ in range(ROUNDS + 1)][1:]  # the first warms both up
    ours, reference = zip(*pairs, strict=True)
    ratio = statistics.median(own / reference for own, reference in pairs)
    return [
        Row(
            "results/s",
            f"{statistics.median(ours):,.0f}",
            "10,000",
            f"plain endpoint {statistics.median(reference):,.0f}",
        ),
        Row("results/s, ratio to the plain endpoint", f"{ratio:.2f}", "0.40"),
    ]


def _round(batches: Iterator[bytes], league_url: str, plain_url: str) -> tuple[float, float]:
    """Return results/s of the league and of the plain endpoint."""
    bodies = [next(batches) for _ in range(BATCHES)]
    own_s, answers = post_all(league_url, PATH, bodies, CONNECTIONS)
    accepted = sum(answer.count(b'"accepted"') for answer in answers)
    if accepted != BATCH * BATCHES:
        raise SystemExit(
            f"{accepted} of {BATCH * BATCHES} results were accepted; the speed of rejected results is not measured"
        )
    reference_s, _ = post_all(plain_url, PATH, bodies, CONNECTIONS)
    return BATCH * BATCHES / own_s, BATCH * BATCHES / reference_s


def _batches(url: str) -> Iterator[bytes]:
    """Yield batches with at most one result per lease; each lease returns until its budget is used up."""
    with LeagueClient(url) as client:
        worker = client.register_worker(
            wire.WorkerCreate(name="trainer-1", kind="trainer", version="1", signatures=["benchmark"])
        )
        learner = client.register_learner(
            wire.LearnerCreate(
                name="main", role="main", environment="benchmark", signature="benchmark", max_decisions=LONGEST
            )
        )
        request = wire.TrainingLeases(
            kind="training", worker_id=worker.id, player_id=learner.player_id, count=BATCH, budget=BUDGET
        )
        while True:
            groups = [client.lease(request).items for _ in range(CONNECTIONS)]
            for sequence in range(BUDGET):
                for leases in groups:  # a lease's matches are not reported at the same time
                    results = [_result(lease, sequence) for lease in leases]
                    yield json.dumps({"worker_id": worker.id, "results": results}).encode()


def _result(lease: wire.Lease, sequence: int) -> dict[str, object]:
    return {
        "lease_id": lease.lease_id,
        "sequence": sequence,
        "score": sequence % 3 / 2,
        "decisions": 100 + sequence,
        "reason": "elimination",
        "seed": match_seed(lease.seed, sequence),
        "learner_step": 1_000 * sequence,
    }
