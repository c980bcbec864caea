"""What counts as a checkpoint, how a folder takes it in, and how a client fetches it; stores/ has the rest."""

import io
import json
import os
import pickle
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from league_scene import safetensors, sha256
from refused import assert_names, refused
from safetensors import SafetensorError, deserialize

from league.client import LeagueClient
from league.errors import (
    BusyError,
    RefusedCheckpointError,
    StoreUnavailableError,
    TooLargeError,
    UnsatisfiableRangeError,
)
from league.storage.checkpoint_header import read_header
from league.storage.local import DirectoryStore


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


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


@pytest.mark.parametrize(
    ("data", "values"),
    [
        *((pickle.dumps({"weight": [1, 2]}, protocol=protocol), ("pickle",)) for protocol in range(2, 6)),
        (zipped(), ("torch.save",)),
        (b"", ()),
        (b"weights of a kind", ()),
        (safetensors(1)[:-1], ()),
        (safetensors(1) + b"x", ()),
        (with_header(b"{", b""), ()),
        (with_header(b"[]"), ()),
        (with_header(b"{1:2}"), ()),
        (with_header(b"\xff\xfe"), ()),
        (with_header({"a": tensor(0, 4, [2])}, b"\0" * 4), ("a",)),
        (with_header({"a": tensor(4, 8, [1])}, b"\0" * 8), ("a",)),
        (with_header({"a": tensor(0, 4, [1]), "b": tensor(0, 4, [1])}, b"\0" * 4), ("b",)),
        (with_header({"a": tensor(0, 4, [-1, -1])}, b"\0" * 4), ("a",)),
        (with_header({"a": tensor(0, 4, [2**40] * 65)}, b"\0" * 4), ("a",)),
        (struct.pack("<Q", 2**24) + bytes(2**24), ()),
        (with_header({"a": tensor(0, 4, [1], "F33")}, b"\0" * 4), ("F33",)),
        (with_header({"__metadata__": {"a": 1}}), ()),
        (with_header(b'{"a": 1, "a": 2}'), ("a",)),
        (with_header({"a": {"dtype": "F32"}}), ()),
    ],
)
def test_anything_but_safetensors_is_refused_by_name_and_leaves_no_file(
    league: LeagueClient, stored: Callable[[], list[str]], data: bytes, values: tuple[object, ...]
) -> None:
    with refused("refused-checkpoint", *values) as refusal:
        league.upload(data, sha256(data))
    assert "\n" not in str(refusal.value)
    assert "safetensors" in refusal.value.remedy
    assert stored() == []


WHOLE = '{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("[0, 8]", "[0.0, 8.0]", ("0.0", "8.0")),
        ("[0, 8]", "[false, 8]", (False, 8)),
        ("[0, 8]", "[0, 8e0]", (0, "8.0")),
        ("[2]", "[4294967296, 4294967296, 0]", (64,)),
        ('"a"', r'"\ud800"', ()),
        ('{"a"', r'{"__metadata__": {"signature": "\ud800"}, "a"', ()),
        ('"F32",', '"F32", "scale": NaN,', ("NaN",)),
    ],
)
def test_file_that_safetensors_cannot_read_is_rejected(old: str, new: str, values: tuple[object, ...]) -> None:
    """A player whose weights nobody can load would be drawn as an opponent."""
    data = with_header(WHOLE.replace(old, new).encode(), bytes(8))

    with pytest.raises(SafetensorError):
        deserialize(data)
    with refused("refused-checkpoint", *values):
        read_header(io.BytesIO(data), len(data), "bytes")


@settings(deadline=None)
@given(data=st.binary(max_size=64) | st.builds(with_header, st.binary(max_size=48), st.binary(max_size=16)))
def test_any_bytes_are_refused_cleanly_or_are_safetensors(data: bytes) -> None:
    try:
        metadata = read_header(io.BytesIO(data), len(data), "bytes").metadata
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
    assert_names(answer.json()["detail"], 64, "LEAGUE_CHECKPOINT_MAX_BYTES")
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


def test_bytes_that_rot_are_not_served_once_an_hour_has_passed(
    league: LeagueClient, http: TestClient, time: Any, folder: Path
) -> None:
    data = safetensors(3)
    name = sha256(data)
    league.upload(data, name)
    assert league.download(name) == data
    file = folder / name[:2] / name
    before = file.stat()
    with file.open("r+b") as stream:
        stream.write(b"\xff")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # a disk that rots changes no time
    with refused("hash-mismatch", name):  # the client looks for itself
        league.download(name)
    time.advance(3601)
    with refused("unknown-checkpoint"):
        league.download(name)
    league.upload(data, name)
    assert league.download(name) == data


def test_parts_of_uploads_that_died_with_their_server_are_swept_at_start(
    serve: Callable[..., TestClient], folder: Path
) -> None:
    (folder / "ab").mkdir(parents=True)
    old, young, checkpoint = (folder / "ab" / name for name in (".old.part", ".young.part", "ab" + "0" * 62))
    for file in (old, young, checkpoint):
        file.write_bytes(b"1234")
    hours_ago = datetime.now(UTC).timestamp() - 7200
    for file in (old, checkpoint):
        os.utime(file, (hours_ago, hours_ago))
    serve()
    assert [file.exists() for file in (old, young, checkpoint)] == [False, True, True]


