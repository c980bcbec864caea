"""Buckets and services that cannot be used, named at start and later on."""

import io
import sys
from collections.abc import Callable
from typing import Any, Literal

import httpx2
import pytest
import s3_server
from fastapi.testclient import TestClient
from kept_stores import MAX_BYTES, Kept
from league_scene import safetensors, sha256
from refused import assert_names, refused
from s3_server import Service

from league.client import LeagueClient
from league.errors import (
    LeagueError,
    StoreUnavailableError,
)
from league.storage.s3 import S3Store
from league.storage.s3_client import Bucket, BucketAddress


def start_error(serve: Callable[..., TestClient], settings: dict[str, Any]) -> LeagueError:
    with pytest.raises(LeagueError) as refusal:
        serve(**settings)
    assert "\n" not in str(refusal.value)
    assert s3_server.SECRET not in str(refusal.value)
    return refusal.value


def test_a_server_without_credentials_does_not_start(
    serve: Callable[..., TestClient], in_bucket: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = start_error(serve, in_bucket.settings)
    assert isinstance(error, StoreUnavailableError)
    assert "AWS_ACCESS_KEY_ID" in error.remedy


def test_a_server_with_wrong_credentials_does_not_start(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    httpx2.post(f"{service.url}/moto-api/reset-auth", content=b"0")
    try:
        error = start_error(serve, in_bucket.settings)
    finally:
        httpx2.post(f"{service.url}/moto-api/reset-auth", content=b"inf")
    assert isinstance(error, StoreUnavailableError)
    assert "InvalidAccessKeyId" in error.rule


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"store_url": "s3://nowhere-at-all/x"}, "s3://nowhere-at-all/x"),
        ({"store_endpoint_url": "http://127.0.0.1:9"}, "http://127.0.0.1:9"),
        ({"store_endpoint_url": "no address"}, "store s3://"),
    ],
)
def test_a_bucket_that_cannot_be_reached_is_named_at_start(
    serve: Callable[..., TestClient], in_bucket: Kept, changes: dict[str, str], value: str
) -> None:
    assert value in str(start_error(serve, in_bucket.settings | changes))


@pytest.mark.parametrize("hashing", ["refuses", "no"])
def test_bucket_service_without_checksums_is_rejected_with_the_setting(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service, hashing: Literal["refuses", "no"]
) -> None:
    service.hashing = hashing
    error = start_error(serve, in_bucket.settings)
    assert "LEAGUE_STORE_HASHING=server" in error.remedy
    assert in_bucket.names() == []


def test_failing_bucket_service_is_reported_by_calls_and_readiness(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    http = serve(**in_bucket.settings)
    assert http.get("/readyz").status_code == 200
    service.failing = ("403 Forbidden", "AccessDenied")
    ready = http.get("/readyz")
    assert ready.status_code == 503
    told = ready.json()["checks"]["store"]
    assert told != "ok"
    assert in_bucket.settings["store_url"].split("/")[2] not in ready.text
    service.failing = ("500 Internal Server Error", "InternalError")
    answer = http.get(f"/api/v1/checkpoints/{'0' * 64}")
    assert (answer.status_code, answer.json()["type"]) == (503, StoreUnavailableError.type)
    assert "Internal Server Error" in answer.json()["detail"]


def test_an_address_where_no_object_store_answers_is_named_at_start_and_by_readiness(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    """A web server of another kind has nothing at all: that is no object which is missing."""
    http = serve(**in_bucket.settings)
    service.failing = ("404 Not Found", "404")
    error = start_error(serve, in_bucket.settings)
    assert isinstance(error, StoreUnavailableError)
    assert_names(str(error), 404, "LEAGUE_STORE_ENDPOINT_URL")
    ready = http.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["checks"]["store"] != "ok"
    store: S3Store = http.app.state.league.store
    with refused("store-unavailable"):
        store.put(sha256(safetensors(1)), io.BytesIO(safetensors(1)))


def test_readiness_reports_unavailable_store_without_its_address(
    serve: Callable[..., TestClient], in_bucket: Kept, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = serve(**in_bucket.settings)
    away = BucketAddress("vault", "", "http://127.0.0.1:9", None)
    monkeypatch.setattr(http.app.state.league.store, "_bucket", Bucket(away, "service"))
    told = http.get("/readyz").json()["checks"]["store"]
    assert "127.0.0.1" not in told
    assert "s3://vault/" in caplog.text
    assert_names(caplog.text, "http://127.0.0.1:9")


def test_a_client_names_a_store_that_refuses_or_is_away_without_the_signature(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    client, data = LeagueClient(http=serve(**in_bucket.settings)), safetensors(3)
    client.upload(data, sha256(data))
    away = LeagueClient(http=serve(**in_bucket.settings, store_public_url="http://127.0.0.1:9"))
    for transfer in (lambda: away.download(sha256(data)), lambda: away.upload(b"x", "0" * 64)):
        with refused("league-unreachable", "LEAGUE_STORE_PUBLIC_URL") as lost:
            transfer()
        assert "Signature" not in str(lost.value)


def test_an_address_of_a_bucket_is_read_whole() -> None:
    address = BucketAddress.parse("s3://bucket/a/b/", None, None)
    assert (address.bucket, address.prefix, str(address)) == ("bucket", "a/b/", "s3://bucket/a/b/")
    assert BucketAddress.parse("s3://bucket", None, None).prefix == ""


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with refused("configuration", "echelon-league", "s3"):
        S3Store(BucketAddress.parse("s3://bucket", None, None), MAX_BYTES, "service")
