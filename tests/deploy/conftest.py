"""A composition of a test's own: passwords, a store, a database, its jobs and servers, as processes of this machine."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import composition
import postgres_server
import psycopg
import pytest
import s3_server
from composition import ROOT, Native
from deployed import Deployment, Listener, Servers, proxied
from sqlalchemy import make_url
from tools import tool


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the settings of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with postgres_server.running() as url:
        yield url


@pytest.fixture(scope="module")
def database_url(postgres_url: str) -> Iterator[str]:
    """An empty database on PostgreSQL."""
    server, name = make_url(postgres_url).set(drivername="postgresql"), f"deploy_{uuid4().hex}"
    address = server.render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield server.set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def store() -> Iterator[s3_server.Service]:
    with s3_server.running() as service:
        yield service


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a composition, with the secrets that `deploy/prepare` makes."""
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "deploy").mkdir()
    shutil.copy(ROOT / "deploy" / "prepare", folder / "deploy")
    subprocess.run([folder / "deploy" / "prepare"], check=True, capture_output=True)
    for volume in ("home", "runs"):
        (folder / "volumes" / volume).mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def deployment(place: Path, database_url: str, store: s3_server.Service) -> Iterator[Deployment]:
    """The composition, nothing of it started. Without a proxy here, workers reach the store itself."""
    with Listener.take() as public, Listener.take() as health:
        replaced = {
            "postgresql://league@postgres/league": database_url,
            "http://objects:8333": store.url,
            "http://league.localhost:8000": public.url if shutil.which("nginx") else store.url,
            "s3://league-checkpoints": f"s3://league-checkpoints/{uuid4().hex}",
            "10.89.250.2": "127.0.0.1",  # the proxy's address
            "0.0.0.0": "127.0.0.1",  # tests listen for this machine alone
        }
        native = Native(place / "volumes", place / "deploy" / "secrets", replaced)
        yield Deployment(native, store.url.removeprefix("http://"), public, health)


@pytest.fixture(scope="module")
def servers(deployment: Deployment, place: Path) -> Iterator[Servers]:
    """The league's servers, as many as the composition has, after the jobs that they wait for."""
    for job in ("bucket", "migrate", "tokens"):
        done = deployment.run(job)
        assert done.returncode == 0, done.stderr
    service = composition.services()["league"]
    environment = deployment.native.environment(service) | {"LEAGUE_PORT": "0", "LEAGUE_EVENTS_POLL_S": "0.1"}
    command, count = deployment.native.command(service), service["deploy"]["replicas"]
    with Servers.started(command, environment, count, place) as started:
        yield started


@pytest.fixture(scope="module")
def token(servers: Servers, place: Path) -> str:
    """The workers' token, which a job has made."""
    return (place / "volumes" / "home" / "workers.token").read_text().strip()


@pytest.fixture(scope="module")
def proxy(deployment: Deployment, servers: Servers, place: Path) -> Iterator[str]:
    """The proxy before them; its public address."""
    nginx = tool("nginx", "install it to test the proxy, as `apt-get install nginx` does")
    addresses = [url.removeprefix("http://") for url in servers.urls]
    with proxied(
        nginx, place, "plain.conf.template", addresses, deployment.store, deployment.public, deployment.health
    ):
        yield deployment.public.url
