"""Checkpoint store in a bucket of an S3-compatible object store: `PREFIX/ab/abcdef...`.

Workers transfer weights directly from and to the bucket through presigned URLs. The server only reads headers. An
upload arrives under `PREFIX/incoming/`, is copied inside the store to `PREFIX/checked/`, which no presigned URL covers,
and is verified there: the service hashes the copy. Then it is copied to its final name.

A presigned URL of the final name would save the copies where clients send a checksum. But `PUT /checkpoints/SHA256`
also redirects clients that send none, and not every service hashes uploads, so the way over `incoming` would remain.
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
from league.storage.checkpoint_header import read_header
from league.storage.recordings import RecordingBucket
from league.storage.refusals import require_hash, require_size, unknown
from league.storage.s3_client import Bucket, BucketAddress, Hashing, NoSuchObjectError
from league.storage.safetensors_header import Header

ADDRESS_S = 3600
"""Lifetime of a presigned URL; a transfer that has started may finish later."""

_INCOMING, _CHECKED = "incoming", "checked"
_PROBE = b"league"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UploadAddress:
    """Presigned URL for a PUT of a checkpoint, with its required headers."""

    url: str
    headers: dict[str, str]


class S3Store:
    """Content-addressed checkpoints in a bucket.

    Args:
        address: The bucket.
        max_bytes: Maximum size of a checkpoint.
        hashing: Whether the service or the server hashes uploads; the server must read each upload once.

    Raises:
        ConfigurationError: The library is missing, or a URL is invalid.
    """

    def __init__(self, address: BucketAddress, max_bytes: int, hashing: Hashing) -> None:
        self._bucket = Bucket(address, hashing)
        self.recordings = RecordingBucket(self._bucket)
        self._max_bytes = max_bytes

    def __str__(self) -> str:
        return str(self._bucket.address)

    # --- addresses ---------------------------------------------------------------------------------------------------

    def download_address(self, sha256: str) -> str:
        """Return a presigned URL to GET a checkpoint.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """
        self.find(sha256)
        return self._bucket.sign("get_object", self._key(sha256), ADDRESS_S)

    def upload_address(self, sha256: str, size_bytes: int) -> UploadAddress:
        """Return a presigned URL to PUT a checkpoint once, with exactly this size and hash.

        Raises:
            TooLargeError: The size exceeds the store's limit.
        """
        require_size(size_bytes, self._max_bytes)
        digest = base64.b64encode(bytes.fromhex(sha256)).decode()
        url = self._bucket.sign(
            "put_object",
            self._incoming(sha256),
            ADDRESS_S,
            ChecksumSHA256=digest,
            ContentLength=size_bytes,
            # The URL cannot overwrite an object: a worker must not replace bytes after they were verified.
            IfNoneMatch="*",
        )
        return UploadAddress(url, {"x-amz-checksum-sha256": digest, "if-none-match": "*"})

    def bare_upload_address(self, sha256: str, size_bytes: int) -> str:
        """Return a presigned URL to PUT a checkpoint of exactly this size, for a client that follows a redirect.

        Raises:
            TooLargeError: The size exceeds the store's limit.
        """
        require_size(size_bytes, self._max_bytes)
        return self._bucket.sign("put_object", self._incoming(sha256), ADDRESS_S, ContentLength=size_bytes)

    def complete(self, sha256: str) -> None:
        """Verify an upload inside the store and publish it as a checkpoint.

        Raises:
            UnknownCheckpointError: There is no upload, and the store does not have the checkpoint.
            TooLargeError: The upload exceeds the store's limit.
            HashMismatchError: The uploaded bytes do not match the hash.
            RefusedCheckpointError: The upload is neither a safetensors file nor an ONNX model.
        """
        refusal: LeagueError | None = None
        # A repeated upload leaves several objects; the first valid one is published.
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
        """Check that the bucket is writable and that its service computes checksums."""
        first, second = (self._under(_CHECKED, f"probe-{uuid4().hex}") for _ in range(2))
        try:
            self._bucket.create(first, _PROBE)
            self._bucket.copy(first, second)
            has_checksums = self._bucket.sha256(second) is not None
        finally:
            self._bucket.delete(first, second)
        if not has_checksums:
            rule = "its service does not compute SHA-256 checksums, so it cannot verify uploads"
            remedy = "use another service, or let the server read every upload: LEAGUE_STORE_HASHING=server"
            raise ConfigurationError(f"store {self}", rule, remedy)

    def check(self) -> None:
        """Raise if the bucket does not respond."""
        self._bucket.check()

    def find(self, sha256: str) -> Stored:
        """Return a checkpoint's metadata."""
        with _missing(sha256):
            entry = self._bucket.find(self._key(sha256))
        return Stored(sha256, entry.size_bytes, entry.touched_at)

    def header(self, sha256: str) -> Header:
        """Return a checkpoint's header, completing a pending upload."""
        try:
            size = self.find(sha256).size_bytes
        except UnknownCheckpointError:
            self.complete(sha256)
            size = self.find(sha256).size_bytes
        with _missing(sha256):
            return read_header(_Ranges(self._bucket, self._key(sha256), size), size, sha256)

    def touch(self, sha256: str, now: datetime) -> bool:
        """Return True if a checkpoint is stored; copying it onto itself updates its modification time."""
        try:
            self._bucket.copy(self._key(sha256), self._key(sha256))
        except NoSuchObjectError:
            return False
        return True

    def is_intact(self, sha256: str) -> bool:
        """Return True if the bytes match the hash."""
        with _missing(sha256):
            return self._hash(sha256) == sha256

    def sound(self, sha256: str) -> bool:
        """Return True if the bytes match the hash; set damaged ones aside."""
        key = self._key(sha256)
        with _missing(sha256):
            found = self._hash(sha256)
            if found == sha256:
                return True
            # A bucket has no rename: copy, then delete.
            aside = self._damaged_key(sha256)
            log.error("checkpoint %s is damaged: its bytes hash to %s; moved to %s", sha256, found, aside)
            self._bucket.copy(key, aside)
            self._bucket.delete(key)
        return False

    def has_damaged_copy(self, sha256: str) -> bool:
        """Return True if damaged bytes of this name have been set aside."""
        try:
            self._bucket.find(self._damaged_key(sha256))
        except NoSuchObjectError:
            return False
        return True

    @contextmanager
    def open(self, sha256: str) -> Iterator[IO[bytes]]:
        """Open a checkpoint's bytes for reading."""
        with _missing(sha256), self._bucket.open(self._key(sha256)) as stream:
            yield stream

    def put(self, sha256: str, stream: IO[bytes]) -> None:
        """Verify and store a checkpoint; idempotent."""
        self._bucket.write(self._incoming(sha256), stream)
        self.complete(sha256)

    def listing(self) -> Iterator[Stored]:
        """Yield all checkpoints."""
        for entry in self._bucket.entries(self._bucket.address.prefix):
            name = entry.key.removeprefix(self._bucket.address.prefix)
            if re.fullmatch(r"([0-9a-f]{2})/\1[0-9a-f]{62}", name):
                yield Stored(name[3:], entry.size_bytes, entry.touched_at)

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is newer."""
        try:
            if self.find(sha256).stored_at >= before:
                return False
        except UnknownCheckpointError:
            return True
        self._bucket.delete(self._key(sha256))
        return True

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Yield incomplete uploads, temporary copies of killed servers and damaged checkpoints."""
        for folder in (_INCOMING, _CHECKED):
            for entry in self._bucket.entries(self._under(folder, "")):
                if entry.touched_at < before:
                    yield Leftover(entry.key, entry.size_bytes, entry.touched_at)

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover."""
        self._bucket.delete(leftover.name)

    # --- private -----------------------------------------------------------------------------------------------------

    def _admit(self, sha256: str, uploaded: str, size: int) -> None:
        """Verify an upload in a copy that its sender cannot change, and publish it."""
        checked = self._under(_CHECKED, uuid4().hex)
        try:
            require_size(size, self._max_bytes)
            # The sender's URL stays valid for an hour, so the bytes are verified where it cannot reach them.
            self._bucket.copy(uploaded, checked)
            require_hash(sha256, self._bucket.sha256(checked) or "", size)
            read_header(_Ranges(self._bucket, checked, size), size, sha256)
            self._bucket.copy(checked, self._key(sha256))
        except NoSuchObjectError:
            self.find(sha256)  # another request published it concurrently
        finally:
            self._bucket.delete(uploaded, checked)

    def _hash(self, sha256: str) -> str | None:
        key = self._key(sha256)
        found = self._bucket.sha256(key)
        if found is None:  # uploaded by other means, without a checksum: a copy makes the service compute one
            self._bucket.copy(key, key)
            found = self._bucket.sha256(key)
        return found

    def _key(self, sha256: str) -> str:
        return f"{self._bucket.address.prefix}{sha256[:2]}/{sha256}"

    def _damaged_key(self, sha256: str) -> str:
        return self._under(_CHECKED, f"damaged-{sha256}")

    def _incoming(self, sha256: str) -> str:
        return f"{self._under(_INCOMING, sha256)}/{uuid4().hex}"

    def _under(self, folder: str, name: str) -> str:
        return f"{self._bucket.address.prefix}{folder}/{name}"


class _Ranges:
    """Sequential reader of a bucket's object, one range request per read."""

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
    """Convert a missing object to `UnknownCheckpointError`."""
    try:
        yield
    except NoSuchObjectError as error:
        raise unknown(sha256) from error
