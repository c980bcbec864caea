"""A store of each kind, with a server on it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import s3_server
from fastapi.testclient import TestClient
from kept_stores import MAX_BYTES, Kept, bucket, folder
from s3_server import Service


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture(scope="session")
def running_service() -> Iterator[Service]:
    with s3_server.running() as service:
        yield service


@pytest.fixture
def service(running_service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """An object store that nothing was asked of yet, and the credentials for it."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
    running_service.calls.clear()
    running_service.to_libraries = 0
    yield running_service
    running_service.failing, running_service.hashing = None, "yes"


@pytest.fixture(params=["folder", "bucket", "bucket of a plain service"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    if request.param == "folder":
        return folder(tmp_path / "store")
    service: Service = request.getfixturevalue("service")
    made = bucket(service, service.bucket())
    if request.param != "bucket":
        service.hashing = "refuses"
        made.settings["store_hashing"] = "server"
    return made


@pytest.fixture
def http(kept: Kept, serve: Callable[..., TestClient]) -> TestClient:
    client = serve(**kept.settings, checkpoint_max_bytes=MAX_BYTES)
    kept.store = client.app.state.league.store
    return client


@pytest.fixture
def in_bucket(service: Service) -> Kept:
    return bucket(service, service.bucket())
