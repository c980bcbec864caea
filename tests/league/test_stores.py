"""The contract of checkpoint stores, held against a folder and a bucket: taken in whole and verified, or not at all."""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
import s3_server
from fastapi.testclient import TestClient
from league_scene import Scene, safetensors, sha256
from s3_server import Service

from league import wire
from league.client import LeagueClient, patience_of
from league.db.engine import Database
from league.errors import (
    ConfigurationError,
    HashMismatchError,
    LeagueError,
    LeagueUnreachable,
    RefusedCheckpointError,
    StoreUnavailableError,
    TooLargeError,
    UnknownCheckpointError,
)
from league.services import collection, tokens
from league.storage.bucket import BucketAddress
from league.storage.directory import DirectoryStore
from league.storage.s3 import S3Store

SOON = timedelta(hours=1)
MAX_BYTES = 4 * 2**20


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture(scope="module")
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


@dataclass
class Kept:
    """A store from outside the league: its settings, every name in it, and a way to damage what it holds."""

    settings: dict[str, Any]
    names: Callable[[], list[str]]
    overwrite: Callable[[str, bytes], None]
    store: DirectoryStore | S3Store = field(init=False, repr=False)


def folder(path: Path) -> Kept:
    def names() -> list[str]:
        return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())

    def overwrite(name: str, data: bytes) -> None:
        (path / name).write_bytes(data)

    return Kept({"store_url": path.as_uri()}, names, overwrite)


def bucket(service: Service, name: str) -> Kept:
    client = service.client

    def names() -> list[str]:
        found = client.list_objects_v2(Bucket=name).get("Contents", ())
        return sorted(entry["Key"].removeprefix("runs/one/") for entry in found)

    def overwrite(key: str, data: bytes) -> None:
        client.put_object(Bucket=name, Key=f"runs/one/{key}", Body=data, ChecksumAlgorithm="SHA256")

    return Kept({"store_url": f"s3://{name}/runs/one", "store_endpoint_url": service.url}, names, overwrite)


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


def place(name: str) -> str:
    return f"{name[:2]}/{name}"


def get(http: TestClient, name: str, **headers: str) -> httpx2.Response:
    """Fetch a checkpoint as any HTTP client does that follows redirects."""
    answer = http.get(f"/api/v1/checkpoints/{name}", headers=headers, follow_redirects=False)
    return httpx2.get(answer.headers["location"], headers=headers) if answer.has_redirect_location else answer


def test_bytes_come_back_as_they_went_in_and_leave_nothing_else(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3, signature="rps-1")
    league.upload(data, sha256(data))
    assert league.download(sha256(data)) == data
    assert kept.names() == [place(sha256(data))]
    assert kept.store.metadata(sha256(data)) == {"signature": "rps-1"}


def test_a_file_is_uploaded_from_its_path(league: LeagueClient, tmp_path: Path) -> None:
    data = safetensors(4)
    (tmp_path / "policy.safetensors").write_bytes(data)
    league.upload(tmp_path / "policy.safetensors", sha256(data))
    assert league.download(sha256(data)) == data


def test_what_is_there_is_not_sent_again(league: LeagueClient, http: TestClient, kept: Kept) -> None:
    data = safetensors(3)
    sent = wire.UploadCreate(size_bytes=len(data)).model_dump()
    asked = f"/api/v1/checkpoints/{sha256(data)}/uploads"
    assert http.post(asked, json=sent).json()["stored"] is False
    league.upload(data, sha256(data))
    assert http.post(asked, json=sent).json() == {"stored": True, "url": None, "headers": {}}
    league.upload(b"not even looked at", sha256(data))
    assert kept.names() == [place(sha256(data))]


def test_bytes_under_another_hash_are_refused_naming_both(league: LeagueClient, kept: Kept) -> None:
    data, wrong = safetensors(3), "0" * 64
    with pytest.raises(HashMismatchError, match=wrong) as refused:
        league.upload(data, wrong)
    assert sha256(data) in str(refused.value)
    assert kept.names() == []


