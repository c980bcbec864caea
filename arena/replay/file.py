"""The file of a recording: gzip of one JSON object. Whatever is not exactly that is refused."""

import gzip
import zlib
from io import BytesIO
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from arena.atomic_files import write_atomically
from arena.errors import ArenaError
from arena.replay.header import FORMAT, VERSION
from arena.replay.recording import Recording

SUFFIX = ".replay.json.gz"

MAX_BYTES = 32 * 2**20
"""Longest JSON text of a recording: a hundred times that of a long match of 20 mechs."""

MAX_PARTS = 500_000
"""Most objects and lists in it, a tenth of which a game of 10,000 decisions has: a parser takes hundreds of bytes for
each, however short."""

FAULTS_TOLD = 1000
"""With more faults than these no single one is told: to list them takes longer than to find them."""

WAY_OUT = "give a file that `arena match --record` wrote"

_RECORDINGS: TypeAdapter[Recording] = TypeAdapter(
    Annotated[Recording, Field(discriminator="kind")], config=ConfigDict(extra="forbid", allow_inf_nan=False)
)


class RecordingError(ArenaError):
    """A recording cannot be read or written."""

    code = "invalid-recording"


def write_recording(path: str | Path, recording: Recording) -> int:
    """Write a recording, all of it or nothing, and say how many bytes it took.

    Raises:
        RecordingError: The file cannot be written, or no reader would take it.
    """
    data = pack_recording(recording)
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise RecordingError(f"cannot write the recording {path}: {error.strerror}; choose another file") from error
    return len(data)


def pack_recording(recording: Recording) -> bytes:
    """The bytes of a recording's file; the same recording has the same bytes.

    Raises:
        RecordingError: No reader would take it.
    """
    text = _RECORDINGS.dump_json(recording)
    if len(text) > MAX_BYTES:
        raise RecordingError(
            f"a recording of {len(text)} bytes of JSON: the most is {MAX_BYTES}; record a shorter match"
        )
    if (parts := _parts(text)) > MAX_PARTS:
        raise RecordingError(
            f"a recording of {parts} objects and lists: the most is {MAX_PARTS}; record a shorter match"
        )
    return gzip.compress(text, compresslevel=9, mtime=0)


def read_recording(path: str | Path) -> Recording:
    """Read a recording.

    Raises:
        RecordingError: There is no such file, or it is not a recording of a version that this reads.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file, str(path), MAX_BYTES)
    except OSError as error:
        raise RecordingError(f"cannot read the recording {path}: {error.strerror}; {WAY_OUT}") from error


def unpack_recording(data: bytes, name: str, most_bytes: int = MAX_BYTES) -> Recording:
    """Read the bytes of a recording's file.

    Args:
        data: The bytes.
        name: What errors call them.
        most_bytes: Longest JSON text that is read.

    Raises:
        RecordingError: They are not a recording of a version that this reads.
    """
    return _read(BytesIO(data), name, most_bytes)


def _read(file: IO[bytes], name: str, most_bytes: int) -> Recording:
    text = _decompress(file, name, most_bytes)
    if (parts := _parts(text)) > MAX_PARTS:
        raise RecordingError(
            f"{name} is not a recording: of {parts} objects and lists, the most is {MAX_PARTS}; {WAY_OUT}"
        )
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"{name} is not a recording: it is not JSON ({error}); {WAY_OUT}") from error
    _require_version(name, parsed)
    try:
        return _RECORDINGS.validate_json(text, strict=True)
    except ValidationError as error:
        raise RecordingError(f"{name} is a damaged recording: {_first_fault(error)}; {WAY_OUT}") from error


def _parts(text: bytes) -> int:
    """How many objects and lists a text has at most."""
    return text.count(b"{") + text.count(b"[")


def _decompress(file: IO[bytes], name: str, most_bytes: int) -> bytes:
    """The text of a gzip file, of which never more than `most_bytes` + 1 bytes come into memory."""
    try:
        with gzip.open(file) as unpacked:
            text = unpacked.read(most_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordingError(f"{name} is not a recording: it is not a complete gzip file; {WAY_OUT}") from error
    if len(text) > most_bytes:
        raise RecordingError(f"{name} is not a recording: it unpacks to more than {most_bytes} bytes; {WAY_OUT}")
    return text


def _require_version(name: str, parsed: Any) -> None:  # noqa: ANN401  whatever the file holds
    header = parsed.get("header") if isinstance(parsed, dict) else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise RecordingError(f"{name} is not a recording: its header does not have {FORMAT}; {WAY_OUT}")
    if header.get("version") != VERSION:
        raise RecordingError(
            f"{name} is a recording of version {str(header.get('version'))[:20]}: this release reads {VERSION}; "
            "read it with the release that wrote it, or play the match again from its seed"
        )


def _first_fault(error: ValidationError) -> str:
    if error.error_count() > FAULTS_TOLD:
        return f"{error.error_count()} fields are wrong"
    fault = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else str(fault["msg"])
