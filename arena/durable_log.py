"""Append-only files whose records are written whole or not at all, even on a full disk."""

import os
from pathlib import Path

from arena.atomic_files import sync_folder

BLOCK_BYTES = 2**16
"""Bytes read at a time, from the end of the file, to find the last complete line."""


class AppendFile:
    """An append-only file of bytes; records wait in memory until the disk accepts them.

    Attributes:
        end: Size of the file in bytes, without the records that wait.
    """

    def __init__(self, path: Path) -> None:
        created = not path.exists()
        self._file = path.open("a+b", buffering=0)
        self._waiting: list[bytes] = []
        if created:
            sync_folder(path.parent)
        self.end = self._file.seek(0, os.SEEK_END)

    def add(self, record: bytes) -> None:
        """Queue a record for the next `write`."""
        self._waiting.append(record)

    def write(self, *, durably: bool) -> None:
        """Write all queued records, with fsync if they must survive a crash of the machine.

        Raises:
            OSError: The write failed. The file is as before, and all records stay queued.
        """
        data = memoryview(b"".join(self._waiting))
        if not data:
            return
        try:
            self._write_all(data)
            if durably:
                os.fsync(self._file.fileno())
        except OSError:
            # Part of the data may be on the disk. Without this, the retry would append it a second time.
            self._file.truncate(self.end)
            raise
        # Only now: a failed write or sync leaves every record in the queue.
        self.end += len(data)
        self._waiting.clear()

    def close(self) -> None:
        """Close the file; queued records are lost."""
        self._file.close()

    def _write_all(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]


class LineFile(AppendFile):
    """An append-only file of lines; opening it removes a last line that a crash left incomplete."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.end = self._end_of_last_line()
        self._file.truncate(self.end)

    def add(self, record: bytes) -> None:
        """Queue a line, given without its line break."""
        super().add(record + b"\n")

    def _end_of_last_line(self) -> int:
        end = self.end
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0
