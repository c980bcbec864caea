"""`league demo`: its history fills every page, and it leaves every other league alone."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from league_command import Run
from refused import assert_names

from league.app import create_app
from league.cli.demo.history import simulate
from league.cli.demo.simulation import Scale, recorded_match
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.settings import Settings

SMALL = Scale(
    rounds=9,
    round_length=timedelta(hours=1),
    snapshots={"main": 1, "main-exploiter": 1, "league-exploiter": 1},
    heartbeats=1,
    rating_leases=40,
    rating_budget=12,
    training_leases=4,
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings.load(home=tmp_path)
    database = Database(settings.database_address)
    schema.upgrade(database)
    database.close()
    return settings


def test_history_has_something_for_every_page_and_ends_now(settings: Settings) -> None:
    summary = simulate(settings, SMALL)
    with TestClient(create_app(settings)) as http:
        league = LeagueClient(http=http)
        standings = league.standings(limit=1000).items
        assert len(standings) == summary.players
        assert all(each.games for each in standings if each.kind == "snapshot")
        assert league.champion().player.id == summary.champion
        assert league.player(summary.champion).tags == ["paper", "reference"]
        assert len(league.lineage("main").items) > SMALL.rounds
        assert len(league.metrics("main").steps) == SMALL.rounds
        assert "settings.ppo.learning_rate" in {each.name for each in league.compare_runs(1, 4).differences}
        assert league.gates().items
        assert {"promote", "champion", "retire", "quarantine", "gate"} <= {each.kind for each in league.events().items}
        assert league.replay(summary.recorded)
        assert league.match(summary.recorded).score == recorded_match().header.outcome.score
        periods = league.periods().items
        assert len(periods) == SMALL.rounds
        lasted = max(each.closed_at for each in periods) - min(each.closed_at for each in periods)
        assert lasted == pytest.approx((SMALL.rounds - 1) * SMALL.round_length, abs=timedelta(minutes=10))
        assert datetime.now(UTC) - league.match(summary.recorded).reported_at < timedelta(minutes=10)


def test_demo_refuses_a_folder_with_a_league(settings: Settings, command: Run) -> None:
    refused = command("demo", "--home", settings.home)
    assert_names(refused.one_line_error, str(settings.home), "league serve")


@pytest.mark.integration
def test_demo_touches_no_other_league_and_deletes_its_folder(tmp_path: Path) -> None:
    own = tmp_path / "own"
    variables = {
        "LEAGUE_HOME": str(own),
        "LEAGUE_DATABASE_URL": f"sqlite:///{own}/league.db",
        "LEAGUE_NO_SUCH_SETTING": "1",
        "TMPDIR": str(tmp_path),
    }
    command = [sys.executable, "-m", "league", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | variables) as process:
        assert process.stdout is not None
        line = next(each for each in process.stdout if "listening on " in each)
        url = line.split("listening on ")[1].split(";")[0]
        assert len(list(tmp_path.iterdir())) == 1
        assert "champion" in httpx2.get(url).text
        process.send_signal(signal.SIGINT)
        process.stdout.read()
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []
