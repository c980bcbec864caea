"""No secret appears in the server's log, in its answers or in its settings as they are printed."""

import logging
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE
from served import serving

from league.client import LeagueClient
from league.db.engine import Database
from league.errors import LeagueError
from league.services.audit.log import Cause
from league.services.auth import tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)
UNKNOWN = "c29tZWJvZHkncyBzZWNyZXQgb2YgYW5vdGhlciBsZWFndWU"
PASSWORD = "hunter2-hunter2"
STORE_SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"


@pytest.fixture
def secrets(database: Database) -> list[str]:
    """Tokens of every scope, one that was revoked, and one that nobody made."""
    with database.write() as session:
        made = [tokens.create(session, scope, scope, Cause("test", "", NOW)) for scope in ("read", "worker", "admin")]
        made.append(tokens.create(session, "old", "admin", Cause("test", "", NOW)))
        tokens.revoke(session, "old", Cause("test", "", NOW))
    return [*made, UNKNOWN]


def provoke(http: TestClient | httpx2.Client, secrets: list[str]) -> str:
    """Make good and bad calls with every secret, and return all answers."""
    said = []
    for secret in secrets:
        for scheme in ("Bearer", "bearer", "Basic", ""):
            headers = {"Authorization": f"{scheme} {secret}".strip(), "X-Request-ID": "of-the-test"}
            for method, path, body in (
                ("GET", "/api/v1/players", None),
                ("GET", "/api/v1/players?limit=none", None),
                ("GET", "/api/v1/nowhere", None),
                ("POST", "/api/v1/workers", {"name": 1}),
                ("POST", "/api/v1/players/1/promote", {"reason": "why"}),
                ("PUT", f"/api/v1/checkpoints/{'0' * 64}", {}),
            ):
                answer = http.request(method, path, headers=headers, json=body)
                said.append(f"{answer.text}{dict(answer.headers)}")
    return "".join(said)


def test_answers_and_logs_of_a_server_hold_no_token(
    http: TestClient, secrets: list[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_settings: object) -> None:
        raise ZeroDivisionError("a defect")

    caplog.set_level(logging.DEBUG)
    said = provoke(http, secrets)
    monkeypatch.setattr("league.services.population.snapshots.list_players", fail)
    said += provoke(http, secrets)
    assert "ZeroDivisionError" in caplog.text
    for secret in secrets:
        assert secret not in said
        assert secret not in caplog.text


@pytest.mark.integration
@ON_SQLITE
def test_a_running_server_prints_no_secret(
    database: Database, database_url: str, secrets: list[str], tmp_path: Path
) -> None:
    terms = {
        "LEAGUE_DATABASE_URL": database_url,
        "LEAGUE_TOKEN": secrets[0],
        "LEAGUE_LOG_LEVEL": "debug",
        "AWS_SECRET_ACCESS_KEY": STORE_SECRET,
    }
    with serving(tmp_path, **terms) as server, httpx2.Client(base_url=server.url) as http:
        said = provoke(http, secrets)
    printed = server.log.read_text()
    assert "listening on" in printed
    for secret in (*secrets, STORE_SECRET):
        assert secret not in said
        assert secret not in printed


@pytest.mark.integration
@pytest.mark.parametrize("password", [PASSWORD, "p%40ss-hunter2"])
def test_a_database_that_is_away_is_named_without_its_password(tmp_path: Path, password: str) -> None:
    environment = os.environ | {"LEAGUE_DATABASE_URL": f"postgresql://league:{password}@127.0.0.1:9/league"}
    command = [sys.executable, "-m", "league", "serve", "--port", "0", "--home", str(tmp_path)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "127.0.0.1" in ended.stderr
    assert "hunter2" not in ended.stdout + ended.stderr


def test_client_errors_do_not_contain_the_token() -> None:
    for url in ("http://127.0.0.1:9", "http://127.0.0.1:9/x"):
        with LeagueClient(url, token=UNKNOWN) as client, pytest.raises(LeagueError) as lost:
            client.players()
        assert UNKNOWN not in f"{lost.value!r} {lost.value} {lost.value.__cause__!r} {lost.value.problem()}"
