"""Where native code finds the threads of others, and how it is loaded."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

native = pytest.importorskip("arena.native.warp")
launching = pytest.importorskip("arena.native.warp")

MAPS = """\
55d0c8a00000-55d0c8a01000 r--p 00000000 08:01 1311 /usr/bin/python3.11
7f1200000000-7f1200021000 rw-p 00000000 00:00 0
7f1203000000-7f1203100000 r-xp 00001000 08:01 4242                       /home/jürgen/My Work/torch/lib/libgomp.so.1
7f1203100000-7f1203101000 rw-p 00101000 08:01 4242                       /home/jürgen/My Work/torch/lib/libgomp.so.1
7f1204000000-7f1204001000 r-xp 00000000 08:01 4243                       /torch/libgomp.so.1 (deleted)
7ffd6a000000-7ffd6a021000 rw-p 00000000 00:00 0                          [stack]
"""


def test_files_are_found_wherever_they_lie():
    assert native.mapped_files(MAPS.encode()) == [
        "/home/jürgen/My Work/torch/lib/libgomp.so.1",
        "/torch/libgomp.so.1 (deleted)",
        "/usr/bin/python3.11",
    ]


@pytest.fixture
def maps(monkeypatch, tmp_path):
    """What the process says of its memory."""
    file = tmp_path / "maps"
    monkeypatch.setattr(native, "Path", lambda path: file if path == "/proc/self/maps" else Path(path))
    native.openmp.cache_clear()
    yield file
    native.openmp.cache_clear()


def test_without_a_library_that_can_be_opened_there_are_no_threads(maps):
    assert native.openmp() is None
    native.openmp.cache_clear()
    maps.write_text(MAPS, encoding="utf-8")
    assert native.openmp() is None


def test_code_is_loaded_by_one_thread_at_a_time(monkeypatch):
    """Two that load the same code at once leave it in memory until the first is forgotten: the other then crashes."""
    alone = []

    def launch(*_, **__):
        alone.append(native._recording.locked())
        return SimpleNamespace(launch=lambda: None)

    monkeypatch.setattr(native.wp, "launch", launch)
    native.Launch("kernel", 1, 1)
    launching.record("kernel", 3, torch.device("cpu"))
    assert alone == [True, True]
    assert not native._recording.locked()
