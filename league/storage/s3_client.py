"""A bucket of an S3-compatible object store: its objects, and what its service says in the league's words."""

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
_REGION = "us-east-1"  # what services without regions go by
_MISSING = {"404", "NoSuchKey", "NotFound"}
_UNKNOWN_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "ExpiredToken", "AuthFailure"}
_FORBIDDEN = {"403", "AccessDenied", "Forbidden"}
_NO_BUCKET = {"NoSuchBucket"}
_LACKING = {"NotImplemented"}


class NoSuchObjectError(Exception):
    """The bucket has no object of this key."""


@dataclass(frozen=True)
class BucketAddress:
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
class Entry:
    """An object of a bucket, without its bytes."""

    key: str
    size_bytes: int
    touched_at: datetime


class Bucket:
    """A bucket and a connection to its service; keys are whole, prefix included.

    Every call raises `StoreUnavailableError` where the service does not answer or refuses.

    Args:
        address: The bucket. Credentials come from where every AWS tool has them.
        hashing: Who computes the SHA-256 of an object: the service as it copies, or this process, reading it.

    Raises:
        ConfigurationError: The library is missing, or an address is none.
    """

    def __init__(self, address: BucketAddress, hashing: Hashing) -> None:
        self.address = address
        self._hashing = hashing
        self._client = _client(address, address.endpoint)
        self._signer = self._client if address.public is None else _client(address, address.public)

    def check(self) -> None:
        """Ask for one key; an answer is all that matters."""
        with self._answering():
            place = {"Bucket": self.address.bucket, "Prefix": self.address.prefix}
            self._client.list_objects_v2(**place, MaxKeys=1)

    def create(self, key: str, content: bytes) -> None:
        """Write an object that must not be there yet."""
        with self._answering():
            self._client.put_object(**self._at(key), Body=content, IfNoneMatch="*")

    def write(self, key: str, stream: IO[bytes]) -> None:
        """Write an object of any size."""
        with self._answering():
            self._client.upload_fileobj(stream, self.address.bucket, key)

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the service, which hashes the bytes if that is its part; onto itself it becomes young.

        Raises:
            NoSuchObjectError: There is no source.
        """
        demands = {"MetadataDirective": "REPLACE" if source == target else "COPY"}
        if self._hashing == "service":
            demands["ChecksumAlgorithm"] = "SHA256"
        with self._finding():
            self._client.copy_object(**self._at(target), CopySource=self._at(source), **demands)

    def find(self, key: str) -> Entry:
        """Look an object up.

        Raises:
            NoSuchObjectError: There is none.
        """
        head = self._head(key)
        return Entry(key, head["ContentLength"], head["LastModified"])

    def sha256(self, key: str) -> str | None:
        """Return the SHA-256 of an object, in hexadecimal; None where the service was to compute it and did not.

        Raises:
            NoSuchObjectError: There is no such object.
        """
        if self._hashing == "server":
            return self._read_sha256(key)
        digest: str | None = self._head(key).get("ChecksumSHA256")
        if digest is None or "-" in digest:  # of parts, not of the whole
            return None
        return base64.b64decode(digest).hex()

    @contextmanager
    def open(self, key: str) -> Iterator[IO[bytes]]:
        """Read an object from its beginning on.

        Raises:
            NoSuchObjectError: There is none.
        """
        with self._finding(), closing(self._client.get_object(**self._at(key))["Body"]) as stream:
            yield stream

    def part(self, key: str, begin: int, end: int) -> bytes:
        """Read the bytes of an object from `begin` up to `end`, at least one.

        Raises:
            NoSuchObjectError: There is no such object.
        """
        with self._finding():
            answer = self._client.get_object(**self._at(key), Range=f"bytes={begin}-{end - 1}")
            content: bytes = answer["Body"].read()
        return content

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Go through the objects whose keys begin so."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.address.bucket, Prefix=prefix)
        with self._answering():
            for page in pages:
                for found in page.get("Contents", ()):
                    yield Entry(found["Key"], found["Size"], found["LastModified"])

    def delete(self, *keys: str) -> None:
        """Delete objects; those that are gone already are fine."""
        with self._answering():
            for key in keys:
                self._client.delete_object(**self._at(key))

    def sign(self, call: Literal["get_object", "put_object"], key: str, expiry_s: int, **demands: str | int) -> str:
        """Return an address at which anybody may make one kind of call for a while, keeping to the demands."""
        with self._answering():
            place = {**self._at(key), **demands}
            return str(self._signer.generate_presigned_url(call, Params=place, ExpiresIn=expiry_s))

    def _read_sha256(self, key: str) -> str:
        digest = hashlib.sha256()
        with self.open(key) as stream:
            while block := stream.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest()

    def _head(self, key: str) -> dict[str, Any]:
        with self._finding():
            head: dict[str, Any] = self._client.head_object(**self._at(key), ChecksumMode="ENABLED")
        return head

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.address.bucket, "Key": key}

    @contextmanager
    def _finding(self) -> Iterator[None]:
        """Do as `_answering` does; that an object is not there is an answer, too."""
        from botocore.exceptions import ClientError

        with self._answering():
            try:
                yield
            except ClientError as error:
                if error.response["Error"]["Code"] in _MISSING:
                    raise NoSuchObjectError from error
                raise

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Say in the league's words what the service answers."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

        try:
            yield
        except (NoCredentialsError, PartialCredentialsError) as error:
            way_out = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
            raise StoreUnavailableError(self.address, "no credentials for it were found", way_out) from error
        except ClientError as error:
            code, message = error.response["Error"]["Code"], _line(error.response["Error"].get("Message", ""))
            raise self._named(code, message) from error
        except BotoCoreError as error:
            rule = f"its service does not answer ({_line(error)})"
            raise StoreUnavailableError(self.address, rule, "start it, or correct LEAGUE_STORE_ENDPOINT_URL") from error

    def _named(self, code: str, message: str) -> LeagueError:
        if code in _UNKNOWN_KEYS:
            rule, way_out = "its service does not know the credentials", "correct AWS_ACCESS_KEY_ID and its secret"
        elif code in _FORBIDDEN:
            rule, way_out = "the credentials do not suffice", "allow them to list, get, put and delete objects in it"
        elif code in _NO_BUCKET | _MISSING:
            rule = "there is no such bucket"
            way_out = "make it, or correct LEAGUE_STORE_URL, or LEAGUE_STORE_ENDPOINT_URL, where its service is"
        elif code in _LACKING:
            rule = f"its service lacks what the league asks of it ({message})"
            way_out = "try LEAGUE_STORE_HASHING=server, or another service"
        else:
            rule, way_out = f"its service failed ({message})", "send the call again in a while"
        return StoreUnavailableError(self.address, f"{rule}, {code}", way_out)


def _client(address: BucketAddress, endpoint: str | None) -> Any:  # noqa: ANN401 - the library has no types
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


def _line(error: object) -> str:
    return " ".join(str(error).split())[:200]
