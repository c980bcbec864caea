"""Durable spool of match results: a write-ahead log on disk with at-least-once delivery to the league.

Results are lines of JSON in numbered files, appended and synced in batches. If the disk is full, they wait in memory
and are sent only after they were written. `delivered.json` holds the position up to which the league has answered; it
is replaced after each answer and not synced. After a crash some results are sent again, and the league recognises them
by lease and sequence, so that each counts exactly once. A file is removed when its results are delivered and a restart
no longer needs their sequences. Results that the league rejects for good are moved to `refused.jsonl`.
"""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from arena.atomic_files import write_atomically
from arena.durable_log import LineFile
from league.errors import LeagueError
from league.wire import Result, ResultBatchAnswer

FILE_BYTES = 2**20
"""`rotate` begins a new file when the current one is at least this long."""

MAX_SHARE_OF_FREE_SPACE = 1 / 8
"""`rotate` begins a new file sooner, if the current one takes more than this share of the free disk space."""

BATCH_SIZE = 2000
"""Most results in one call. They share one commit of the league, which takes about 60 ms."""

RESULTS = TypeAdapter(list[Result])
"""Parses many results at once, which is much faster than one at a time."""

Report = Callable[[list[Result]], ResultBatchAnswer | None]
"""Sends a batch; None while the league is unreachable. Raises `LeagueError` if the league rejects the whole batch."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Position:
    """Byte position in the spool: file number and offset."""

    file: int
    offset: int


class ResultSpool:
    """Spool of the results of one run. One process at a time may use its folder.

    Attributes:
        folder: Folder of the spool.
        outcomes: Number of results by the league's answer: accepted, duplicate, conflict, rejected or refused (batch).
    """

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self.folder, self._file_bytes = folder, file_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._delivered = self._read_delivered()
        self._number = max([self._delivered.file, *self._file_numbers()])
        self._file = LineFile(self._path(self._number))
        self._first_needed = min(self._file_numbers())
        self.outcomes: Counter[str] = Counter()

    def append(self, result: Result) -> None:
        """Add a result. It survives a crash after the next `sync`."""
        self._file.add(_line(result))

    def sync(self) -> None:
        """Write and fsync the appended results.

        Raises:
            OSError: The disk failed or is full. Nothing is lost, and the next call tries again.
        """
        self._file.write(durably=True)

    def rotate(self) -> None:
        """Begin a new file if the current one is long enough; call it after the run's state was saved.

        The saved state counts all synced results, so a restart no longer needs their sequences and the older files may
        be removed once they are delivered.

        Raises:
            OSError: The disk failed or is full. Nothing is lost, and the next call tries again.
        """
        if self._file.end >= min(self._file_bytes, MAX_SHARE_OF_FREE_SPACE * shutil.disk_usage(self.folder).free):
            following = LineFile(self._path(self._number + 1))
            self._file.close()
            self._number, self._file = self._number + 1, following
            self._first_needed = self._number

    def close(self) -> None:
        """Sync and close.

        Raises:
            OSError: The disk failed or is full. Results that were appended since the last `sync` are lost.
        """
        try:
            self.sync()
        finally:
            self._file.close()

    @property
    def _synced(self) -> Position:
        return Position(self._number, self._file.end)

    def undelivered_bytes(self) -> int:
        """Return the number of bytes that are synced and not delivered."""
        ahead = sum(self._path(number).stat().st_size for number in range(self._delivered.file, self._synced.file))
        return ahead + self._synced.offset - self._delivered.offset

    def count_waiting(self) -> int:
        """Count the results that are synced and not delivered. This reads them all."""
        files = [self._path(number).read_bytes() for number in range(self._delivered.file, self._number + 1)]
        return b"".join(files)[self._delivered.offset :].count(b"\n")

    def highest_sequences(self) -> dict[str, int]:
        """Return the highest sequence of each lease, over all files that were not removed."""
        highest: dict[str, int] = {}
        for number in self._file_numbers():
            for line in self._path(number).read_bytes().splitlines():
                if (item := _parse(line)) is not None:
                    highest[item.lease_id] = max(item.sequence, highest.get(item.lease_id, -1))
        return highest

    def deliver(self, report: Report) -> None:
        """Send the synced results in order, until all are delivered or the league is unreachable.

        If the league rejects a whole batch, the batch is split in half, recursively, until only the offending results
        are set aside.

        Raises:
            OSError: The position or a refused result could not be written. The next call sends those results again.
        """
        while self._delivered < self._synced:
            results, end = self._read_batch()
            refused: list[Result] = []
            if results and not self._send(results, report, refused):
                return
            # In this order: rejected results are durable before the position moves past them, so a crash only resends.
            self._write_refused(refused)
            self._delivered = end
            self._remove_delivered()
            self._write_delivered()

    def _send(self, results: list[Result], report: Report, refused: list[Result]) -> bool:
        """Send results, and add those that the league rejects for good to `refused`; false while it is unreachable."""
        try:
            answer = report(results)
        except LeagueError as error:
            if len(results) > 1:
                middle = len(results) // 2
                # `all` stops at the first half without an answer, so results are delivered in order.
                return all(self._send(half, report, refused) for half in (results[:middle], results[middle:]))
            refused += results
            self._log_refusal(results[0], "refused", str(error))
            self.outcomes["refused"] += 1
            return True
        if answer is None:
            return False
        self.outcomes.update(item.status for item in answer.items)
        for result, item in zip(results, answer.items, strict=True):
            if item.status == "rejected":
                refused.append(result)
            if item.status in ("rejected", "conflict"):
                self._log_refusal(result, item.status, item.detail)
        return True

    def _log_refusal(self, result: Result, status: str, reason: str | None) -> None:
        logger.warning("result %s/%d %s: %s", result.lease_id, result.sequence, status, reason)

    def _write_refused(self, refused: list[Result]) -> None:
        if not refused:
            return
        path = self.folder / "refused.jsonl"
        aside = LineFile(path)
        try:
            known = set(path.read_bytes().splitlines())  # a crash before the position was written repeats a batch
            for line in map(_line, refused):
                if line not in known:
                    aside.add(line)
            aside.write(durably=True)
        finally:
            aside.close()
        logger.warning("the league rejected %d results, which are now in %s", len(refused), path)

    def _read_batch(self) -> tuple[list[Result], Position]:
        file, offset = self._delivered.file, self._delivered.offset
        with self._path(file).open("rb") as stream:
            stream.seek(offset)
            lines = list(islice(stream, BATCH_SIZE))
        if not lines:
            return [], Position(file + 1, 0)
        end = Position(file, offset + sum(map(len, lines)))
        while end > self._synced:  # a failed write may have left lines behind
            end = Position(file, end.offset - len(lines.pop()))
        return _parse_all(lines), end

    def _read_delivered(self) -> Position:
        """Return the saved position, or the first file if there is none or it is damaged, since resending is safe."""
        start = Position(min(self._file_numbers(), default=1), 0)
        path = self.folder / "delivered.json"
        try:
            return max(start, Position(**json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return start
        except (ValueError, TypeError) as error:
            logger.warning("%s is damaged (%s): sending all results in the spool again", path, error)
            return start

    def _write_delivered(self) -> None:
        write_atomically(self.folder / "delivered.json", json.dumps(asdict(self._delivered)).encode(), durably=False)

    def _remove_delivered(self) -> None:
        """Remove delivered files. This comes before the position is written, to free space on a full disk.

        A missing file counts as delivered, so the order is safe.
        """
        for number in self._file_numbers():
            if number < min(self._delivered.file, self._first_needed):
                self._path(number).unlink()

    def _file_numbers(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("results-")) for path in self.folder.glob("results-*.jsonl"))

    def _path(self, number: int) -> Path:
        return self.folder / f"results-{number:08d}.jsonl"


def _line(result: Result) -> bytes:
    """Encode a result as JSON without its unset fields, so that a resent result equals the first one."""
    return result.model_dump_json(exclude_unset=True).encode()


def _parse_all(lines: Sequence[bytes]) -> list[Result]:
    """Parse lines; damaged ones are logged and left out."""
    try:
        return RESULTS.validate_json(b"[" + b",".join(lines) + b"]")
    except ValidationError:
        return [result for line in lines if (result := _parse(line)) is not None]


def _parse(line: bytes) -> Result | None:
    """Parse a line; None and a warning if it is damaged."""
    try:
        return Result.model_validate_json(line)
    except ValidationError:
        logger.warning("skipped spool line %.80r: not a result", line)
        return None
