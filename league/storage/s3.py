"""Checkpoints in a bucket of an S3-compatible object store, with the layout of the folder: `PREFIX/ab/abcdef...`.

Weights go straight between workers and the bucket, by addresses that the server signs; it reads no more than headers.
An upload arrives under `PREFIX/incoming/`, is copied inside the store to `PREFIX/checked/`, where no signed address
reaches, and is verified there: the store itself hashes what it copies. Then it is copied to its name.
"""

import base64
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Self
from urllib.parse import urlsplit
from uuid import uuid4

from league.errors import (
    ConfigurationError,
    HashMismatchError,
    LeagueError,
    RefusedCheckpointError,
    StoreUnavailableError,
    TooLargeError,
    UnknownCheckpointError,
)
from league.storage.directory import require_hash, require_size, unknown
from league.storage.safetensors_header import read_metadata
from league.storage.store import Leftover, Stored

ADDRESS_S = 3600
"""How long a signed address lasts; a transfer that began by then may go on."""

_CONNECT_S, _READ_S, _ATTEMPTS = 5, 30, 3
_MISSING = {"404", "NoSuchKey", "NotFound"}
_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AuthFailure"}
_FORBIDDEN = {"403", "AccessDenied", "Forbidden"}
_NO_BUCKET = {"NoSuchBucket"}
_PROBE = b"league"
_REGION = "us-east-1"  # what services without regions go by


@dataclass(frozen=True)
class S3Address:
    """Where a bucket is.

    Attributes:
        bucket: Its name.
        prefix: What the keys begin with; empty, or ending in a slash.
        endpoint: URL of the service; None for the one that the AWS settings of the environment name.
        public: URL under which workers reach the service; None where it is the same.
    """

    bucket: str
    prefix: str
    endpoint: str | None
    public: str | None

    @classmethod
    def parse(cls, url: str, endpoint: str | None, public: str | None) -> Self:
        """Read `s3://BUCKET/PREFIX`.

        Raises:
            ConfigurationError: It names no bucket.
        """
        parts = urlsplit(url)
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc) or parts.query or parts.fragment:
            shown = re.sub(r"//[^/]*@", "//***@", url)
            raise ConfigurationError(f"LEAGUE_STORE_URL={shown}", "it names no bucket", "write s3://BUCKET/PREFIX")
        prefix = parts.path.strip("/")
        return cls(parts.netloc, f"{prefix}/" if prefix else "", endpoint, public)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


@dataclass(frozen=True)
class UploadAddress:
    """Where a worker sends a checkpoint's bytes to, with PUT, and the headers that it must send along."""

    url: str
    headers: dict[str, str]


