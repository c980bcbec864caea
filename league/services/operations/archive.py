"""Archive of a whole league: a zip file that any zip tool can unpack.

    tables/NAME.jsonl      one table: a JSON object per row, keyed by column, in order of the primary key
    checkpoints/SHA256     the bytes of one checkpoint
    replays/KEY            the bytes of one recording
    manifest.json          the content; written last

Times are ISO 8601 in UTC, bytes are hexadecimal, and floats have the shortest exact representation. A truncated file
lacks the zip directory at its end, and damaged bytes fail their checksum, so both are rejected.
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

FORMAT = 2
"""Version of this layout; a reader accepts its own and older versions."""

AT_ONCE = 200
"""Rows in memory at a time; a distribution over thousands of players takes more than 100 kB."""

T = TypeVar("T")
Row = dict[str, Any]
WrittenRow = Mapping[str, Any] | RowMapping
"""Row by column name: built, or as read from a database."""
Progress = Callable[[str, int, int], None]
"""Callback with the name of a table, "checkpoints" or "recordings", the number done and the total."""

_MANIFEST = "manifest.json"
_TABLES, _SUFFIX = "tables/", ".jsonl"
_CHECKPOINTS, _RECORDINGS = "checkpoints/", "replays/"
_BLOCK_BYTES = 2**20
_FETCH_AGAIN = "export it again, or copy the file again"


class Manifest(BaseModel):
    """Description of an archive's content.

    Attributes:
        format: Version of the layout.
        revision: Schema revision of the tables.
        version: Version of the league that wrote the archive.
        exported_at: Time of the export.
        rows: Number of rows by table.
        checkpoints: Number of checkpoints.
        missing: Checkpoints that the tables refer to but the store did not have.
        recordings: Number of recordings beside the tables; up to format 1 the tables contain them.
        missing_recordings: Matches whose recordings the store did not have.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    revision: str
    version: str
    exported_at: AwareDatetime
    rows: dict[str, int]
    checkpoints: int
    missing: list[str]
    recordings: int = 0
    missing_recordings: list[int] = []


class ArchiveWriter:
    """Writes an archive member by member, in bounded memory.

    Args:
        file: Output file; it need not be seekable.
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
        """Write a table; return its number of rows."""
        count = 0
        with self._member(_TABLES + name + _SUFFIX, ZIP_DEFLATED) as member:
            for lines in batches(json.dumps(_encoded(row)) for row in rows):
                member.write(("\n".join(lines) + "\n").encode())
                count += len(lines)
        return count

    def write_checkpoint(self, sha256: str, stream: IO[bytes]) -> None:
        """Write a checkpoint uncompressed, because weights hardly compress."""
        with self._member(_CHECKPOINTS + sha256, ZIP_STORED) as member:
            copyfileobj(stream, member, _BLOCK_BYTES)

    def write_recording(self, key: str, data: bytes) -> None:
        """Write a recording uncompressed, because it is compressed."""
        with self._member(_RECORDINGS + key, ZIP_STORED) as member:
            member.write(data)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest, which completes the archive."""
        with self._member(_MANIFEST, ZIP_DEFLATED) as member:
            member.write(manifest.model_dump_json(indent=2).encode())

    def _member(self, name: str, compression: int) -> IO[bytes]:
        member = ZipInfo(name)
        member.compress_type = compression
        # The size is unknown in advance, and members over 2 GiB need zip64 headers.
        return self._zip.open(member, "w", force_zip64=True)


class ArchiveReader:
    """Reads an archive in bounded memory.

    Raises:
        RefusedArchiveError: The file is not an archive, or is incomplete.
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
        """Hashes of all checkpoints."""
        return self._names(_CHECKPOINTS)

    @property
    def recordings(self) -> list[str]:
        """Keys of all recordings."""
        return self._names(_RECORDINGS)

    def rows(self, table: Table) -> Iterator[Row]:
        """Read a table row by row, with values as the database takes them.

        Raises:
            RefusedArchiveError: A row is damaged or does not have the table's columns.
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
        """Open a checkpoint for reading."""
        with self._member(_CHECKPOINTS + sha256) as member:
            yield member

    def recording(self, key: str) -> bytes:
        """Return the bytes of a recording."""
        with self._member(_RECORDINGS + key) as member:
            return member.read()

    def refused(self, rule: str) -> RefusedArchiveError:
        """Return the error for damaged content of this archive."""
        return RefusedArchiveError(self.path, rule, _FETCH_AGAIN)

    def _names(self, folder: str) -> list[str]:
        return [name.removeprefix(folder) for name in self._zip.namelist() if name.startswith(folder)]

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
                # Checked before validation, which would reject the unknown fields of a newer manifest as damage.
                raise NewerArchiveError(self.path, rule, f"import it with version {content['version']} or newer")
            return Manifest.model_validate(content)
        except (ValueError, KeyError, TypeError) as error:
            raise self.refused(f"{_MANIFEST} is damaged ({str(error).splitlines()[0]})") from error


def batches(items: Iterable[T]) -> Iterator[list[T]]:
    """Split items into batches of `AT_ONCE`, without reading ahead."""
    rest = iter(items)
    while batch := list(islice(rest, AT_ONCE)):
        yield batch


def _encoded(row: WrittenRow) -> Row:
    return {name: _encode(value) for name, value in row.items()}


def _encode(value: Any) -> Any:  # noqa: ANN401 - whatever the columns hold
    if isinstance(value, datetime):
        # SQLite returns times without a zone; the league stores all of them in UTC.
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
