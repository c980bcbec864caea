"""The contract of checkpoint stores, held against a folder and a bucket: taken in whole and verified, or not at all."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient
from kept_stores import MAX_BYTES, SOON, Kept, place
from league_scene import Scene, safetensors, sha256
from onnx import helper
from onnx_models import FLOAT, linear, model
from refused import refused

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import (
    UnknownCheckpointError,
)
from league.services.checkpoints import garbage_collection


def get(http: TestClient, name: str, **headers: str) -> httpx2.Response:
    """Fetch a checkpoint as any HTTP client does that follows redirects."""
    answer = http.get(f"/api/v1/checkpoints/{name}", headers=headers, follow_redirects=False)
    return httpx2.get(answer.headers["location"], headers=headers) if answer.has_redirect_location else answer


def test_checkpoint_round_trips_without_leftovers(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3, signature="rps-1")
    league.upload(data, sha256(data))
    assert league.download(sha256(data)) == data
    assert kept.names() == [place(sha256(data))]
    assert kept.store.header(sha256(data)).metadata == {"signature": "rps-1"}


def test_a_file_is_uploaded_from_its_path(league: LeagueClient, tmp_path: Path) -> None:
    data = safetensors(4)
    (tmp_path / "policy.safetensors").write_bytes(data)
    league.upload(tmp_path / "policy.safetensors", sha256(data))
    assert league.download(sha256(data)) == data


def test_existing_checkpoint_is_not_uploaded_again(league: LeagueClient, http: TestClient, kept: Kept) -> None:
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
    with refused("hash-mismatch", wrong) as refusal:
        league.upload(data, wrong)
    assert sha256(data) in str(refusal.value)
    assert kept.names() == []


@pytest.mark.parametrize("data", [b"", b"weights of a kind", b"\x80\x04]q\x00.", safetensors(1)[:-1]])
def test_store_rejects_a_file_that_is_not_safetensors(league: LeagueClient, kept: Kept, data: bytes) -> None:
    with refused("refused-checkpoint", sha256(data)) as refusal:
        league.upload(data, sha256(data))
    assert "\n" not in str(refusal.value)
    assert kept.names() == []


def test_onnx_model_round_trips_and_one_with_a_custom_operator_is_refused(league: LeagueClient, kept: Kept) -> None:
    data = linear(6, "answer", 5, signature="recall-1")
    league.upload(data, sha256(data))
    assert league.download(sha256(data)) == data
    assert kept.store.header(sha256(data)).metadata == {"signature": "recall-1"}
    node = helper.make_node("Attend", ["observation"], ["answer_logits"], domain="com.lab")
    wrong = model([node], [("observation", FLOAT, ["B", 5])], [("answer_logits", FLOAT, ["B", 5])]).SerializeToString()
    with refused("refused-checkpoint", sha256(wrong), "'Attend'"):
        league.upload(wrong, sha256(wrong))
    assert kept.names() == [place(sha256(data))]


def test_a_checkpoint_above_the_limit_is_refused_before_it_is_sent(
    league: LeagueClient, kept: Kept, tmp_path: Path
) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with refused("too-large", MAX_BYTES):
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
    with refused("unknown-checkpoint", name):
        league.download(name)
    path = f"/api/v1/checkpoints/{name}"
    assert http.head(path).status_code == 404
    assert http.get(path, headers={"If-None-Match": "*"}).status_code == 404
    assert http.post(f"{path}/complete").json()["type"] == UnknownCheckpointError.type
    with refused("unknown-checkpoint", name):
        kept.store.header(name)
    assert kept.store.remove(name, datetime.now(UTC) + SOON)


def test_damaged_checkpoint_is_quarantined_and_restored_by_a_new_upload(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    assert kept.store.sound(name)
    assert kept.store.is_intact(name)
    kept.overwrite(place(name), data[:-1] + b"\xff")
    assert not kept.store.is_intact(name)
    assert not kept.store.is_intact(name)  # it is only looked at
    assert not kept.store.has_damaged_copy(name)
    assert not kept.store.sound(name)
    assert kept.store.has_damaged_copy(name)
    with refused("unknown-checkpoint", name):
        league.download(name)
    assert [left.size_bytes for left in kept.store.leftovers(datetime.now(UTC) + SOON)] == [len(data)]
    league.upload(data, name)
    assert league.download(name) == data


def test_whole_checkpoints_are_copied_from_store_to_store(league: LeagueClient, kept: Kept) -> None:
    data = safetensors(3)
    for _ in range(2):
        kept.store.put(sha256(data), io.BytesIO(data))
    with kept.store.open(sha256(data)) as stream:
        assert stream.read(10) + stream.read() == data
    assert league.download(sha256(data)) == data
    with refused("hash-mismatch", sha256(data)):
        kept.store.put("0" * 64, io.BytesIO(data))
    assert kept.names() == [place(sha256(data))]
    with refused("unknown-checkpoint", "0" * 64), kept.store.open("0" * 64):
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


def test_sweep_removes_only_old_leftovers(league: LeagueClient, kept: Kept) -> None:
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
        assert kept.store.touch(name, datetime.now(UTC))
    assert not kept.store.touch("0" * 64, datetime.now(UTC))
    assert league.download(name) == data


def test_garbage_collection_removes_orphans_and_upload_leftovers(
    league: LeagueClient, kept: Kept, database: Database
) -> None:
    published = Scene(league).publish(1)
    data, later = safetensors(9), datetime.now(UTC) + SOON
    league.upload(data, sha256(data))
    found = garbage_collection.survey(database, kept.store, later)
    assert [stored.sha256 for stored in found.needed] == [published.checkpoint]
    assert (
        list(garbage_collection.collect(database, kept.store, found, later, actor="me", now=later)) == found.deletable
    )
    assert kept.names() == [place(str(published.checkpoint))]
    assert list(garbage_collection.damaged(kept.store, found, move_aside=True)) == []
