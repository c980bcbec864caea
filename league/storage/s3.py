"""Checkpoints in a bucket of an S3-compatible object store, with the layout of the folder: `PREFIX/ab/abcdef...`.

Weights go straight between workers and the bucket, by addresses that the server signs; it reads no more than headers.
An upload arrives under `PREFIX/incoming/`, is copied inside the store to `PREFIX/checked/`, where no signed address
reaches, and is verified there: the service itself hashes what it copies. Then it is copied to its name.
"""

import base64
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO
from uuid import uuid4

from league.errors import (
    ConfigurationError,
    HashMismatchError,
    LeagueError,
    RefusedCheckpointError,
    TooLargeError,
    UnknownCheckpointError,
)
from league.storage.base import Leftover, Stored
from league.storage.refusals import require_hash, require_size, unknown
from league.storage.s3_client import Bucket, BucketAddress, Hashing, NoSuchObjectError
from league.storage.safetensors_header import Header, read_header

ADDRESS_S = 3600
"""How long a signed address lasts; a transfer that began by then may go on."""

_INCOMING, _CHECKED = "incoming", "checked"
_PROBE = b"league"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UploadAddress:
    """Where a worker sends a checkpoint's bytes to, with PUT, and the headers that it must send along."""

    url: str
    headers: dict[str, str]


