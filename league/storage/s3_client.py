"""Client of a bucket of an S3-compatible object store that raises the league's errors."""

import base64
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Literal, Self
from urllib.parse import urlsplit

from league.errors import ConfigurationError, LeagueError, StoreUnavailableError

Hashing = Literal["service", "server"]

_BLOCK_BYTES = 2**20
_CONNECT_S, _READ_S, _ATTEMPTS = 5, 30, 3
_REGION = "us-east-1"  # the default of services without regions
_MISSING = {"404", "NoSuchKey", "NotFound"}
_UNKNOWN_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AuthFailure"}
_FORBIDDEN = {"403", "AccessDenied", "Forbidden"}
_NO_BUCKET = {"NoSuchBucket"}
_LACKING = {"NotImplemented"}


class NoSuchObjectError(Exception):
    """The bucket has no object of this key."""


@dataclass(frozen=True)
class BucketAddress:
    """Location of a bucket.

    Attributes:
        bucket: Its name.
        prefix: Prefix of the keys; empty, or ending in a slash.
        endpoint: URL of the service; None for the default of the AWS configuration.
        public: URL at which workers reach the service; None if it is the same.
    """

    bucket: str
    prefix: str
    endpoint: str | None
    public: str | None

    @classmethod
    def parse(cls, url: str, endpoint: str | None, public: str | None) -> Self:
        """Parse `s3://BUCKET/PREFIX`.

        Raises:
            ConfigurationError: The URL has no valid bucket name.
        """
        parts = urlsplit(url)
        if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", parts.netloc) or parts.query or parts.fragment:
            shown = re.sub(r"//[^/]*@", "//***@", url)
            raise ConfigurationError(
                f"LEAGUE_STORE_URL={shown}", "it has no valid bucket name", "use s3://BUCKET/PREFIX"
            )
        prefix = parts.path.strip("/")
        return cls(parts.netloc, f"{prefix}/" if prefix else "", endpoint, public)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


@dataclass(frozen=True)
class Entry:
    """Metadata of a bucket's object."""

    key: str
    size_bytes: int
    touched_at: datetime


