"""A server killed in the middle of an upload leaves no checkpoint, and later nothing at all."""

import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from league_scene import sha256
from served import serving

from league.client import LeagueClient

pytestmark = pytest.mark.integration

PIECE = 2**18


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def policy(size: int) -> bytes:
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


def parts(folder: Path) -> list[Path]:
    return list(folder.rglob("*.part"))


def test_a_server_killed_in_an_upload_leaves_no_checkpoint(folder: Path, tmp_path: Path) -> None:
    data = policy(8 * PIECE)
    name, gone = sha256(data), threading.Event()

    def pieces() -> Iterator[bytes]:
        for place in range(0, len(data), PIECE):
            yield data[place : place + PIECE]
            if place >= 4 * PIECE:
                gone.wait()

    def send() -> None:
        with pytest.raises(httpx2.TransportError):
            httpx2.put(f"{server.url}/api/v1/checkpoints/{name}", content=pieces())

    with serving(tmp_path) as server:
        sender = threading.Thread(target=send)
        sender.start()
        while not any(part.stat().st_size >= PIECE for part in parts(folder)):
            time.sleep(0.01)
        server.process.kill()
        server.process.wait()
        gone.set()
        sender.join()
    (left,) = parts(folder)
    assert not (folder / name[:2] / name).exists()

    with serving(tmp_path) as server, LeagueClient(server.url) as client:
        client.upload(data, name)
        assert client.download(name) == data
    assert parts(folder) == [left]  # it might be another server's, on its way

    two_hours_ago = time.time() - 7200
    os.utime(left, (two_hours_ago, two_hours_ago))
    with serving(tmp_path) as server, LeagueClient(server.url) as client:
        assert parts(folder) == []
        assert client.download(name) == data
