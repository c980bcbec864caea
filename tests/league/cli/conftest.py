"""The `league` command as a function: arguments in, exit code and both streams out."""

import pytest
from fastapi.testclient import TestClient
from league_command import Outcome, Run
from league_scene import Scene

from league import wire
from league.cli import connection, main
from league.client import LeagueClient


@pytest.fixture
def backend() -> str:
    """One database is enough here: services and store have their tests on both."""
    return "sqlite"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `league ARGUMENTS`."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Outcome(int(ended.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def online(command: Run, http: TestClient, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `league ARGUMENTS` against this test's server."""
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: LeagueClient(http=http, token=token))
    return command


@pytest.fixture
def snapshot(scene: Scene) -> wire.Player:
    """A snapshot that has beaten everybody, rated."""
    player = scene.publish(step=1000)
    scene.evaluate(count=4, winner=player.id)
    scene.train(count=4)
    scene.client.close_period(scene.environment)
    return player
