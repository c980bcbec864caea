"""Results on their way to the league: written down first, delivered later, once at least and lost never.

Results are lines of JSON in numbered files, appended and synced in batches; what a full disk refuses waits in memory
and is not delivered before it is written. How far they were delivered is a position, replaced after the league has
answered; nobody waits for the disk to have it. A crash sends some results again, which the league answers as the first
time. Files are removed once their results are delivered and nobody needs to know their sequences any more. What the
league will never take is set aside in `refused.jsonl`.
"""

import json
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from arena.durable import write_atomically
from league.errors import LeagueError
from league.wire import Result, ResultBatchAnswer
from trainer.lines import LineFile

FILE_BYTES = 2**20
"""A settled file that has grown beyond this is followed by the next."""

SHARE_OF_FREE = 1 / 8
"""It is followed sooner where it is more than this share of what the disk has left."""

BATCH = 2000
"""Most results of one call: a commit of the league's is shared by as many, and takes some 60 ms."""

RESULTS = TypeAdapter(list[Result])
"""Reads many results at once, which is far quicker than one by one."""

Report = Callable[[list[Result]], ResultBatchAnswer | None]
"""Sends a batch; None while the league is away. Raises `LeagueError` where it refuses the batch."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, order=True)
class Position:
    """A byte of the spool: number of the file, offset in it."""

    file: int
    offset: int


class Spool:
    """The results of one run, in a folder of their own. One process at a time uses it.

    Attributes:
        folder: Where they are.
        outcomes: How many results were accepted, duplicates, conflicts, rejected, or refused with their whole batch.
    """

    def __init__(self, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self.folder, self._file_bytes = folder, file_bytes
        folder.mkdir(parents=True, exist_ok=True)
        self._delivered = self._read_delivered()
        self._number = max([self._delivered.file, *self._numbers()])
        self._open = LineFile(self._path(self._number))
        self._first_unsettled = min(self._numbers())
        self.outcomes: Counter[str] = Counter()

    def append(self, result: Result) -> None:
        """Add a result; it is safe from a crash after the next `sync`."""
        self._open.add(_line(result))

    def sync(self) -> None:
        """Write what was appended to the disk.

        Raises:
            OSError: The disk refuses; nothing is lost, and the next call tries again.
        """
        self._open.write(durably=True)

    def settle(self) -> None:
        """Forget the sequences of what is synced, since a restart will count it; its files go when delivered.

        Raises:
            OSError: The disk refuses; nothing is lost, and the next call tries again.
        """
        if self._open.end >= min(self._file_bytes, SHARE_OF_FREE * shutil.disk_usage(self.folder).free):
            following = LineFile(self._path(self._number + 1))
            self._open.close()
            self._number, self._open = self._number + 1, following
            self._first_unsettled = self._number

    def close(self) -> None:
        """Sync and close.

        Raises:
            OSError: The disk refuses, and what was appended since the last `sync` is lost.
        """
        try:
            self.sync()
        finally:
            self._open.close()

    @property
    def _synced(self) -> Position:
        return Position(self._number, self._open.end)

    def undelivered(self) -> int:
        """Bytes that are synced and not delivered."""
        ahead = sum(self._path(number).stat().st_size for number in range(self._delivered.file, self._synced.file))
        return ahead + self._synced.offset - self._delivered.offset

    def highest_sequences(self) -> dict[str, int]:
        """Per lease, the highest sequence that was written down and not settled."""
        highest: dict[str, int] = {}
        for number in self._numbers():
            for line in self._path(number).read_bytes().splitlines():
                if (item := _parse(line)) is not None:
                    highest[item.lease_id] = max(item.sequence, highest.get(item.lease_id, -1))
        return highest

    def deliver(self, report: Report) -> None:
        """Send what is synced, in order, until all is delivered or the league is away.

        A batch that is refused whole is sent in halves, so that only what the league will not have is set aside.

        Raises:
            OSError: The disk refuses to keep how far it came, or what is set aside; the next call sends that again.
        """
        while self._delivered < self._synced:
            results, end = self._read_batch()
            refused: list[Result] = []
            if results and not self._send(results, report, refused):
                return
            self._set_aside(refused)
            self._delivered = end
            self._remove_delivered()
            self._write_delivered()

    def _send(self, results: list[Result], report: Report, refused: list[Result]) -> bool:
        """Send some results, and add to `refused` what the league will never take; false while it is away."""
        try:
            answer = report(results)
        except LeagueError as error:
            if len(results) > 1:
                middle = len(results) // 2
                return all(self._send(half, report, refused) for half in (results[:middle], results[middle:]))
            refused += results
            self._tell(results[0], "refused", str(error))
            self.outcomes["refused"] += 1
            return True
        if answer is None:
            return False
        self.outcomes.update(item.status for item in answer.items)
        for result, item in zip(results, answer.items, strict=True):
            if item.status == "rejected":
                refused.append(result)
            if item.status in ("rejected", "conflict"):
                self._tell(result, item.status, item.detail)
        return True

    def _tell(self, result: Result, status: str, reason: str | None) -> None:
        logger.warning("result %s/%d %s: %s", result.lease_id, result.sequence, status, reason)

    def _set_aside(self, refused: list[Result]) -> None:
        if not refused:
            return
        path = self.folder / "refused.jsonl"
        aside = LineFile(path)
        try:
            known = set(path.read_bytes().splitlines())  # of a batch that a crash has sent again
            for line in map(_line, refused):
                if line not in known:
                    aside.add(line)
            aside.write(durably=True)
        finally:
            aside.close()
        logger.warning("%d results that the league will not have are set aside in %s", len(refused), path)

    def _read_batch(self) -> tuple[list[Result], Position]:
        file, offset = self._delivered.file, self._delivered.offset
        with self._path(file).open("rb") as stream:
            stream.seek(offset)
            lines = list(islice(stream, BATCH))
        if not lines:
            return [], Position(file + 1, 0)
        end = Position(file, offset + sum(map(len, lines)))
        while end > self._synced:  # a disk that refused them may have left them there all the same
            end = Position(file, end.offset - len(lines.pop()))
        return _parse_all(lines), end

    def _read_delivered(self) -> Position:
        """How far the last process came; from the first file on where that is not known, since resending is safe."""
        start = Position(min(self._numbers(), default=1), 0)
        path = self.folder / "delivered.json"
        try:
            return max(start, Position(**json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return start
        except (ValueError, TypeError) as error:
            logger.warning("%s is damaged (%s): all results in the spool are sent again", path, error)
            return start

    def _write_delivered(self) -> None:
        position = {"file": self._delivered.file, "offset": self._delivered.offset}
        write_atomically(self.folder / "delivered.json", json.dumps(position).encode(), durably=False)

    def _remove_delivered(self) -> None:
        """Make room, before anything is written: a missing file says as well that it was delivered."""
        for number in self._numbers():
            if number < min(self._delivered.file, self._first_unsettled):
                self._path(number).unlink()

    def _numbers(self) -> list[int]:
        return sorted(int(path.stem.removeprefix("results-")) for path in self.folder.glob("results-*.jsonl"))

    def _path(self, number: int) -> Path:
        return self.folder / f"results-{number:08d}.jsonl"


def _line(result: Result) -> bytes:
    """A result as its line, without what it does not say: read again, it says no more to the league."""
    return result.model_dump_json(exclude_unset=True).encode()


def _parse_all(lines: Sequence[bytes]) -> list[Result]:
    """The results that lines hold; damaged lines are left out, and said."""
    try:
        return RESULTS.validate_json(b"[" + b",".join(lines) + b"]")
    except ValidationError:
        return [result for line in lines if (result := _parse(line)) is not None]


def _parse(line: bytes) -> Result | None:
    """The result that a line holds; None, and said so, where the line is damaged: the others still count."""
    try:
        return Result.model_validate_json(line)
    except ValidationError:
        logger.warning("spool line %.80r is no result and is skipped", line)
        return None
