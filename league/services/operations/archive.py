"""Archive of a whole league: a zip file that any reader of zip files unpacks.

    tables/NAME.jsonl      one table: a JSON object a row, by the names of its columns, in order of the primary key
    checkpoints/SHA256     the bytes of one checkpoint
    manifest.json          what is in it; written last

Times are ISO 8601 in UTC, bytes hexadecimal, floats as short as their exact value allows. A file that was cut off
lacks the directory at its end, damaged bytes do not match their check sum: both are refused.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from types import TracebackType
from typing import IO, Any, Self, TypeVar
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo
from zlib import error as DeflateError

from pydantic import AwareDatetime, BaseModel, ConfigDict
from sqlalchemy import DateTime, LargeBinary, RowMapping, Table

from league.errors import NewerArchiveError, RefusedArchiveError

FORMAT = 1
"""Version of the layout above; a reader takes its own and older ones."""

AT_ONCE = 200
"""How many rows are held in memory; a draw among thousands of players takes a good 100 kB."""

T = TypeVar("T")
Row = dict[str, Any]
WrittenRow = Mapping[str, Any] | RowMapping
"""By the names of columns: made, or as a database gives it."""
Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it is, and how much there is."""

_MANIFEST = "manifest.json"
_TABLES, _SUFFIX = "tables/", ".jsonl"
_CHECKPOINTS = "checkpoints/"
_BLOCK_BYTES = 2**20
_FETCH_AGAIN = "export it again, or copy the file again"


class Manifest(BaseModel):
    """What an archive holds.

    Attributes:
        format: Version of the layout.
        revision: Of the schema that the tables have.
        version: Of the league that wrote it.
        exported_at: When.
        rows: Number of rows of each table, by name.
        checkpoints: How many there are.
        missing: Checkpoints that the tables name and the store did not have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    revision: str
    version: str
    exported_at: AwareDatetime
    rows: dict[str, int]
    checkpoints: int
    missing: list[str]


class ArchiveWriter:
    """Writes an archive, one member after the other, in bounded memory.

    Args:
        file: Where to; need not seek.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = ZipFile(file, "w", ZIP_DEFLATED)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def write_table(self, name: str, rows: Iterable[WrittenRow]) -> int:
        """Write a table; return how many rows it has."""
        count = 0
        with self._member(_TABLES + name + _SUFFIX, ZIP_DEFLATED) as member:
            for lines in batches(json.dumps(_encoded(row)) for row in rows):
                member.write(("\n".join(lines) + "\n").encode())
                count += len(lines)
        return count

    def write_checkpoint(self, sha256: str, stream: IO[bytes]) -> None:
        """Write a checkpoint; its numbers are not worth compressing."""
        with self._member(_CHECKPOINTS + sha256, ZIP_STORED) as member:
            copyfileobj(stream, member, _BLOCK_BYTES)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, which completes the archive."""
        with self._member(_MANIFEST, ZIP_DEFLATED) as member:
            member.write(manifest.model_dump_json(indent=2).encode())

    def _member(self, name: str, compression: int) -> IO[bytes]:
        member = ZipInfo(name)
        member.compress_type = compression
        return self._zip.open(member, "w", force_zip64=True)


class ArchiveReader:
    """Reads an archive, in bounded memory.

    Raises:
        RefusedArchiveError: The file is no archive, or not a whole one.
        NewerArchiveError: A newer version wrote it in another layout.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = ZipFile(path)
        except (BadZipFile, OSError) as error:
            rule = f"it is not a complete archive of a league ({error})"
            raise RefusedArchiveError(path, rule, _FETCH_AGAIN) from error
        try:
            self.manifest = self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    @property
    def checkpoints(self) -> list[str]:
        """Names of all checkpoints."""
        names = [name for name in self._zip.namelist() if name.startswith(_CHECKPOINTS)]
        return [name.removeprefix(_CHECKPOINTS) for name in names]

    def rows(self, table: Table) -> Iterator[Row]:
        """Read a table, row by row, as the database takes them.

        Raises:
            RefusedArchiveError: Rows are damaged, or do not have the table's columns.
        """
        decoders = {column.name: _decoder(column.type) for column in table.columns}
        with self._member(_TABLES + table.name + _SUFFIX) as member:
            for number, line in enumerate(member, start=1):
                try:
                    row = _decoded(line, decoders)
                except (ValueError, TypeError, AttributeError) as error:
                    rule = f"line {number} of {_TABLES}{table.name}{_SUFFIX} is damaged ({error})"
                    raise self.refused(rule) from error
                yield row

    @contextmanager
    def checkpoint(self, sha256: str) -> Iterator[IO[bytes]]:
        """Open a checkpoint."""
        with self._member(_CHECKPOINTS + sha256) as member:
            yield member

    def refused(self, rule: str) -> RefusedArchiveError:
        """Return the error about this archive's content."""
        return RefusedArchiveError(self.path, rule, _FETCH_AGAIN)

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._zip.open(name) as member:
                yield member
        except KeyError as error:
            raise self.refused(f"it has no {name}") from error
        except (BadZipFile, DeflateError, EOFError) as error:
            raise self.refused(f"{name} is damaged ({error})") from error

    def _read_manifest(self) -> Manifest:
        try:
            with self._member(_MANIFEST) as member:
                content = json.load(member)
            if content["format"] > FORMAT:
                rule = f"it has format {content['format']}, this version reads formats up to {FORMAT}"
                raise NewerArchiveError(self.path, rule, f"import it with version {content['version']} or newer")
            return Manifest.model_validate(content)
        except (ValueError, KeyError, TypeError) as error:
            raise self.refused(f"{_MANIFEST} is damaged ({str(error).splitlines()[0]})") from error


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items a few hundred at a time, which is as many as are ever held in memory."""
    rest = iter(items)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def _encoded(row: WrittenRow) -> Row:
    return {name: _encode(value) for name, value in row.items()}


def _encode(value: Any) -> Any:  # noqa: ANN401 - whatever the columns hold
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return aware.astimezone(UTC).isoformat()
    return value.hex() if isinstance(value, bytes) else value


def _decoded(line: bytes, decoders: Mapping[str, Callable[[Any], Any]]) -> Row:
    row = json.loads(line)
    if row.keys() != decoders.keys():
        raise ValueError(f"its columns are {', '.join(row)}")
    return {name: value if value is None else decoders[name](value) for name, value in row.items()}


def _decoder(kind: object) -> Callable[[Any], Any]:
    if isinstance(kind, DateTime):
        return datetime.fromisoformat
    return bytes.fromhex if isinstance(kind, LargeBinary) else _same


def _same(value: Any) -> Any:  # noqa: ANN401 - whatever the columns hold
    return value