def test_unwritable_store_is_reported(league: LeagueClient, folder: Path) -> None:
    folder.rmdir()
    folder.write_text("a file where a folder should be")
    data = safetensors(3)
    with refused("store-unavailable"):
        league.upload(data, sha256(data))


def test_a_server_whose_store_cannot_be_written_does_not_start(serve: Callable[..., TestClient], folder: Path) -> None:
    folder.write_text("a file where a folder should be")
    with refused("store-unavailable"):
        serve()


@pytest.fixture
def small_files() -> Iterator[None]:
    """Let this process write no file beyond a mebibyte, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.usefixtures("small_files")
def test_upload_to_a_full_disk_fails_without_leftovers(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "checkpoints", max_bytes=10**9)

    def send() -> None:
        with store.receive("0" * 64) as upload:
            for _ in range(4):
                upload.write(bytes(2**19))

    with refused("store-unavailable"):
        send()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_many_may_send_and_fetch_the_same_checkpoint_at_once(
    league: LeagueClient, stored: Callable[[], list[str]]
) -> None:
    data = safetensors(3)

    def exchange(_number: int) -> bytes:
        league.upload(data, sha256(data))
        return league.download(sha256(data))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(exchange, range(40))) == {data}
    assert stored() == [sha256(data)]


def test_a_file_made_young_while_it_is_removed_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload that ends between the look at a file's age and its removal."""
    store, data = DirectoryStore(tmp_path, max_bytes=10**6), safetensors(3)
    name = sha256(data)

    def receive() -> None:
        with store.receive(name) as upload:
            upload.write(data)

    receive()
    cutoff = datetime.now(UTC) + timedelta(seconds=1)
    replace, calls = Path.replace, []

    def racing(self: Path, target: Path) -> Path:
        if not calls:
            calls.append(target)
            os.utime(self, (cutoff.timestamp() + 1,) * 2)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", racing)
    assert not store.remove(name, cutoff)
    assert store.find(name).size_bytes == len(data)


class Breaking(httpx2.SyncByteStream):
    """A body whose connection breaks after some bytes."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content
        raise httpx2.ReadError("connection reset")


def breaking_server(data: bytes, pieces: list[int], asked: list[str | None]) -> httpx2.Client:
    """A server that breaks off after each of these numbers of bytes, and then never."""
    left = list(pieces)

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers.get("range"))
        start = int(asked[-1].removeprefix("bytes=").removesuffix("-")) if asked[-1] else 0
        status = 206 if asked[-1] else 200
        if left:
            return httpx2.Response(status, stream=Breaking(data[start : start + left.pop(0)]))
        return httpx2.Response(status, content=data[start:])

    return httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league")


def test_interrupted_download_resumes() -> None:
    data, asked = safetensors(3), []
    client = LeagueClient(http=breaking_server(data, [10, 20], asked))
    assert client.download(sha256(data)) == data
    assert asked == [None, "bytes=10-", "bytes=30-"]


def test_a_download_that_gets_nowhere_ends() -> None:
    data, asked = safetensors(3), []
    client = LeagueClient(http=breaking_server(data, [10, 0], asked))
    with refused("league-unreachable", "connection reset"):
        client.download(sha256(data))
    assert asked == [None, "bytes=10-"]


def test_a_download_waits_for_a_busy_server() -> None:
    data, answers = safetensors(3), []

    def answer(_request: httpx2.Request) -> httpx2.Response:
        if not answers:
            answers.append(503)
            problem = BusyError("GET", "too many calls at once", "come back").problem()
            return httpx2.Response(503, json=problem, headers={"Retry-After": "0"})
        return httpx2.Response(200, content=data)

    http = httpx2.Client(transport=httpx2.MockTransport(answer), base_url="http://league")
    assert LeagueClient(http=http).download(sha256(data)) == data


@pytest.mark.parametrize("asked", ["bytes=999999-", "bytes=5-2", "bytes=-0", f"bytes={2**64}-", "x" * 500])
def test_a_range_that_is_none_is_refused_with_a_problem(league: LeagueClient, http: TestClient, asked: str) -> None:
    data = safetensors(3)
    league.upload(data, sha256(data))
    answer = http.get(f"/api/v1/checkpoints/{sha256(data)}", headers={"Range": asked})
    assert (answer.status_code, answer.json()["type"]) == (416, UnsatisfiableRangeError.type)
    assert answer.headers["content-type"] == "application/problem+json"
    assert asked[:20] in answer.json()["value"]
    assert answer.headers["content-range"] == f"bytes */{len(data)}"


def test_a_range_of_another_unit_is_ignored(league: LeagueClient, http: TestClient) -> None:
    data = safetensors(3)
    league.upload(data, sha256(data))
    answer = http.get(f"/api/v1/checkpoints/{sha256(data)}", headers={"Range": "lines=1-2"})
    assert (answer.status_code, answer.content) == (200, data)
