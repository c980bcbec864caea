"""What the composition's services run works together: the same commands, variables and files, without containers."""

import hashlib
import json
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import composition
import httpx2
import pytest
from deployed import Deployment, Servers
from distant_league import until
from league_scene import Scene, result, safetensors, sha256

from league import wire
from league.client import LeagueClient
from league.errors import UnknownEnvironmentError


@pytest.fixture
def scene(
    deployment: Deployment, servers: Servers, proxy: str, token: str, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """A league that workers reach as from outside, each test's game its own."""
    game = hashlib.sha256(request.node.name.encode()).hexdigest()[:12]
    created = deployment.run("environment", game=game)
    assert created.returncode == 0, created.stderr
    with LeagueClient(proxy, token=token) as client:
        yield Scene(client, environment=game)


def test_secrets_are_made_once_and_are_their_owners(place: Path) -> None:
    folder = place / "deploy" / "secrets"
    declared = {Path(secret["file"]).name for secret in composition.read()["secrets"].values()}
    assert {file.name for file in folder.iterdir()} == declared
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    made = {file.name: file.read_text() for file in folder.iterdir()}
    assert all(len(made[name].strip()) == 43 for name in ("postgres_password", "grafana_password", "metrics_token"))
    [identity] = json.loads(made["store_identities.json"])["identities"]
    assert identity["credentials"][0]["secretKey"] in made["store_credentials"]
    (folder / "grafana_password").unlink()
    subprocess.run([place / "deploy" / "prepare"], check=True, capture_output=True)
    again = {file.name: file.read_text() for file in folder.iterdir()}
    assert {name for name in made if made[name] != again[name]} == {"grafana_password"}


def test_a_server_without_a_first_token_does_not_listen_to_the_network(deployment: Deployment, tmp_path: Path) -> None:
    fresh = f"sqlite:///{tmp_path / 'league.db'}"
    own = {"LEAGUE_HOST": "0.0.0.0", "LEAGUE_PORT": "0", "LEAGUE_DATABASE_URL": fresh}
    refused = deployment.run("league", **own)
    assert refused.returncode == 78
    assert "without any token" in refused.stderr


# --- servers ---------------------------------------------------------------------------------------------------------


def test_jobs_that_are_done_again_change_nothing(deployment: Deployment, servers: Servers, token: str) -> None:
    for job in ("bucket", "tokens", "environment", "metrics-token"):
        assert deployment.run(job).returncode == 0
    assert (deployment.native.volumes / "home" / "workers.token").read_text().strip() == token
    assert len(servers.urls) == 2
    for url in servers.urls:
        ready = httpx2.get(f"{url}/readyz").json()
        assert ready["status"] == "ok", ready


def test_closed_league_requires_a_token(servers: Servers) -> None:
    for url in servers.urls:
        assert httpx2.get(f"{url}/api/v1/players").status_code == 401


def test_a_server_believes_the_proxy_about_the_scheme(servers: Servers, token: str) -> None:
    for scheme, secure in (("https", True), ("http", False)):
        signed_in = httpx2.post(
            f"{servers.urls[0]}/sign-in",
            data={"token": token},
            headers={"Origin": servers.urls[0], "X-Forwarded-Proto": scheme},
        )
        assert signed_in.status_code == 303
        assert ("Secure" in signed_in.headers["Set-Cookie"]) is secure


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_a_server_believes_the_proxy_and_no_other_address_about_a_caller(
    servers: Servers, token: str, address: str
) -> None:
    transport = httpx2.HTTPTransport(local_address=address)
    with httpx2.Client(base_url=servers.urls[0], transport=transport) as client:
        headers = {"Origin": servers.urls[0], "X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.7"}
        signed_in = client.post("/sign-in", data={"token": token}, headers=headers)
    assert signed_in.status_code == 303
    assert ("Secure" in signed_in.headers["Set-Cookie"]) is (address == "127.0.0.1")


# --- through the proxy -----------------------------------------------------------------------------------------------


def stored(place: Path) -> list[tuple[str, str]]:
    """Method and status of every call that the proxy has passed on to the store."""
    calls = [line.split()[2:5] for line in (place / "access.log").read_text().splitlines()]
    return [(method, status) for method, path, status in calls if path.startswith("/league-checkpoints/")]


def test_checkpoints_go_through_the_public_address_both_ways(scene: Scene, proxy: str, place: Path) -> None:
    content = safetensors(7, signature=scene.signature)
    scene.publish(step=7)
    assert scene.client.download(sha256(content)) == content
    until(lambda: stored(place)[-2:] == [("PUT", "200"), ("GET", "200")])  # a line is written once all was sent


def test_interrupted_download_resumes_through_the_proxy(scene: Scene, proxy: str, token: str) -> None:
    scene.publish(step=8)
    content = safetensors(8, signature=scene.signature)
    headers = {"Authorization": f"Bearer {token}", "Range": "bytes=10-"}
    rest = httpx2.get(f"{proxy}/api/v1/checkpoints/{sha256(content)}", headers=headers, follow_redirects=True)
    assert (rest.status_code, rest.content) == (206, content[10:])


def test_results_count_once_across_servers(scene: Scene, servers: Servers, token: str) -> None:
    scene.publish(step=1)
    [lease] = scene.opponent_leases(1)
    batch = wire.ResultBatch(worker_id=scene.trainer.id, results=[result(lease)])
    answers = []
    for url in servers.urls:
        with LeagueClient(url, token=token) as client:
            answers += client.report(batch).items
    answers += scene.client.report(batch).items
    assert [answer.status for answer in answers] == ["accepted", "duplicate", "duplicate"]
    assert len({answer.match_id for answer in answers}) == 1


def test_events_are_passed_on_as_they_happen(scene: Scene, proxy: str, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    with httpx2.stream("GET", f"{proxy}/api/v1/events", headers=headers, timeout=60) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")  # alive, and passed on though it is small and more is to come
        scene.publish(step=2)
        scene.train(1)
        assert any(line == "event: result" for line in lines)
    assert stream.headers["content-type"].startswith("text/event-stream")


def test_a_body_that_is_too_large_is_refused_by_the_servers_setting(proxy: str, token: str, servers: Servers) -> None:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    refused = httpx2.post(f"{proxy}/api/v1/results", headers=headers, content=b" " * (17 * 2**20))
    assert refused.status_code == 413
    assert "LEAGUE_BODY_MAX_BYTES" in refused.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/readyz", 200),
        ("GET", "/sign-in", 200),
        ("GET", "/metrics", 404),
        ("GET", "/league-checkpoints/", 403),
        ("GET", "/league-checkpoints/?list-type=2", 403),
        ("DELETE", "/league-checkpoints/aa/aa?X-Amz-Signature=0", 403),
        ("POST", "/league-checkpoints/aa/aa?X-Amz-Signature=0", 403),
    ],
)
def test_public_address_serves_the_league_and_signed_urls(proxy: str, method: str, path: str, status: int) -> None:
    assert httpx2.request(method, f"{proxy}{path}").status_code == status