@pytest.mark.parametrize("data", [b"", b"weights of a kind", b"\x80\x04]q\x00.", safetensors(1)[:-1]])
def test_what_is_no_safetensors_file_is_refused_and_leaves_nothing(
    league: LeagueClient, kept: Kept, data: bytes
) -> None:
    with pytest.raises(RefusedCheckpointError, match=r"safetensors|pickle") as refused:
        league.upload(data, sha256(data))
    assert "\n" not in str(refused.value)
    assert kept.names() == []


def test_a_checkpoint_above_the_limit_is_refused_before_it_is_sent(
    league: LeagueClient, kept: Kept, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(TooLargeError, match=f"at most {MAX_BYTES} bytes"):
        league.upload(large, "0" * 64)
    assert kept.names() == []


def test_a_range_is_served_with_a_lasting_name(league: LeagueClient, http: TestClient) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    part = get(http, name, Range="bytes=8-11")
    assert (part.status_code, part.content) == (206, data[8:12])
    assert part.headers["content-range"] == f"bytes 8-11/{len(data)}"
    rest = get(http, name, Range="bytes=12-")
    assert (rest.status_code, rest.content) == (206, data[12:])
    head = http.head(f"/api/v1/checkpoints/{name}")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(data)))
    assert head.headers["etag"] == f'"{name}"'
    assert "immutable" in head.headers["cache-control"]
    for tag in (f'"{name}"', f'"other", W/"{name}"', "*"):
        again = http.get(f"/api/v1/checkpoints/{name}", headers={"If-None-Match": tag}, follow_redirects=False)
        assert (again.status_code, again.content) == (304, b"")


def test_an_unknown_checkpoint_is_named_by_every_call(league: LeagueClient, http: TestClient, kept: Kept) -> None:
    name = "0" * 64
    with pytest.raises(UnknownCheckpointError, match=name):
        league.download(name)
    path = f"/api/v1/checkpoints/{name}"
    assert http.head(path).status_code == 404
    assert http.get(path, headers={"If-None-Match": "*"}).status_code == 404
    assert http.post(f"{path}/complete").json()["type"] == UnknownCheckpointError.type
    with pytest.raises(UnknownCheckpointError, match=name):
        kept.store.metadata(name)
    assert kept.store.remove(name, datetime.now(UTC) + SOON)


def test_damaged_bytes_are_found_at_rest_lose_their_name_and_are_healed_by_sending_them_anew(
    league: LeagueClient, kept: Kept
) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    assert kept.store.sound(name)
    kept.overwrite(place(name), data[:-1] + b"\xff")
    assert not kept.store.sound(name)
    with pytest.raises(UnknownCheckpointError, match=name):
        league.download(name)
    assert [left.size_bytes for left in kept.store.leftovers(datetime.now(UTC) + SOON)] == [len(data)]
    league.upload(data, name)
    assert league.download(name) == data


def test_whole_checkpoints_are_copied_from_store_to_store(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3)
    for _ in range(2):
        kept.store.take_in(sha256(data), io.BytesIO(data))
    with kept.store.open(sha256(data)) as stream:
        assert stream.read(10) + stream.read() == data
    assert league.download(sha256(data)) == data
    with pytest.raises(HashMismatchError, match=sha256(data)):
        kept.store.take_in("0" * 64, io.BytesIO(data))
    assert kept.names() == [place(sha256(data))]
    with pytest.raises(UnknownCheckpointError, match="0" * 64), kept.store.open("0" * 64):
        pass


def test_all_checkpoints_and_no_leftovers_are_listed(league: LeagueClient, kept: Kept) -> None:
    policies = [safetensors(number) for number in range(5)]
    start = datetime.now(UTC) - timedelta(seconds=2)
    for data in policies:
        league.upload(data, sha256(data))
    listed = list(kept.store.listing())
    assert {(stored.sha256, stored.size_bytes) for stored in listed} == {(sha256(d), len(d)) for d in policies}
    assert all(start <= stored.stored_at <= datetime.now(UTC) for stored in listed)
    assert list(kept.store.leftovers(datetime.now(UTC) + SOON)) == []


