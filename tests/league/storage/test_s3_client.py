"""A bucket alone: whoever sends and fetches, the server never has the bytes in its hands."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
from fastapi.testclient import TestClient
from kept_stores import SOON, Kept, place
from league_scene import Scene, safetensors, sha256
from s3_server import Service

from league import wire
from league.client import LeagueClient, make_retry_gate
from league.db.engine import Database
from league.errors import (
    HashMismatchError,
)
from league.services.audit.log import Cause
from league.services.auth import tokens


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


def test_bad_upload_does_not_block_a_good_one(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    for content in (b"junk", data, b"more junk"):
        in_bucket.overwrite(f"incoming/{sha256(data)}/{content[:1].hex()}", content)
    for _ in range(2):
        assert http.post(f"/api/v1/checkpoints/{sha256(data)}/complete").json()["size_bytes"] == len(data)
    assert LeagueClient(http=http).download(sha256(data)) == data


def test_redirected_put_upload_is_verified_on_publishing(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    http = serve(**in_bucket.settings)
    scene = Scene(LeagueClient(http=http))
    for data, status in ((safetensors(3), 201), (b"no safetensors", 422)):
        redirect = http.put(f"/api/v1/checkpoints/{sha256(data)}", content=data, follow_redirects=False)
        assert redirect.status_code == 307
        assert redirect.headers["cache-control"] == "no-store"
        assert "content-length" in dict(httpx2.URL(redirect.headers["location"]).params)["X-Amz-SignedHeaders"]
        assert httpx2.put(redirect.headers["location"], content=data).status_code == 200
        body = {"learner_id": scene.learner.id, "checkpoint": sha256(data), "step": 1}
        assert http.post("/api/v1/players", json=body).status_code == status
    assert in_bucket.names() == [place(sha256(safetensors(3)))]


def test_upload_redirect_requires_a_valid_content_length(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
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


def test_incomplete_multipart_upload_is_a_leftover(serve: Callable[..., TestClient], in_bucket: Kept) -> None:
    store = serve(**in_bucket.settings).app.state.league.store
    in_bucket.overwrite(f"incoming/{'0' * 64}/1", b"1234")
    assert list(store.leftovers(datetime.now(UTC) - SOON)) == []
    (left,) = store.leftovers(datetime.now(UTC) + SOON)
    assert left.size_bytes == 4
    store.discard(left)
    store.discard(left)
    assert in_bucket.names() == []
    assert list(store.listing()) == []


def test_checkpoint_copied_into_the_bucket_manually_is_valid(
    serve: Callable[..., TestClient], in_bucket: Kept, service: Service
) -> None:
    http, data = serve(**in_bucket.settings), safetensors(3)
    bucket_name = str(in_bucket.settings["store_url"]).split("/")[2]
    key = f"runs/one/{place(sha256(data))}"
    service.client.put_object(Bucket=bucket_name, Key=key, Body=data, ChecksumAlgorithm="CRC32")
    assert http.app.state.league.store.sound(sha256(data))
    service.client.put_object(Bucket=bucket_name, Key=key, Body=data[:-1], ChecksumAlgorithm="CRC32")
    assert not http.app.state.league.store.sound(sha256(data))


def test_uploads_past_the_server_count_for_their_token_from_their_address_on(
    serve: Callable[..., TestClient], in_bucket: Kept, database: Database
) -> None:
    with database.write() as session:
        secret = tokens.create(session, "ann", "worker", Cause("test", "", datetime(2030, 1, 1, tzinfo=UTC)))
    first, second, third = (safetensors(content) for content in range(3))
    limits = {"checkpoint_max_bytes": len(first), "token_unfinished_max_bytes": len(first)}
    http = serve(**in_bucket.settings, **limits)
    ann = LeagueClient(http=http, token=secret, patience=make_retry_gate(0.0))
    headers = {"Authorization": f"Bearer {secret}"}

    def announce(data: bytes) -> int:
        path = f"/api/v1/checkpoints/{sha256(data)}/uploads"
        return http.post(path, headers=headers, json={"size_bytes": len(data)}).status_code

    assert [announce(first), announce(first), announce(second)] == [200, 200, 429]
    assert http.put(f"/api/v1/checkpoints/{sha256(second)}", headers=headers, content=second).status_code == 429
    for data in (first, second, third):
        ann.upload(data, sha256(data))
