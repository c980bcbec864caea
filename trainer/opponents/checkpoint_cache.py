"""Disk cache of opponents' checkpoints: named by SHA-256, bounded by bytes, least recently used evicted first."""

import hashlib
from contextlib import suppress
from pathlib import Path

from arena.atomic_files import write_atomically

SUFFIX = ".safetensors"


class CheckpointCache:
    """Least-recently-used cache of checkpoint files in one folder.

    Args:
        folder: Where the files lie; created if missing.
        limit_bytes: Total size of the files. The newest file always stays, even if it is larger than that.
    """

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder, self._limit_bytes = folder, limit_bytes
        folder.mkdir(parents=True, exist_ok=True)

    def hashes(self) -> list[str]:
        """SHA-256 of every cached checkpoint, least recently used first."""
        return [file.name.removesuffix(SUFFIX) for file in self._files()]

    def get(self, sha256: str) -> bytes | None:
        """Return a checkpoint's bytes, or None on a miss.

        A file that cannot be read is a miss. So is a file that does not match its hash, which is deleted.
        """
        file = self._path(sha256)
        try:
            data = file.read_bytes()
        except OSError:
            return None
        with suppress(OSError):  # the order of eviction matters less than the match that waits for these bytes
            file.touch()
        if hashlib.sha256(data).hexdigest() != sha256:
            self.drop(sha256)
            return None
        return data

    def put(self, sha256: str, data: bytes) -> None:
        """Store a checkpoint, then evict others until all fit."""
        write_atomically(self._path(sha256), data)
        files = self._files()
        total = sum(file.stat().st_size for file in files)
        while total > self._limit_bytes and len(files) > 1:
            total -= files[0].stat().st_size
            files.pop(0).unlink()

    def drop(self, sha256: str) -> None:
        """Delete a checkpoint; errors of the file system are ignored."""
        with suppress(OSError):
            self._path(sha256).unlink()

    def _path(self, sha256: str) -> Path:
        return self._folder / f"{sha256}{SUFFIX}"

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