def test_only_what_is_old_is_removed(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    before = datetime.now(UTC)
    assert not kept.store.remove(name, before - SOON)
    assert league.download(name) == data
    assert kept.store.remove(name, before + SOON)
    assert kept.names() == []
    assert kept.store.remove(name, before + SOON)


def test_a_checkpoint_that_is_asked_about_is_young_again(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    first = kept.store.find(name).stored_at
    while not kept.store.find(name).stored_at > first:
        assert kept.store.freshen(name, datetime.now(UTC))
    assert not kept.store.freshen("0" * 64, datetime.now(UTC))
    assert league.download(name) == data


def test_what_no_player_has_is_collected_with_what_uploads_left(
    league: LeagueClient, kept: Kept, database: Database
) -> None:
    published = Scene(league).publish(1)
    data, later = safetensors(9), datetime.now(UTC) + SOON
    league.upload(data, sha256(data))
    found = collection.survey(database, kept.store, later)
    assert [stored.sha256 for stored in found.needed] == [published.checkpoint]
    assert list(collection.collect(database, kept.store, found, later)) == found.deletable
    assert kept.names() == [place(str(published.checkpoint))]
    assert list(collection.damaged(kept.store, found)) == []


# --- a bucket alone --------------------------------------------------------------------------------------------------


@pytest.fixture
def in_bucket(service: Service) -> Kept:
    return bucket(service, service.bucket())


class Counting:
    """The application, and how many bytes of bodies went into it and out of it."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.bytes = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def counted_receive() -> Any:
            message = await receive()
            self.bytes += len(message.get("body", b""))
            return message

        async def counted_send(message: Any) -> None:
            self.bytes += len(message.get("body", b""))
            await send(message)

        await self.app(scope, counted_receive, counted_send)


def large_policy(size: int) -> bytes:
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


def test_weights_never_pass_through_the_server(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    counting = Counting(serve(**in_bucket.settings).app)
    client = LeagueClient(http=TestClient(counting))
    scene = Scene(client)
    data = large_policy(3 * 2**20)
    counting.bytes = service.to_libraries = 0
    client.upload(data, sha256(data))
    published = client.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=1))
    assert client.download(str(published.checkpoint)) == data
    assert 0 < counting.bytes < 20_000
    assert 0 < service.to_libraries < 50_000


def test_an_upload_address_is_for_one_hash_one_size_one_time_and_one_hour(
    serve: Callable[..., TestClient], in_bucket: Kept
) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    asked = {"size_bytes": len(data)}
    upload = http.post(f"/api/v1/checkpoints/{sha256(data)}/uploads", json=asked).json()
    query = dict(httpx2.URL(upload["url"]).params)
    assert query["X-Amz-SignedHeaders"] == "content-length;host;if-none-match;x-amz-checksum-sha256"
    assert query["X-Amz-Expires"] == "3600"
    assert sha256(data) in upload["url"]
    assert httpx2.put(upload["url"], content=data, headers=upload["headers"]).status_code == 200
    assert httpx2.put(upload["url"], content=data, headers=upload["headers"]).status_code == 412


def test_nothing_is_a_checkpoint_before_it_is_verified(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    path = f"/api/v1/checkpoints/{sha256(data)}"
    upload = http.post(f"{path}/uploads", json={"size_bytes": len(data)}).json()
    httpx2.put(upload["url"], content=data[:-1] + b"\xff", headers=upload["headers"])
    assert http.head(path).status_code == 404
    refused = http.post(f"{path}/complete")
    assert refused.json()["type"] == HashMismatchError.type
    assert in_bucket.names() == []


def test_one_bad_upload_does_not_stand_in_the_way_of_a_good_one(
    serve: Callable[..., TestClient], in_bucket: Kept
) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    for content in (b"junk", data, b"more junk"):
        in_bucket.overwrite(f"incoming/{sha256(data)}/{content[:1].hex()}", content)
    for _ in range(2):
        assert http.post(f"/api/v1/checkpoints/{sha256(data)}/complete").json()["size_bytes"] == len(data)
    assert LeagueClient(http=http).download(sha256(data)) == data


def test_whoever_follows_redirects_uploads_with_put_and_publishing_verifies(
    serve: Callable[..., TestClient], in_bucket: Kept
) -> None:
    http = serve(**in_bucket.settings)
    scene = Scene(LeagueClient(http=http))
    for data, status in ((safetensors(3), 200), (b"no safetensors", 422)):
        redirect = http.put(f"/api/v1/checkpoints/{sha256(data)}", content=data, follow_redirects=False)
        assert redirect.status_code == 307
        assert redirect.headers["cache-control"] == "no-store"
        assert "content-length" in dict(httpx2.URL(redirect.headers["location"]).params)["X-Amz-SignedHeaders"]
        assert httpx2.put(redirect.headers["location"], content=data).status_code == 200
        body = {"learner_id": scene.learner.id, "checkpoint": sha256(data), "step": 1}
        assert http.post("/api/v1/players", json=body).status_code == status
    assert in_bucket.names() == [place(sha256(safetensors(3)))]


def test_a_redirect_is_for_a_size_that_is_said_and_taken(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    http, data = serve(**in_bucket.settings, checkpoint_max_bytes=64), safetensors(3)
    path = f"/api/v1/checkpoints/{sha256(data)}"
    assert http.put(path, content=data, follow_redirects=False).status_code == 413
    unsaid = http.put(path, content=iter([data[:8]]), follow_redirects=False)
    assert (unsaid.status_code, unsaid.json()["value"]) == (422, "Content-Length=")


def test_addresses_name_the_service_as_workers_reach_it(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    http, data = serve(**in_bucket.settings, store_public_url="https://objects.example.org"), safetensors(3)
    upload = http.post(f"/api/v1/checkpoints/{sha256(data)}/uploads", json={"size_bytes": 1}).json()
    assert upload["url"].startswith("https://objects.example.org/")
    in_bucket.overwrite(place(sha256(data)), data)
    address = http.get(f"/api/v1/checkpoints/{sha256(data)}", follow_redirects=False).headers["location"]
    assert address.startswith("https://objects.example.org/")


def test_an_upload_that_nobody_completed_is_a_leftover(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    store = serve(**in_bucket.settings).app.state.league.store
    in_bucket.overwrite(f"incoming/{'0' * 64}/1", b"1234")
    assert list(store.leftovers(datetime.now(UTC) - SOON)) == []
    (left,) = store.leftovers(datetime.now(UTC) + SOON)
    assert left.size_bytes == 4
    store.discard(left)
    store.discard(left)
    assert in_bucket.names() == []
    assert list(store.listing()) == []


def test_a_checkpoint_that_was_copied_into_the_bucket_by_other_means_is_sound(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    bucket_name = str(in_bucket.settings["store_url"]).split("/")[2]
    key = f"runs/one/{place(sha256(data))}"
    service.client.put_object(Bucket=bucket_name, Key=key, Body=data, ChecksumAlgorithm="CRC32")
    assert http.app.state.league.store.sound(sha256(data))
    service.client.put_object(Bucket=bucket_name, Key=key, Body=data[:-1], ChecksumAlgorithm="CRC32")
    assert not http.app.state.league.store.sound(sha256(data))


def start_error(serve: Callable[..., TestClient], settings: dict[str, Any]) -> LeagueError:
    with pytest.raises(LeagueError) as refused:
        serve(**settings)
    assert "\n" not in str(refused.value)
    assert s3_server.SECRET not in str(refused.value)
    return refused.value


def test_a_server_without_credentials_does_not_start(
    serve: Callable[..., TestClient], in_bucket: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    error = start_error(serve, in_bucket.settings)
    assert isinstance(error, StoreUnavailableError)
    assert "AWS_ACCESS_KEY_ID" in error.way_out


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
    ("changes", "says"),
    [
        ({"store_url": "s3://nowhere-at-all/x"}, "there is no such bucket"),
        ({"store_endpoint_url": "http://127.0.0.1:9"}, "does not answer"),
        ({"store_endpoint_url": "no address"}, "store s3://"),
    ],
)
def test_a_bucket_that_cannot_be_reached_is_named_at_start(
    serve: Callable[..., TestClient], in_bucket: Kept, changes: dict[str, str], says: str
) -> None:
    assert says in str(start_error(serve, in_bucket.settings | changes))


@pytest.mark.parametrize("hashing", ["refuses", "no"])
def test_a_service_that_does_not_hash_what_it_copies_is_refused_naming_what_helps(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service, hashing: Literal["refuses", "no"]
) -> None:
    service.hashing = hashing
    error = start_error(serve, in_bucket.settings)
    assert "LEAGUE_STORE_HASHING=server" in error.way_out
    assert in_bucket.names() == []


def test_a_service_that_fails_is_told_by_calls_and_by_readiness(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    http = serve(**in_bucket.settings)
    assert http.get("/readyz").status_code == 200
    service.failing = ("403 Forbidden", "AccessDenied")
    ready = http.get("/readyz")
    assert ready.status_code == 503
    assert "credentials do not suffice" in ready.json()["checks"]["store"]
    service.failing = ("500 Internal Server Error", "InternalError")
    answer = http.get(f"/api/v1/checkpoints/{'0' * 64}")
    assert (answer.status_code, answer.json()["type"]) == (503, StoreUnavailableError.type)
    assert "Internal Server Error" in answer.json()["detail"]


def test_a_client_names_a_store_that_refuses_or_is_away_without_the_signature(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    client, data = LeagueClient(http=serve(**in_bucket.settings)), safetensors(3)
    client.upload(data, sha256(data))
    away = LeagueClient(http=serve(**in_bucket.settings, store_public_url="http://127.0.0.1:9"))
    for transfer in (lambda: away.download(sha256(data)), lambda: away.upload(b"x", "0" * 64)):
        with pytest.raises(LeagueUnreachable, match="LEAGUE_STORE_PUBLIC_URL") as lost:
            transfer()
        assert "Signature" not in str(lost.value)


def test_an_address_of_a_bucket_is_read_whole() -> None:
    address = BucketAddress.parse("s3://bucket/a/b/", None, None)
    assert (address.bucket, address.prefix, str(address)) == ("bucket", "a/b/", "s3://bucket/a/b/")
    assert BucketAddress.parse("s3://bucket", None, None).prefix == ""


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(ConfigurationError, match=r"echelon-league\[s3\]"):
        S3Store(BucketAddress.parse("s3://bucket", None, None), MAX_BYTES, "service")


def test_uploads_past_the_server_count_for_their_token_from_their_address_on(
    serve: Callable[..., TestClient], in_bucket: Kept, database: Database
) -> None:
    with database.write() as session:
        secret = tokens.create(session, "ann", "worker", datetime(2030, 1, 1, tzinfo=UTC), actor="test")
    first, second, third = (safetensors(content) for content in range(3))
    limits = {"checkpoint_max_bytes": len(first), "token_unfinished_max_bytes": len(first)}
    http = serve(**in_bucket.settings, **limits)
    ann = LeagueClient(http=http, token=secret, patience=patience_of(0.0))
    headers = {"Authorization": f"Bearer {secret}"}

    def announce(data: bytes) -> int:
        path = f"/api/v1/checkpoints/{sha256(data)}/uploads"
        return http.post(path, headers=headers, json={"size_bytes": len(data)}).status_code

    assert [announce(first), announce(first), announce(second)] == [200, 200, 429]
    assert http.put(f"/api/v1/checkpoints/{sha256(second)}", headers=headers, content=second).status_code == 429
    for data in (first, second, third):
        ann.upload(data, sha256(data))
