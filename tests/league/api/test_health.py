"""Whether the server lives, is ready, and what it counts."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from prometheus_client import CollectorRegistry, generate_latest
from refused import assert_names
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from league.app import create_app
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import DatabaseUnavailableError, InternalError, TooLargeError, UnknownRouteError
from league.services.audit import webhooks
from league.settings import Settings


def test_a_fresh_server_lives_and_is_ready(http: TestClient, league: LeagueClient) -> None:
    assert http.get("/healthz").json() == {"status": "ok", "checks": {}}
    assert league.health().checks == {"database": "ok", "schema": "ok", "store": "ok", "background": "ok"}
    assert http.get("/readyz").status_code == 200


def test_readiness_names_a_schema_of_another_version(http: TestClient, database: Database) -> None:
    with database.write_connection() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    answer = http.get("/readyz")
    assert answer.status_code == 503
    checks = answer.json()["checks"]
    assert (checks["database"], checks["store"]) == ("ok", "ok")
    assert_names(checks["schema"], 9999)
    assert str(database) not in checks["schema"]
    assert http.get("/healthz").status_code == 200


@pytest.mark.integration
@ON_SQLITE
def test_readiness_reports_an_exited_background_process(
    configure: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(configure(), with_background_process=True)
    monkeypatch.setenv("LEAGUE_PERIOD_GAMES", "none")  # with which no process of the background can begin
    with TestClient(app) as client:
        while not (background := client.get("/readyz").json()["checks"]["background"]).startswith("the process exited"):
            threading.Event().wait(0.01)
        assert "exited with status 1; restart in 60 s" in background
        assert client.get("/readyz").status_code == 200


@ON_SQLITE
def test_readiness_reports_unwritable_store_without_its_path(
    http: TestClient, league: LeagueClient, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(tmp_path / "checkpoints", ignore_errors=True)
    (tmp_path / "checkpoints").write_text("a file where a folder should be")
    health = league.health()
    assert health.status == "unready"
    assert str(tmp_path) not in health.checks["store"]
    assert_names(caplog.text, tmp_path / "checkpoints", "File exists")


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
def test_readiness_names_a_database_that_is_gone_and_not_where_it_was(
    http: TestClient, drop: Callable[[], None], database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    assert http.get("/readyz").status_code == 200
    drop()
    answer = http.get("/readyz")
    assert answer.status_code == 503
    assert "does not exist" in answer.json()["checks"]["database"]
    assert str(database.url.database) in caplog.text
    call = http.get("/api/v1/players")
    assert (call.status_code, call.json()["type"]) == (503, DatabaseUnavailableError.type)
    assert call.headers["retry-after"].isdigit()
    for named in (database.url.database, database.url.host, f"port {database.url.port}"):
        assert str(named) not in answer.text + call.text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            'connection to server at "db.internal" (10.0.0.5), port 5432 failed: Connection refused',
            'connection to server at "..." failed: Connection refused',
        ),
        (
            'FATAL: password authentication failed for user "keeper"',
            'FATAL: password authentication failed for user "..."',
        ),
        (
            'failed to resolve host "db.internal": Name or service not known',
            'failed to resolve host "...": Name or service not known',
        ),
    ],
)
@ON_SQLITE
def test_readiness_leaves_hosts_and_users_to_the_log(
    http: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, said: str, shown: str
) -> None:
    def fail(_: object) -> None:
        raise SQLAlchemyError(said)

    monkeypatch.setattr("league.api.health._ping", fail)
    assert http.get("/readyz").json()["checks"]["database"] == shown
    assert said in caplog.text


def test_readiness_names_a_schema_that_is_behind_with_the_command_that_helps(
    http: TestClient, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with database.write_connection() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
    assert "run `league db upgrade`" in http.get("/readyz").json()["checks"]["schema"]
    assert "not ready: old database" in caplog.text


def test_metrics_report_the_age_of_unrated_matches(scene: Scene, http: TestClient, time: Any) -> None:
    def lag() -> list[str]:
        lines = http.get("/metrics").text.splitlines()
        return [line for line in lines if line.startswith("league_period_lag_seconds")]

    assert lag() == ['league_period_lag_seconds{environment="rps"} 0.0']
    scene.train(1)
    time.advance(30)
    scene.train(1)
    time.advance(10)
    assert lag() == ['league_period_lag_seconds{environment="rps"} 40.0']
    scene.client.close_period()
    assert lag() == ['league_period_lag_seconds{environment="rps"} 0.0']


def test_matches_that_are_never_rated_do_not_wait(scene: Scene, http: TestClient, time: Any) -> None:
    (lease,) = scene.opponent_leases(1)
    scene.client.quarantine_worker(scene.trainer.id, time.now, "lies")
    scene.report(result(lease))
    time.advance(30)
    assert 'league_period_lag_seconds{environment="rps"} 0.0' in http.get("/metrics").text


@ON_SQLITE
def test_concurrent_scrapes_are_computed_once(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    http = serve(metrics_cache_s=5.0)
    running, computed = http.app.state.league, []
    began, go_on = threading.Event(), threading.Event()

    def render(registry: CollectorRegistry) -> bytes:
        computed.append(registry)
        began.set()
        assert go_on.wait(120)
        return generate_latest(registry)

    monkeypatch.setattr("league.api.metrics.generate_latest", render)
    now = datetime.now(UTC)
    with ThreadPoolExecutor() as threads:
        times = [now + timedelta(milliseconds=number) for number in (3, 1, 2, 0)]
        asked = [threads.submit(running.metrics.exposition, running.database, running.settings, at) for at in times]
        assert began.wait(120)
        go_on.set()
        told = {each.result() for each in asked}
    assert (len(told), len(computed)) == (1, 1)


@ON_SQLITE
def test_metrics_are_computed_again_after_the_set_time(
    serve: Callable[..., TestClient], league: LeagueClient, time: Any
) -> None:
    http = serve(metrics_cache_s=5.0)

    def environments() -> str:
        return next(line for line in http.get("/metrics").text.splitlines() if line.startswith("league_environments "))

    assert environments() == "league_environments 0.0"
    Scene(league)
    time.advance(4.9)
    assert environments() == "league_environments 0.0"
    time.advance(0.1)
    assert environments() == "league_environments 1.0"


def test_metrics_show_the_environments_played_last_and_sum_up_the_others(
    serve: Callable[..., TestClient], time: Any
) -> None:
    http = serve(metrics_environments_max=2)
    client = LeagueClient(http=http)
    for number in (2, 4):
        Scene(client, f"game-{number}", f"game-{number}").publish(1)
    for number in (3, 1, 0):
        scene = Scene(client, f"game-{number}", f"game-{number}")
        scene.publish(1)
        scene.train(1)
        time.advance(10)
    lines = http.get("/metrics").text.splitlines()
    shown = {line.partition('environment="')[2].partition('"')[0] for line in lines if 'environment="' in line}
    assert shown == {"game-0", "game-1", "(others)"}
    assert "league_environments 5.0" in lines
    assert 'league_players{environment="(others)",kind="learner",standing=""} 3.0' in lines
    assert 'league_players{environment="(others)",kind="snapshot",standing="candidate"} 3.0' in lines
    assert 'league_period_lag_seconds{environment="game-0"} 10.0' in lines
    assert 'league_period_lag_seconds{environment="(others)"} 30.0' in lines, "the longest of game-2, 3 and 4"
    client.close_period("game-3")
    lines = http.get("/metrics").text.splitlines()
    assert 'league_periods{environment="(others)"} 1.0' in lines
    assert 'league_period_lag_seconds{environment="(others)"} 0.0' in lines


def test_metrics_show_deliveries_of_webhooks_without_their_urls(
    serve: Callable[..., TestClient], league: LeagueClient, database: Database, time: Any
) -> None:
    urls = tuple(f"https://chat.example/secret-{number}" for number in range(3))
    http = serve(webhooks={"urls": urls[:2]})
    with database.write() as session:
        for url in (urls[0], urls[2]):
            webhooks.add(session, webhooks.key(url))
            webhooks.count_failure(session, webhooks.key(url))
            webhooks.confirm(session, webhooks.key(url), 0, time.now)
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith("league_webhook")]
    receiver = f'receiver="chat.example {webhooks.key(urls[0])[:6]}"'
    assert {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)} == {
        f'league_webhook_attempts{{outcome="delivered",{receiver}}}': 1.0,
        f'league_webhook_attempts{{outcome="failed",{receiver}}}': 1.0,
        f"league_webhook_lag_seconds{{{receiver}}}": 0.0,
        f"league_webhook_last_success_timestamp_seconds{{{receiver}}}": time.now.timestamp(),
    }


@ON_SQLITE
def test_made_up_methods_share_one_series(http: TestClient) -> None:
    for number in range(20):
        http.request(f"MADE-UP-{number}", "/api/v1/players")
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith("league_requests_total")]
    assert [line for line in lines if "MADE-UP" in line] == []
    assert [line.rpartition(" ")[2] for line in lines if 'method="other"' in line] == ["20.0"]


@ON_SQLITE
def test_metrics_of_a_closed_league_need_a_token_unless_they_are_opened(
    serve: Callable[..., TestClient], connect: Callable[..., LeagueClient]
) -> None:
    reader = connect("read")
    http, opened = serve(), serve(metrics_open=True)
    assert http.get("/metrics").status_code == 401
    assert http.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert http.get("/metrics", headers=reader._headers).status_code == 200
    assert opened.get("/metrics").status_code == 200
    assert opened.get("/api/v1/players").status_code == 401


def test_metrics_report_database_time(scene: Scene, http: TestClient) -> None:
    def figure(name: str) -> float:
        lines = http.get("/metrics").text.splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(name))

    written = figure('league_database_seconds_count{transaction="write"}')
    scene.publish(1)
    assert figure('league_database_seconds_count{transaction="write"}') > written > 0
    assert figure('league_database_seconds_count{transaction="read"}') > 0
    assert figure('league_database_seconds_sum{transaction="write"}') > 0
    assert figure("league_database_connections ") == 0.0
    with http.app.state.league.database.read() as session:
        session.execute(text("SELECT 1"))
        assert figure("league_database_connections ") == 1.0


def test_metrics_count_requests_leases_results_players_and_periods(scene: Scene, http: TestClient) -> None:
    snapshot = scene.publish(1)
    scene.client.promote(snapshot.id)
    (lease,) = scene.opponent_leases(1)
    scene.report(result(lease), result(lease, 5))
    scene.client.close_period()
    http.get("/nowhere")
    figures = http.get("/metrics")
    assert figures.headers["content-type"].startswith("text/plain")
    lines = figures.text.splitlines()
    for line in (
        'league_results_total{status="accepted"} 1.0',
        'league_results_total{status="rejected"} 1.0',
        'league_players{environment="rps",kind="snapshot",standing="commander"} 1.0',
        'league_periods{environment="rps"} 1.0',
        'league_requests_total{method="POST",route="/api/v1/results",status="200"} 1.0',
        'league_requests_total{method="GET",route="unmatched",status="404"} 1.0',
    ):
        assert line in lines
    assert any(line.startswith('league_leases_total{kind="training"}') for line in lines)
    assert any(line.startswith("league_request_seconds_bucket") and "/api/v1/players" in line for line in lines)


@ON_SQLITE
def test_internal_error_document_contains_no_secrets(
    http: TestClient, league: LeagueClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object, **_settings: object) -> None:
        raise ZeroDivisionError("password=hunter2")

    monkeypatch.setattr("league.services.population.snapshots.list_players", fail)
    answer = http.get("/api/v1/players")
    assert (answer.status_code, answer.json()["type"]) == (500, InternalError.type)
    assert "ZeroDivisionError" in answer.json()["detail"]
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text


@ON_SQLITE
def test_a_path_or_method_that_does_not_exist_is_named(http: TestClient) -> None:
    for method, path, status in (("GET", "/api/v1/playerz", 404), ("DELETE", "/api/v1/players", 405)):
        answer = http.request(method, path)
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == UnknownRouteError.type
        assert path in answer.json()["detail"]


@ON_SQLITE
@pytest.mark.parametrize("pieces", [False, True])
def test_a_body_above_the_limit_is_refused_before_it_is_read(serve: Callable[..., TestClient], pieces: bool) -> None:
    http = serve(body_max_bytes=1000)
    small = b'{"name":"a","kind":"trainer","version":"1","signatures":[]}'
    large = b'{"name":"' + b"a" * 1000 + b'"}'
    headers = {"Content-Type": "application/json"}
    for body, status in ((small, 201), (large, 413)):
        content = iter([body[:30], body[30:]]) if pieces else body
        answer = http.post("/api/v1/workers", content=content, headers=headers)
        assert answer.status_code == status
    assert answer.json()["type"] == TooLargeError.type
    assert "at most 1000 bytes" in answer.json()["detail"]


@ON_SQLITE
def test_the_interface_is_documented(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    promised = {
        "/api/v1/workers", "/api/v1/workers/{worker_id}/heartbeat", "/api/v1/learners", "/api/v1/checkpoints/{sha256}",
        "/api/v1/players", "/api/v1/players/{player_id}", "/api/v1/players/{player_id}/promote",
        "/api/v1/players/{player_id}/retire", "/api/v1/players/{player_id}/reinstate",
        "/api/v1/players/{player_id}/quarantine", "/api/v1/players/{player_id}/ratings",
        "/api/v1/players/{player_id}/matches", "/api/v1/leases", "/api/v1/leases/release", "/api/v1/leases/{lease_id}",
        "/api/v1/results", "/api/v1/standings", "/api/v1/payoff", "/api/v1/matchmaking/preview",
        "/api/v1/rating-periods", "/api/v1/matches/{match_id}", "/api/v1/matches/{match_id}/replay", "/api/v1/events",
        "/healthz", "/readyz", "/metrics",
    }  # fmt: skip
    assert promised <= set(document["paths"])
