"""File format of a recording: gzip of one JSON object, strictly validated on reading."""

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
"""Most objects and lists in a recording, ten times those of a game of 10,000 decisions.

A parser needs hundreds of bytes for each, however short.
"""

FAULTS_TOLD = 1000
"""Number of faults above which none is described, because listing them takes longer than finding them."""

REMEDY = "give a file that `arena match --record` wrote"

_RECORDINGS: TypeAdapter[Recording] = TypeAdapter(
    Annotated[Recording, Field(discriminator="kind")], config=ConfigDict(extra="forbid", allow_inf_nan=False)
)


class RecordingError(ArenaError):
    """A recording cannot be read or written."""

    code = "invalid-recording"


def write_recording(path: str | Path, recording: Recording) -> int:
    """Write a recording atomically and return its size in bytes.

    Raises:
        RecordingError: The file cannot be written, or the recording exceeds a limit of the format.
    """
    data = pack_recording(recording)
    try:
        write_atomically(Path(path), data)
    except OSError as error:
        raise RecordingError(f"cannot write the recording {path}: {error.strerror}; choose another file") from error
    return len(data)


def pack_recording(recording: Recording) -> bytes:
    """Return the bytes of a recording's file; equal recordings give equal bytes.

    Raises:
        RecordingError: The recording exceeds a limit of the format.
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
        RecordingError: The file does not exist or is not a recording of a supported version.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file, str(path), MAX_BYTES)
    except OSError as error:
        raise RecordingError(f"cannot read the recording {path}: {error.strerror}; {REMEDY}") from error


def unpack_recording(data: bytes, name: str, most_bytes: int = MAX_BYTES) -> Recording:
    """Read the bytes of a recording's file.

    Args:
        data: The bytes.
        name: Name in errors.
        most_bytes: Longest JSON text to read.

    Raises:
        RecordingError: They are not a recording of a supported version.
    """
    return _read(BytesIO(data), name, most_bytes)


def _read(file: IO[bytes], name: str, most_bytes: int) -> Recording:
    text = _decompress(file, name, most_bytes)
    if (parts := _parts(text)) > MAX_PARTS:
        raise RecordingError(
            f"{name} is not a recording: of {parts} objects and lists, the most is {MAX_PARTS}; {REMEDY}"
        )
    try:
        parsed = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise RecordingError(f"{name} is not a recording: it is not JSON ({error}); {REMEDY}") from error
    _require_version(name, parsed)
    try:
        return _RECORDINGS.validate_json(text, strict=True)
    except ValidationError as error:
        raise RecordingError(f"{name} is a damaged recording: {_first_fault(error)}; {REMEDY}") from error


def _parts(text: bytes) -> int:
    """Return an upper bound of the number of objects and lists in a JSON text."""
    return text.count(b"{") + text.count(b"[")


def _decompress(file: IO[bytes], name: str, most_bytes: int) -> bytes:
    """Return the text of a gzip file, never reading more than `most_bytes` + 1 bytes into memory."""
    try:
        with gzip.open(file) as unpacked:
            text = unpacked.read(most_bytes + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RecordingError(f"{name} is not a recording: it is not a complete gzip file; {REMEDY}") from error
    if len(text) > most_bytes:
        raise RecordingError(f"{name} is not a recording: it unpacks to more than {most_bytes} bytes; {REMEDY}")
    return text


def _require_version(name: str, parsed: Any) -> None:  # noqa: ANN401  any content
    header = parsed.get("header") if isinstance(parsed, dict) else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise RecordingError(f"{name} is not a recording: its header does not have {FORMAT}; {REMEDY}")
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
