"""Checkpoint bytes: taken in whole and verified, or not at all."""

import io
import json
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from league_scene import safetensors, sha256

from league.client import LeagueClient
from league.errors import (
    HashMismatchError,
    RefusedCheckpointError,
    StoreUnavailableError,
    TooLargeError,
    UnknownCheckpointError,
)
from league.storage.directory import DirectoryStore
from league.storage.safetensors_header import read_metadata


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def stored(tmp_path: Path) -> Callable[[], list[str]]:
    """List every file of the store."""
    return lambda: [path.name for path in (tmp_path / "checkpoints").rglob("*") if path.is_file()]


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps([1]))
    return archive.getvalue()


def with_header(header: object, tail: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + tail


def tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_bytes_come_back_as_they_went_in(league: LeagueClient, stored: Callable[[], list[str]]) -> None:
    data = safetensors(3, signature="rps-1")
    league.upload(data, sha256(data))
    assert league.download(sha256(data)) == data
    assert stored() == [sha256(data)]


def test_a_file_is_uploaded_from_its_path(league: LeagueClient, tmp_path: Path) -> None:
    data = safetensors(4)
    (tmp_path / "policy.safetensors").write_bytes(data)
    league.upload(tmp_path / "policy.safetensors", sha256(data))
    assert league.download(sha256(data)) == data


def test_the_same_upload_again_is_fine(http: TestClient, stored: Callable[[], list[str]]) -> None:
    data = safetensors(3)
    for _ in range(2):
        assert http.put(f"/api/v1/checkpoints/{sha256(data)}", content=data).status_code == 201
    assert stored() == [sha256(data)]


def test_an_upload_in_pieces_is_one_checkpoint(http: TestClient) -> None:
    data = safetensors(3)

    def pieces() -> Iterator[bytes]:
        yield from (data[place : place + 7] for place in range(0, len(data), 7))

    assert http.put(f"/api/v1/checkpoints/{sha256(data)}", content=pieces()).status_code == 201


def test_bytes_under_another_hash_are_refused_naming_both(
    league: LeagueClient, stored: Callable[[], list[str]]
) -> None:
    data, wrong = safetensors(3), "0" * 64
    with pytest.raises(HashMismatchError, match=wrong) as refused:
        league.upload(data, wrong)
    assert sha256(data) in str(refused.value)
    assert stored() == []


@pytest.mark.parametrize(
    ("data", "named"),
    [
        *((pickle.dumps({"weight": [1, 2]}, protocol=protocol), "a pickle") for protocol in range(2, 6)),
        (zipped(), "a zip archive such as torch.save writes"),
        (b"", "not a well-formed safetensors file"),
        (b"weights of a kind", "not a well-formed safetensors file"),
        (safetensors(1)[:-1], "end"),
        (safetensors(1) + b"x", "end"),
        (with_header(b"{", b""), "does not fit"),
        (with_header(b"[]"), "not an object"),
        (with_header(b"{1:2}"), "not a well-formed"),
        (with_header(b"\xff\xfe"), "not a well-formed"),
        (with_header({"a": tensor(0, 4, [2])}, b"\0" * 4), "another size"),
        (with_header({"a": tensor(4, 8, [1])}, b"\0" * 8), "leaves a gap"),
        (with_header({"a": tensor(0, 4, [1]), "b": tensor(0, 4, [1])}, b"\0" * 4), "overlaps"),
        (with_header({"a": tensor(0, 4, [-1, -1])}, b"\0" * 4), "shape"),
        (with_header({"a": tensor(0, 4, [1], "F33")}, b"\0" * 4), "unknown type 'F33'"),
        (with_header({"__metadata__": {"a": 1}}), "metadata"),
        (with_header(b'{"a": 1, "a": 2}'), "twice"),
        (with_header({"a": {"dtype": "F32"}}), "not a well-formed"),
    ],
)
def test_anything_but_safetensors_is_refused_by_name_and_leaves_no_file(
    league: LeagueClient, stored: Callable[[], list[str]], data: bytes, named: str
) -> None:
    with pytest.raises(RefusedCheckpointError, match=named) as refused:
        league.upload(data, sha256(data))
    assert "\n" not in str(refused.value)
    assert "safetensors" in refused.value.way_out
    assert stored() == []


@settings(deadline=None)
@given(data=st.binary(max_size=64) | st.builds(with_header, st.binary(max_size=48), st.binary(max_size=16)))
def test_any_bytes_are_refused_cleanly_or_are_safetensors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any-bytes"
    path.write_bytes(data)
    try:
        metadata = read_metadata(path, "bytes")
    except RefusedCheckpointError:
        return
    assert isinstance(metadata, dict)


@pytest.mark.parametrize("pieces", [False, True])
def test_a_checkpoint_above_the_limit_is_refused_and_leaves_no_file(
    serve: Callable[..., TestClient], stored: Callable[[], list[str]], pieces: bool
) -> None:
    http = serve(checkpoint_max_bytes=64)
    data = safetensors(1)
    content = iter([data[:50], data[50:]]) if pieces else data
    answer = http.put(f"/api/v1/checkpoints/{sha256(data)}", content=content)
    assert (answer.status_code, answer.json()["type"]) == (413, TooLargeError.type)
    assert stored() == []


def test_an_upload_cut_off_leaves_no_file(
    league: LeagueClient, tmp_path: Path, stored: Callable[[], list[str]]
) -> None:
    store = DirectoryStore(tmp_path / "checkpoints", max_bytes=10**6)

    def cut_off() -> None:
        with store.receive("0" * 64) as upload:
            upload.write(b"half")
            raise ConnectionResetError("gone")

    with pytest.raises((ConnectionResetError, StoreUnavailableError)):
        cut_off()
    assert stored() == []


def test_a_range_is_served_with_a_lasting_name(league: LeagueClient, http: TestClient) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    part = http.get(f"/api/v1/checkpoints/{name}", headers={"Range": "bytes=8-11"})
    assert (part.status_code, part.content) == (206, data[8:12])
    assert part.headers["content-range"] == f"bytes 8-11/{len(data)}"
    whole = http.get(f"/api/v1/checkpoints/{name}")
    assert whole.headers["etag"] == f'"{name}"'
    assert "immutable" in whole.headers["cache-control"]
    again = http.get(f"/api/v1/checkpoints/{name}", headers={"If-None-Match": f'"{name}"'})
    assert (again.status_code, again.content) == (304, b"")
    head = http.head(f"/api/v1/checkpoints/{name}")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", str(len(data)))


def test_an_unknown_checkpoint_is_named(league: LeagueClient, http: TestClient) -> None:
    with pytest.raises(UnknownCheckpointError, match="0" * 64):
        league.download("0" * 64)
    assert http.head(f"/api/v1/checkpoints/{'0' * 64}").status_code == 404
    assert http.get("/api/v1/checkpoints/ABC").status_code == 422


def test_bytes_that_rot_in_the_store_are_noticed_by_the_client(league: LeagueClient, tmp_path: Path) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    (tmp_path / "checkpoints" / name[:2] / name).write_bytes(data[:-1] + b"\xff")
    with pytest.raises(HashMismatchError, match=name):
        league.download(name)


def test_a_store_that_cannot_be_written_says_so(league: LeagueClient, tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where a folder should be")
    data = safetensors(3)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        league.upload(data, sha256(data))


def test_the_written_file_is_durable_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync of the bytes, rename, fsync of the folder, in this order."""
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        calls.append("fsync")
        fsync(descriptor)

    def noted_replace(self: Path, target: Path) -> Path:
        calls.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    data = safetensors(3)
    with DirectoryStore(tmp_path, max_bytes=10**6).receive(sha256(data)) as upload:
        upload.write(data)
    assert calls[:3] == ["fsync", "rename", "fsync"]
