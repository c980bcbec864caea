"""Whether the API process grows: the calls of 10,000 workers, as fast as they come, and its memory meanwhile.

LEAGUE_BENCHMARK_HOURS says how many hours of their steady load are played, a tenth unless set.
"""

import http.client
import itertools
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.server.heartbeats import CALLS_PER_S, LEASES, LEASES_PATH, RESULTS_PATH, WORKERS, WORKERS_PATH
from benchmarks.server.leases import ENVIRONMENT, Body, create_league, learner_player_ids, result_batch
from benchmarks.server.testbed import Row, Server, Testbed
from league import wire
from league.client import LeagueClient

HOURS = float(os.environ.get("LEAGUE_BENCHMARK_HOURS", "0.1"))
CALLS = round(WORKERS * CALLS_PER_S * 3600 * HOURS)  # a third each leases, results, heartbeats
TENTHS = 10
CONNECTIONS = 8

_SUCCESSES = (200, 201)  # POST /workers creates
_TRIES = 5
_MIB = 2**20
_HEADERS = {"Content-Type": "application/json"}


def measure(testbed: Testbed) -> list[Row]:
    """Read the process's resident memory before the load and after each tenth of it."""
    database_url = testbed.database()
    create_league(database_url)
    with testbed.league(database_url) as server:
        requests = _requests(server)
        _run_workers(server, requests, CONNECTIONS)  # what is loaded at the first call is not growth
        resident = [_resident_mib(server.pid)]
        for _ in range(TENTHS):
            _run_workers(server, requests, CALLS // (3 * TENTHS))
            resident.append(_resident_mib(server.pid))
    later = resident[TENTHS // 2 :]
    load = f"{HOURS:g} h of {WORKERS:,} workers ({CALLS:,} calls)"
    return [
        Row(f"memory of the API process over {load}: MiB per tenth", " ".join(f"{each:.0f}" for each in resident)),
        Row(
            f"memory growth of the API process in the second half of {load}", f"{max(later) / later[0] - 1:.1%}", "10 %"
        ),
    ]


def _requests(server: Server) -> list[Body]:
    """Attach a worker for each connection; return its request for leases."""
    learners = learner_player_ids(server.url)
    with LeagueClient(server.url) as client:
        workers = [
            client.register_worker(
                wire.WorkerCreate(name=f"worker-{number}", kind="trainer", version="1", signatures=[ENVIRONMENT])
            )
            for number in range(CONNECTIONS)
        ]
    return [
        {"kind": "training", "worker_id": worker.id, "player_id": player_id, "count": LEASES, "budget": 1}
        for worker, player_id in zip(workers, itertools.cycle(learners), strict=False)
    ]


def _run_workers(server: Server, requests: list[Body], times: int) -> None:
    """Lease, report and send a heartbeat `rounds` times, each request over its own connection."""

    def live(request: Body) -> None:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        for _ in range(times // len(requests)):
            leased = _post(connection, LEASES_PATH, request)
            _post(connection, RESULTS_PATH, result_batch(request["worker_id"], leased["items"]))
            _post(connection, f"{WORKERS_PATH}/{request['worker_id']}/heartbeat", {})
        connection.close()

    with ThreadPoolExecutor(len(requests)) as pool:
        list(pool.map(live, requests))


def _post(connection: http.client.HTTPConnection, path: str, body: Body) -> Body:
    """Post until there is a response, because connections break if the whole machine was paused."""
    refusal = "not at all"
    for _ in range(_TRIES):
        try:
            connection.request("POST", path, json.dumps(body), _HEADERS)
            answer = connection.getresponse()
        except ConnectionError:
            connection.close()
            continue
        content = answer.read()
        if answer.status in _SUCCESSES:
            told: Body = json.loads(content)
            return told
        refusal = f"{answer.status}: {content[:300]!r}"
        time.sleep(int(answer.headers.get("Retry-After", 0)))
    raise SystemExit(f"{path} answered {refusal}")


def _resident_mib(pid: int) -> float:
    """Return the resident memory of a process from /proc."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MIB
