"""Files that grow: what is added is in them whole or not at all, also on a disk that is full."""

import os
from pathlib import Path

from arena.durable import sync_folder

LOOK_BACK_BYTES = 2**16
"""How much of a file's end is read at a time in search of the last whole line."""


class GrowingFile:
    """Bytes appended to a file. What the disk refuses stays in memory until it is written.

    Attributes:
        end: Bytes that are written.
    """

    def __init__(self, path: Path) -> None:
        created = not path.exists()
        self._file = path.open("a+b", buffering=0)
        self._waiting: list[bytes] = []
        if created:
            sync_folder(path.parent)
        self.end = self._file.seek(0, os.SEEK_END)

    def add(self, record: bytes) -> None:
        """Take in a record; it is written with the next `write`."""
        self._waiting.append(record)

    def write(self, *, durably: bool) -> None:
        """Write what waits, and bring it to the disk if it must outlive a crash of the machine.

        Raises:
            OSError: The disk refuses. Everything waits for the next call, and the file is as before.
        """
        data = memoryview(b"".join(self._waiting))
        if not data:
            return
        try:
            self._write_all(data)
            if durably:
                os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(self.end)
            raise
        self.end += len(data)
        self._waiting.clear()

    def close(self) -> None:
        """Close the file; what still waits is lost."""
        self._file.close()

    def _write_all(self, data: memoryview) -> None:
        while data:
            data = data[self._file.write(data) :]


class LineFile(GrowingFile):
    """Lines; one that a crash has cut short is removed when the file is opened again."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.end = self._end_of_last_line()
        self._file.truncate(self.end)

    def add(self, record: bytes) -> None:
        """Take in a line, without its end."""
        super().add(record + b"\n")

    def _end_of_last_line(self) -> int:
        end = self.end
        while end > 0:
            start = max(0, end - LOOK_BACK_BYTES)
            self._file.seek(start)
            found = self._file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0
