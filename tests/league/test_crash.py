"""A server killed in the middle of its work loses nothing that it acknowledged and counts nothing twice."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from league_history import recomputed
from league_scene import Scene, result
from reserved_port import reserved

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import LeagueError

pytestmark = pytest.mark.integration

SENDERS = 4
RESULTS_EACH = 60
BUSY = {"LEAGUE_AGGREGATION_INTERVAL_S": "0.02", "LEAGUE_PERIOD_GAMES": "1", "LEAGUE_PERIOD_SPACING_S": "0"}


class KillableServer:
    """`league serve` on a fixed port, in a process of its own."""

    def __init__(self, database_url: str, home: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "league", "serve", "--port", str(port), "--home", str(home)]
        self._environment = os.environ | BUSY | {"LEAGUE_DATABASE_URL": database_url}
        self._log = home / "server.log"
        self.url = f"http://127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._environment, stdout=log, stderr=log)
        with LeagueClient(self.url) as client:
            retried(lambda: client.health())

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@pytest.fixture
def server(database_url: str, tmp_path: Path) -> Iterator[KillableServer]:
    with reserved() as port:
        running = KillableServer(database_url, tmp_path, port)
        running.start()
        yield running
        running.kill()


def retried(call: Callable[[], object]) -> object:
    """Make a call until the server answers it, as every worker does."""
    while True:
        try:
            return call()
        except LeagueError as error:
            if error.status < 500:
                raise
            threading.Event().wait(0.02)


def test_a_server_killed_at_work_loses_no_accepted_result_and_counts_none_twice(
    server: KillableServer, database: Database
) -> None:
    acknowledged: dict[tuple[str, int], set[int]] = {}
    with LeagueClient(server.url) as client:
        scene = Scene(client)
        leases = scene.opponent_leases(SENDERS, budget=RESULTS_EACH)

    def send(lease: wire.Lease) -> None:
        with LeagueClient(server.url) as client:
            for sequence in range(RESULTS_EACH):
                batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease, sequence)])
                for _ in range(2):  # a worker that is not sure sends again
                    answer = retried(lambda batch=batch: client.report(batch))
                    assert isinstance(answer, wire.ResultBatchAnswer)
                    assert answer.items[0].status in ("accepted", "duplicate")
                    acknowledged.setdefault((lease.lease_id, sequence), set()).add(answer.items[0].match_id or 0)

    senders = [threading.Thread(target=send, args=(lease,)) for lease in leases]
    for sender in senders:
        sender.start()
    while len(acknowledged) < 0.3 * SENDERS * RESULTS_EACH:
        threading.Event().wait(0.005)
    server.kill()
    server.start()
    for sender in senders:
        sender.join()

    assert len(acknowledged) == SENDERS * RESULTS_EACH
    assert all(len(matches) == 1 for matches in acknowledged.values())
    with LeagueClient(server.url) as client:
        client.close_period()
        assert client.player(scene.learner.player_id).games == SENDERS * RESULTS_EACH
        periods = client.periods(limit=1000).items
    assert sum(period.matches for period in periods) == SENDERS * RESULTS_EACH
    server.kill()
    assert recomputed(database)[0].differing == 0