class S3Store:
    """Content-addressed checkpoints in a bucket.

    Args:
        address: The bucket. Credentials come from where every AWS tool has them.
        max_bytes: Largest checkpoint taken.

    Raises:
        ConfigurationError: The library is missing, or an address is none.
    """

    def __init__(self, address: S3Address, max_bytes: int) -> None:
        self._address = address
        self._max_bytes = max_bytes
        self._client = _client(address, address.endpoint)
        self._signer = self._client if address.public is None else _client(address, address.public)

    def __str__(self) -> str:
        return str(self._address)

    # --- addresses ---------------------------------------------------------------------------------------------------

    def download_address(self, sha256: str) -> str:
        """Sign an address to GET a checkpoint from.

        Raises:
            UnknownCheckpointError: The store does not have it.
        """
        self.find(sha256)
        return self._sign("get_object", {"Key": self._key(sha256)})

    def upload_address(self, sha256: str, size_bytes: int) -> UploadAddress:
        """Sign an address to PUT a checkpoint to, once, at just this size and hash.

        Raises:
            TooLargeError: The store takes no checkpoint of this size.
        """
        require_size(size_bytes, self._max_bytes)
        digest = base64.b64encode(bytes.fromhex(sha256)).decode()
        demands = {"ChecksumSHA256": digest, "ContentLength": size_bytes, "IfNoneMatch": "*"}
        url = self._sign("put_object", {"Key": self._incoming(sha256), **demands})
        return UploadAddress(url, {"x-amz-checksum-sha256": digest, "if-none-match": "*"})

    def bare_upload_address(self, sha256: str) -> str:
        """Sign an address to PUT a checkpoint to without further headers, for a caller that follows a redirect."""
        return self._sign("put_object", {"Key": self._incoming(sha256)})

    def complete(self, sha256: str) -> None:
        """Verify what was uploaded under a name, inside the store, and make it a checkpoint.

        Raises:
            UnknownCheckpointError: Nothing was uploaded, and the store does not have it.
            TooLargeError: More was uploaded than the store takes.
            HashMismatchError: The bytes uploaded are not those that the name says.
            RefusedCheckpointError: The bytes uploaded are not a safetensors file.
        """
        refusal: LeagueError | None = None
        for entry in self._entries(self._under("incoming", sha256)):
            try:
                self._take_in(sha256, entry["Key"], entry["Size"])
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
        first, second = (self._under("checked", f"probe-{uuid4().hex}") for _ in range(2))
        with self._answering():
            try:
                self._client.put_object(**self._at(first), Body=_PROBE, IfNoneMatch="*")
                self._copy(first, second)
                sound = self._hash(second) is not None
            finally:
                self._delete(first, second)
        if not sound:
            rule = "its service does not compute SHA-256 checksums, so it cannot verify an upload"
            raise ConfigurationError(f"store {self}", rule, "use a service or version that does, or a folder")

    def check(self) -> None:
        """Refuse a bucket that does not answer."""
        with self._answering():
            self._client.list_objects_v2(Bucket=self._address.bucket, Prefix=self._address.prefix, MaxKeys=1)

    def find(self, sha256: str) -> Stored:
        """Look a checkpoint up."""
        head = self._head(sha256)
        return Stored(sha256, head["ContentLength"], head["LastModified"])

    def metadata(self, sha256: str) -> dict[str, str]:
        """Return the metadata of a checkpoint's safetensors header, completing an upload where that is left to do."""
        try:
            size = self.find(sha256).size_bytes
        except UnknownCheckpointError:
            self.complete(sha256)
            size = self.find(sha256).size_bytes
        return self._metadata(self._key(sha256), size, sha256)

    def freshen(self, sha256: str, now: datetime) -> bool:
        """Say whether a checkpoint is there; copying it onto itself makes it young."""
        try:
            self._copy(self._key(sha256), self._key(sha256), MetadataDirective="REPLACE")
        except UnknownCheckpointError:
            return False
        return True

    def sound(self, sha256: str) -> bool:
        """Say whether the service's own checksum is the name; one that is not loses its name."""
        if _hexadecimal(self._head(sha256).get("ChecksumSHA256")) == sha256:
            return True
        with self._answering():
            self._copy(self._key(sha256), self._under("checked", f"damaged-{sha256}"))
            self._delete(self._key(sha256))
        return False

    @contextmanager
    def open(self, sha256: str) -> Iterator[IO[bytes]]:
        """Read a checkpoint's bytes."""
        with self._answering(sha256), closing(self._client.get_object(**self._at(self._key(sha256)))["Body"]) as stream:
            yield stream

    def take_in(self, sha256: str, stream: IO[bytes]) -> None:
        """Store a checkpoint whose bytes are at hand."""
        with self._answering():
            self._client.upload_fileobj(stream, self._address.bucket, self._incoming(sha256))
        self.complete(sha256)

    def listing(self) -> Iterator[Stored]:
        """Go through all checkpoints."""
        for entry in self._entries(self._address.prefix):
            name = entry["Key"].removeprefix(self._address.prefix)
            if re.fullmatch(r"([0-9a-f]{2})/\1[0-9a-f]{62}", name):
                yield Stored(name[3:], entry["Size"], entry["LastModified"])

    def remove(self, sha256: str, before: datetime) -> bool:
        """Delete a checkpoint unless it is younger."""
        try:
            if self.find(sha256).stored_at >= before:
                return False
        except UnknownCheckpointError:
            return True
        with self._answering():
            self._delete(self._key(sha256))
        return True

    def leftovers(self, before: datetime) -> Iterator[Leftover]:
        """Go through uploads that nobody completed, and what a killed server left."""
        for folder in ("incoming", "checked"):
            for entry in self._entries(self._under(folder, "")):
                if entry["LastModified"] < before:
                    yield Leftover(entry["Key"], entry["Size"], entry["LastModified"])

    def discard(self, leftover: Leftover) -> None:
        """Delete a leftover."""
        with self._answering():
            self._delete(leftover.name)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _take_in(self, sha256: str, uploaded: str, size: int) -> None:
        """Verify an upload out of its sender's reach, and give it its name."""
        checked = self._under("checked", uuid4().hex)
        with self._answering():
            try:
                require_size(size, self._max_bytes)
                self._copy(uploaded, checked)
                require_hash(sha256, self._hash(checked) or "", size)
                self._metadata(checked, size, sha256)
                self._copy(checked, self._key(sha256))
            except UnknownCheckpointError:
                self.find(sha256)  # another call took it in meanwhile
            finally:
                self._delete(uploaded, checked)

    def _copy(self, source: str, target: str, **options: str) -> None:
        """Copy inside the store, which hashes the bytes as it does so."""
        place = {"Bucket": self._address.bucket, "Key": source}
        with self._answering(source.rpartition("/")[2]):
            self._client.copy_object(**self._at(target), CopySource=place, ChecksumAlgorithm="SHA256", **options)

    def _head(self, sha256: str) -> dict[str, Any]:
        with self._answering(sha256):
            head: dict[str, Any] = self._client.head_object(**self._at(self._key(sha256)), ChecksumMode="ENABLED")
        return head

    def _hash(self, key: str) -> str | None:
        """Return the SHA-256 that the store computed of an object; None where it computes none."""
        return _hexadecimal(self._client.head_object(**self._at(key), ChecksumMode="ENABLED").get("ChecksumSHA256"))

    def _metadata(self, key: str, size: int, sha256: str) -> dict[str, str]:
        with self._answering(sha256):
            return read_metadata(_Ranges(self._client, self._at(key), size), size, sha256)

    def _entries(self, prefix: str) -> Iterator[dict[str, Any]]:
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._address.bucket, Prefix=prefix)
        with self._answering():
            for page in pages:
                yield from page.get("Contents", ())

    def _delete(self, *keys: str) -> None:
        for key in keys:
            self._client.delete_object(**self._at(key))

    def _sign(self, call: str, parameters: dict[str, Any]) -> str:
        place = {"Bucket": self._address.bucket, **parameters}
        with self._answering():
            return str(self._signer.generate_presigned_url(call, Params=place, ExpiresIn=ADDRESS_S))

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self._address.bucket, "Key": key}

    def _key(self, sha256: str) -> str:
        return f"{self._address.prefix}{sha256[:2]}/{sha256}"

    def _incoming(self, sha256: str) -> str:
        return f"{self._under('incoming', sha256)}/{uuid4().hex}"

    def _under(self, folder: str, name: str) -> str:
        return f"{self._address.prefix}{folder}/{name}"

    @contextmanager
    def _answering(self, sha256: str | None = None) -> Iterator[None]:
        """Say in the league's words what the service answers; `sha256` is what may be missing."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            way_out = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            raise StoreUnavailableError(self, "no credentials for it were found", way_out) from error
        except ClientError as error:
            code, message = error.response["Error"]["Code"], _line(error.response["Error"].get("Message", ""))
            raise self._named(code, message, sha256) from error
        except BotoCoreError as error:
            rule = f"its service does not answer ({_line(error)})"
            raise StoreUnavailableError(self, rule, "start it, or correct LEAGUE_STORE_ENDPOINT_URL") from error

    def _named(self, code: str, message: str, sha256: str | None) -> LeagueError:
        if sha256 is not None and code in _MISSING:
            return unknown(sha256)
        if code in _KEYS:
            rule, way_out = "its service does not know the credentials", "correct AWS_ACCESS_KEY_ID and its secret"
        elif code in _FORBIDDEN:
            rule, way_out = "the credentials do not suffice", "allow them to list, get, put and delete objects in it"
        elif code in _NO_BUCKET:
            rule, way_out = "there is no such bucket", "make it, or correct LEAGUE_STORE_URL"
        else:
            rule, way_out = f"its service failed ({message})", "send the call again in a while"
        return StoreUnavailableError(self, f"{rule}, {code}", way_out)


class _Ranges:
    """An object of the store, read piece by piece from its beginning on."""

    def __init__(self, client: Any, place: dict[str, str], size: int) -> None:  # noqa: ANN401 - the library has no types
        self._client = client
        self._place = place
        self._left = size
        self._offset = 0

    def read(self, size: int, /) -> bytes:
        size = min(size, self._left)
        if size == 0:
            return b""
        span = f"bytes={self._offset}-{self._offset + size - 1}"
        data: bytes = self._client.get_object(**self._place, Range=span)["Body"].read()
        self._offset += len(data)
        self._left -= len(data)
        return data


def _client(address: S3Address, endpoint: str | None) -> Any:  # noqa: ANN401 - the library has no types
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError as error:
        way_out = "install the extra: pip install 'echelon-league[s3]'"
        raise ConfigurationError(f"store {address}", "object stores need the library boto3", way_out) from error
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "auto" if endpoint is None else "path"},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
        # what else the library would send by itself, services other than AWS do not all understand
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = boto3.session.Session()
    region = os.environ.get("AWS_REGION") or session.region_name or _REGION  # the library itself skips the first
    try:
        return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"store {address}", _line(error), "correct the AWS settings named there") from error


def _hexadecimal(digest: str | None) -> str | None:
    return None if digest is None else base64.b64decode(digest).hex()


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