class S3Store:
    """Content-addressed checkpoints in a bucket.

    Args:
        address: The bucket.
        max_bytes: Largest checkpoint taken.
        hashing: Who computes hashes. Where it is the server, each upload passes through it once.

    Raises:
        ConfigurationError: The library is missing, or an address is none.
    """

    def __init__(self, address: BucketAddress, max_bytes: int, hashing: Hashing) -> None:
        self._bucket = Bucket(address, hashing)
        self._max_bytes = max_bytes

    def __str__(self) -> str:
        return str(self._bucket.address)

    # --- addresses ---------------------------------------------------------------------------------------------------

    def download_address(self, sha256: str) -> str:
        """Sign an address to GET a checkpoint from.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """
        self.find(sha256)
        return self._bucket.sign("get_object", self._key(sha256), ADDRESS_S)

    def upload_address(self, sha256: str, size_bytes: int) -> UploadAddress:
        """Sign an address to PUT a checkpoint to, once, at just this size and hash.

        Raises:
            TooLargeError: The store takes no checkpoint of this size.
        """
        require_size(size_bytes, self._max_bytes)
        digest = base64.b64encode(bytes.fromhex(sha256)).decode()
        url = self._bucket.sign(
            "put_object",
            self._incoming(sha256),
            ADDRESS_S,
            ChecksumSHA256=digest,
            ContentLength=size_bytes,
            IfNoneMatch="*",
        )
        return UploadAddress(url, {"x-amz-checksum-sha256": digest, "if-none-match": "*"})

    def bare_upload_address(self, sha256: str, size_bytes: int) -> str:
        """Sign an address to PUT a checkpoint to, at just this size, for a caller that follows a redirect.

        Raises:
            TooLargeError: The store takes no checkpoint of this size.
        """
        require_size(size_bytes, self._max_bytes)
        return self._bucket.sign("put_object", self._incoming(sha256), ADDRESS_S, ContentLength=size_bytes)

    def complete(self, sha256: str) -> None:
        """Verify what was uploaded under a name, inside the store, and make it a checkpoint.

        Raises:
            UnknownCheckpointError: Nothing was uploaded, and the store does not have it.
            TooLargeError: More was uploaded than the store takes.
            HashMismatchError: The bytes uploaded are not those that the name says.
            RefusedCheckpointError: The bytes uploaded are not a safetensors file.
        """
        refusal: LeagueError | None = None
        for entry in self._bucket.entries(self._under(_INCOMING, sha256)):
            try:
                self._admit(sha256, entry.key, entry.size_bytes)
            except (HashMismatchError, RefusedCheckpointError, TooLargeError) as error:
                refusal = error
            else:
                return
        try:
            self.find(sha256)
        except UnknownCheckpointError as error:
            raise refusal or error from None

    # --- the contract of every store ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Refuse a bucket in which the league cannot write, or whose service does not hash what it stores."""
        first, second = (self._under(_CHECKED, f"probe-{uuid4().hex}") for _ in range(2))
        try:
            self._bucket.create(first, _PROBE)
            self._bucket.copy(first, second)
            hashes = self._bucket.sha256(second) is not None
        finally:
            self._bucket.delete(first, second)
        if not hashes:
            rule = "its service does not compute SHA-256 checksums, so it cannot verify an upload"
            way_out = "use one that does, or have the server read every upload: LEAGUE_STORE_HASHING=server"
            raise ConfigurationError(f"store {self}", rule, way_out)

    def check(self) -> None:
        """Refuse a bucket that does not answer."""
        self._bucket.check()

    def find(self, sha256: str) -> Stored:
        """Look a checkpoint up."""
        with _missing(sha256):
            entry = self._bucket.find(self._key(sha256))
        return Stored(sha256, entry.size_bytes, entry.touched_at)

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's safetensors header, completing an upload where that is left to do."""
        try:
            size = self.find(sha256).size_bytes
        except UnknownCheckpointError:
            self.complete(sha256)
            size = self.find(sha256).size_bytes
        with _missing(sha256):
            return read_header(_Ranges(self._bucket, self._key(sha256), size), size, sha256)

    def freshen(self, sha256: str, now: datetime) -> bool:
        """Say whether a checkpoint is there; copying it onto itself makes it young."""
        try:
            self._bucket.copy(self._key(sha256), self._key(sha256))
        except NoSuchObjectError:
            return False
        return True

    def intact(self, sha256: str) -> bool:
        """Say whether the bytes hash to the name."""
        with _missing(sha256):
            return self._hash(sha256) == sha256

    def sound(self, sha256: str) -> bool:
        """Say whether the bytes hash to the name; those that do not lose it."""
        key = self._key(sha256)
        with _missing(sha256):
            found = self._hash(sha256)
            if found == sha256:
                return True
            aside = self._aside(sha256)
            log.error("checkpoint %s is damaged: its bytes hash to %s; set aside as %s", sha256, found, aside)
            self._bucket.copy(key, aside)
            self._bucket.delete(key)
        return False

    def set_aside(self, sha256: str) -> bool:
        """Return whether damaged bytes of this name have been set aside."""
        try:
            self._bucket.find(self._aside(sha256))
        except NoSuchObjectError:
            return False
        return True

    @contextmanager
    def open(self, sha256: str) -> Iterator[IO[bytes]]:
        """Read a checkpoint's bytes."""
        with _missing(sha256), self._bucket.open(self._key(sha256)) as stream:
            yield stream

    def take_in(self, sha256: str, stream: IO[bytes]) -> None:
        """Store a checkpoint whose bytes are at hand."""
        self._bucket.write(self._incoming(sha256), stream)
        self.complete(sha256)

    def listing(self) -> Iterator[Stored]:
        """Go through all checkpoints."""
        for entry in self._bucket.entries(self._bucket.address.prefix):
            name = entry.key.removeprefix(self._bucket.address.prefix)
            if re.fullmatch(r"([0-9a-f]{2})/\1[0-9a-f]{62}", name):
                yield Stored(name[3:], entry.size_bytes, entry.touched_at)

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is younger."""
        try:
            if self.find(sha256).stored_at >= before:
                return False
        except UnknownCheckpointError:
            return True
        self._bucket.delete(self._key(sha256))
        return True

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Go through uploads that nobody completed, what a killed server left, and what was set aside."""
        for folder in (_INCOMING, _CHECKED):
            for entry in self._bucket.entries(self._under(folder, "")):
                if entry.touched_at < before:
                    yield Leftover(entry.key, entry.size_bytes, entry.touched_at)

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover."""
        self._bucket.delete(leftover.name)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _admit(self, sha256: str, uploaded: str, size: int) -> None:
        """Verify an upload out of its sender's reach, and give it its name."""
        checked = self._under(_CHECKED, uuid4().hex)
        try:
            require_size(size, self._max_bytes)
            self._bucket.copy(uploaded, checked)
            require_hash(sha256, self._bucket.sha256(checked) or "", size)
            read_header(_Ranges(self._bucket, checked, size), size, sha256)
            self._bucket.copy(checked, self._key(sha256))
        except NoSuchObjectError:
            self.find(sha256)  # another call admitted it meanwhile
        finally:
            self._bucket.delete(uploaded, checked)

    def _hash(self, sha256: str) -> str | None:
        key = self._key(sha256)
        found = self._bucket.sha256(key)
        if found is None:  # brought here by other means: have the service hash it now
            self._bucket.copy(key, key)
            found = self._bucket.sha256(key)
        return found

    def _key(self, sha256: str) -> str:
        return f"{self._bucket.address.prefix}{sha256[:2]}/{sha256}"

    def _aside(self, sha256: str) -> str:
        return self._under(_CHECKED, f"damaged-{sha256}")

    def _incoming(self, sha256: str) -> str:
        return f"{self._under(_INCOMING, sha256)}/{uuid4().hex}"

    def _under(self, folder: str, name: str) -> str:
        return f"{self._bucket.address.prefix}{folder}/{name}"


class _Ranges:
    """An object of a bucket, read piece by piece from its beginning on."""

    def __init__(self, bucket: Bucket, key: str, size: int) -> None:
        self._bucket, self._key, self._size = bucket, key, size
        self._offset = 0

    def read(self, size: int, /) -> bytes:
        end = min(self._offset + size, self._size)
        if end == self._offset:
            return b""
        content = self._bucket.part(self._key, self._offset, end)
        self._offset += len(content)
        return content


@contextmanager
def _missing(sha256: str) -> Iterator[None]:
    """Name the checkpoint that the bucket lacks."""
    try:
        yield
    except NoSuchObjectError as error:
        raise unknown(sha256) from error
