"""A trainer at the end of a bad line: packets are late, uneven and lost, and nothing else is."""

from collections.abc import Iterator
from pathlib import Path

import hosts
import pytest
import weather
from distant_league import address, until
from fault_proxy import passing_on
from kills.fleet import ENVIRONMENT, PACE, SMALL
from kills.processes import Command
from league_tokens import make_token
from served import serving
from small_runs import logged, spooled, waiting
from sqlalchemy import func, select

from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Lease

MATCHES = 200
HASTY = {"LEAGUE_HEARTBEAT_S": "20", "LEAGUE_LEASE_EXPIRY_S": "60", "LEAGUE_LEASE_SWEEP_S": "1"}


@pytest.fixture
def host() -> Iterator[str]:
    with hosts.connected(1) as made:
        yield made.names[0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_trainer_on_a_bad_line_loses_no_match_and_none_of_its_leases(host: str, tmp_path: Path) -> None:
    """200 ms each way, up to 100 more or less, and of 20 packets one is lost."""
    token = make_token(f"sqlite:///{tmp_path / 'league.db'}")  # an open server is called by loopback's names alone
    with (
        serving(tmp_path, **HASTY) as served,
        weather.line(host, delay_s=0.2, jitter_s=0.1, loss=0.05) as line,
        passing_on(lambda: [address(served.url)], line.here) as road,
        LeagueClient(served.url, token=token) as client,
    ):
        settings = (*SMALL, *PACE, "league.snapshot_every_steps=2000", "league.timeout_s=5")
        words = [word for each in settings for word in ("--set", each)]
        where = ("--url", road.url, "--run", str(tmp_path / "run"), "--environment", ENVIRONMENT)
        secret, log = {"LEAGUE_TOKEN": token}, tmp_path / "trainer.log"
        trainer = Command("trainer", ["trainer", "run", *where, *words], secret, log, host)

        def far_enough() -> bool:
            assert trainer.pid is not None, trainer.said()
            return bool(client.learners(ENVIRONMENT).items) and len(logged(client, ENVIRONMENT)) >= MATCHES

        trainer.start()
        try:
            until(far_enough)
            assert trainer.terminate() == 0, trainer.said()
        finally:
            trainer.end()
        matches = logged(client, ENVIRONMENT)
        assert line.lost > 0
    written = {(each["lease_id"], each["sequence"]): (each["score"], each["seed"]) for each in spooled(tmp_path)}
    counted = {(each.lease_id, each.sequence): (each.score, each.seed) for each in matches}
    assert len(counted) == len(matches)
    assert counted.items() <= written.items()
    assert written.keys() - counted.keys() <= waiting(tmp_path / "run")
    database = Database(f"sqlite:///{tmp_path / 'league.db'}")
    with database.read() as session:
        expired = session.scalar(select(func.count()).where(Lease.state == "expired"))
    database.close()
    assert expired == 0