def test_neither_tokens_nor_signatures_are_logged(scene: Scene, place: Path, token: str) -> None:
    scene.publish(step=3)
    logged = "".join(log.read_text() for log in place.glob("*.log"))
    assert "/league-checkpoints/" in logged
    assert token not in logged
    assert "Signature" not in logged


def test_prometheus_reads_the_metrics_of_each_server_with_its_own_token(
    deployment: Deployment, servers: Servers, place: Path, token: str
) -> None:
    secret = (place / "deploy" / "secrets" / "metrics_token").read_text().strip()
    assert deployment.run("metrics-token").returncode == 0
    for server in servers.urls:
        assert httpx2.get(f"{server}/metrics").status_code == 401
        told = httpx2.get(f"{server}/metrics", headers={"Authorization": f"Bearer {secret}"})
        assert (told.status_code, "league_environments" in told.text) == (200, True)
        refused = httpx2.post(f"{server}/api/v1/results", headers={"Authorization": f"Bearer {secret}"}, json={})
        assert refused.status_code == 403


# --- workers ---------------------------------------------------------------------------------------------------------


def matches(client: LeagueClient) -> list[wire.Match]:
    """Return the matches of all players of a small game; none while the league does not know it."""
    try:
        players = client.players("rps").items
    except UnknownEnvironmentError:
        return []
    return [match for player in players for match in client.matches(player.id).items]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_trainer_and_evaluator_play_through_the_proxy(
    deployment: Deployment, servers: Servers, proxy: str, token: str
) -> None:
    """Their exact commands, for a small game, until rated matches are counted; then they are told to end."""
    services = composition.services(GAME="rps")
    assert deployment.run("environment", game="rps").returncode == 0
    running = [
        subprocess.Popen(deployment.native.command(services[name]), env=deployment.native.environment(services[name]))
        for name in ("trainer", "evaluator")
    ]
    try:
        with LeagueClient(proxy, token=token) as client:
            while not any(match.kind == "rating" for match in matches(client)):
                assert [worker.poll() for worker in running] == [None, None]
                time.sleep(0.5)
    finally:
        for worker in running:
            worker.terminate()
    assert [worker.wait(timeout=60) for worker in running] == [0, 0]
    assert (deployment.native.volumes / "runs" / "rps" / "main").is_dir()