class Bucket:
    """Client of a bucket; keys include the prefix.

    Every call raises `StoreUnavailableError` if the service does not respond or rejects the request.

    Args:
        address: The bucket. Credentials come from the AWS configuration.
        hashing: Whether the service computes the SHA-256 of an object when copying, or this process by reading it.

    Raises:
        ConfigurationError: The library is missing, or a URL is invalid.
    """

    def __init__(self, address: BucketAddress, hashing: Hashing) -> None:
        self.address = address
        self._hashing = hashing
        self._client = _client(address, address.endpoint)
        # The signature covers the host name, so URLs for workers must be signed for the public one.
        self._signer = self._client if address.public is None else _client(address, address.public)

    def check(self) -> None:
        """Check the connection by listing one key."""
        with self._converting_errors():
            self._client.list_objects_v2(Bucket=self.address.bucket, Prefix=self.address.prefix, MaxKeys=1)

    def create(self, key: str, content: bytes) -> None:
        """Create an object that must not exist yet."""
        with self._converting_errors():
            self._client.put_object(**self._at(key), Body=content, IfNoneMatch="*")

    def put(self, key: str, content: bytes) -> None:
        """Create or replace an object; the service compares the bytes with their MD5, which all services support."""
        digest = hashlib.md5(content, usedforsecurity=False).digest()
        with self._converting_errors():
            body = {"Body": content, "ContentMD5": base64.b64encode(digest).decode()}
            self._client.put_object(**self._at(key), **body)

    def write(self, key: str, stream: IO[bytes]) -> None:
        """Write an object of any size."""
        with self._converting_errors():
            self._client.upload_fileobj(stream, self.address.bucket, key)

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the service; a copy onto itself updates its modification time and checksum.

        Raises:
            NoSuchObjectError: The source does not exist.
        """
        parameters = {"MetadataDirective": "REPLACE" if source == target else "COPY"}
        if self._hashing == "service":
            parameters["ChecksumAlgorithm"] = "SHA256"
        with self._missing_as_error():
            self._client.copy_object(**self._at(target), CopySource=self._at(source), **parameters)

    def find(self, key: str) -> Entry:
        """Return an object's metadata.

        Raises:
            NoSuchObjectError: The object does not exist.
        """
        head = self._head(key)
        return Entry(key, head["ContentLength"], head["LastModified"])

    def sha256(self, key: str) -> str | None:
        """Return the SHA-256 of an object, in hexadecimal; None if the service did not compute it.

        Raises:
            NoSuchObjectError: The object does not exist.
        """
        if self._hashing == "server":
            return self._read_sha256(key)
        digest: str | None = self._head(key).get("ChecksumSHA256")
        if digest is None or "-" in digest:  # a checksum of parts, not of the whole object
            return None
        return base64.b64decode(digest).hex()

    @contextmanager
    def open(self, key: str) -> Iterator[IO[bytes]]:
        """Open an object for reading.

        Raises:
            NoSuchObjectError: The object does not exist.
        """
        with self._missing_as_error(), closing(self._client.get_object(**self._at(key))["Body"]) as stream:
            yield stream

    def part(self, key: str, begin: int, end: int) -> bytes:
        """Read the bytes of an object from `begin` up to `end`, at least one.

        Raises:
            NoSuchObjectError: The object does not exist.
        """
        with self._missing_as_error():
            answer = self._client.get_object(**self._at(key), Range=f"bytes={begin}-{end - 1}")
            content: bytes = answer["Body"].read()
        return content

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield the objects whose keys have a prefix."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.address.bucket, Prefix=prefix)
        with self._converting_errors():
            for page in pages:
                for found in page.get("Contents", ()):
                    yield Entry(found["Key"], found["Size"], found["LastModified"])

    def delete(self, *keys: str) -> None:
        """Delete objects; missing ones are ignored."""
        with self._converting_errors():
            for key in keys:
                self._client.delete_object(**self._at(key))

    def sign(self, call: Literal["get_object", "put_object"], key: str, expiry_s: int, **parameters: str | int) -> str:
        """Return a presigned URL for one operation with the given parameters."""
        with self._converting_errors():
            params = {**self._at(key), **parameters}
            return str(self._signer.generate_presigned_url(call, Params=params, ExpiresIn=expiry_s))

    def _read_sha256(self, key: str) -> str:
        digest = hashlib.sha256()
        with self.open(key) as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def _head(self, key: str) -> dict[str, Any]:
        with self._missing_as_error():
            head: dict[str, Any] = self._client.head_object(**self._at(key), ChecksumMode="ENABLED")
        return head

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.address.bucket, "Key": key}

    @contextmanager
    def _missing_as_error(self) -> Iterator[None]:
        """Convert errors of the service, a missing object to `NoSuchObjectError`."""
        from botocore.exceptions import ClientError

        with self._converting_errors():
            try:
                yield
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    raise NoSuchObjectError from error
                raise

    @contextmanager
    def _converting_errors(self) -> Iterator[None]:
        """Convert errors of the service to `StoreUnavailableError`."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            raise StoreUnavailableError(self.address, "found no credentials for it", remedy) from error
        except ClientError as error:
            code, message = error.response["Error"]["Code"], _line(error.response["Error"].get("Message", ""))
            raise self._named(code, message) from error
        except BotoCoreError as error:
            rule = f"its service does not respond ({_line(error)})"
            raise StoreUnavailableError(self.address, rule, "start it, or correct LEAGUE_STORE_ENDPOINT_URL") from error

    def _named(self, code: str, message: str) -> LeagueError:
        if code in _UNKNOWN_KEYS:
            rule, remedy = "its service does not know the credentials", "correct AWS_ACCESS_KEY_ID and its secret"
        elif code in _FORBIDDEN:
            rule, remedy = "the credentials lack permissions", "allow them to list, get, put and delete objects in it"
        elif code in _NO_BUCKET | _MISSING:
            rule = "the bucket does not exist"
            remedy = "create it, or correct LEAGUE_STORE_URL or LEAGUE_STORE_ENDPOINT_URL"
        elif code in _LACKING:
            rule = f"its service does not support a required operation ({message})"
            remedy = "try LEAGUE_STORE_HASHING=server, or another service"
        else:
            rule, remedy = f"its service failed ({message})", "try again later"
        return StoreUnavailableError(self.address, f"{rule}, {code}", remedy)


def _client(address: BucketAddress, endpoint: str | None) -> Any:  # noqa: ANN401 - the library has no types
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ModuleNotFoundError as error:
        remedy = "install the extra: pip install 'echelon-league[s3]'"
        raise ConfigurationError(f"store {address}", "object stores require the library boto3", remedy) from error
    config = Config(
        signature_version="s3v4",
        s3={"addressing_style": "auto" if endpoint is None else "path"},
        connect_timeout=_CONNECT_S,
        read_timeout=_READ_S,
        retries={"max_attempts": _ATTEMPTS, "mode": "standard"},
        # services other than AWS do not all support the checksums that the library would add
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    session = boto3.session.Session()
    region = os.environ.get("AWS_REGION") or session.region_name or _REGION  # the library ignores AWS_REGION
    try:
        return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)
    except (BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"store {address}", _line(error), "correct the AWS settings named there") from error


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
