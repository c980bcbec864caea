"""Files that are written whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from arena.atomic_files import remove_leftovers, write_atomically


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_atomic_file_follows_the_umask(tmp_path: Path, mask: int, mode: int):
    before = os.umask(mask)
    try:
        write_atomically(tmp_path / "new" / "file", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == mode


def test_failed_atomic_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.holds("H1")
def test_atomic_write_syncs_the_file_and_then_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def watched_fsync(descriptor: int) -> None:
        synced, folder = os.fstat(descriptor), tmp_path.stat()
        done.append("sync the folder" if os.path.samestat(synced, folder) else f"sync {synced.st_size} bytes")
        fsync(descriptor)

    def watched_replace(aside: Path, path: Path) -> None:
        done.append(f"rename in {aside.parent}")
        replace(aside, path)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(Path, "replace", watched_replace)
    write_atomically(tmp_path / "file", b"content")
    assert done == ["sync 7 bytes", f"rename in {tmp_path}", "sync the folder"]
    done.clear()
    write_atomically(tmp_path / "file", b"other", durably=False)
    assert done == [f"rename in {tmp_path}"]
    assert (tmp_path / "file").read_bytes() == b"other"


def test_sweep_removes_temporary_files_of_crashed_writes_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "replace", lambda self, target: None)  # as if the process ended before it
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    for folder in (tmp_path, tmp_path / "inner"):
        write_atomically(folder / "state", b"half")
    (tmp_path / ".hidden").write_bytes(b"a person's own")
    (tmp_path / "state").write_bytes(b"whole")
    assert len(list(tmp_path.iterdir())) == 4
    remove_leftovers(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"inner", "state", ".hidden"}
    assert len(list((tmp_path / "inner").iterdir())) == 1, "other folders are left alone"
