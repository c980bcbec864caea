"""Stores of a folder and of a bucket, each with a way to look into it and to damage it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from s3_server import Service

from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store

SOON = timedelta(hours=1)
MAX_BYTES = 4 * 2**20


@dataclass
class Kept:
    """A store from outside the league: its settings, every name in it, and a way to damage what it holds."""

    settings: dict[str, Any]
    names: Callable[[], list[str]]
    overwrite: Callable[[str, bytes], None]
    store: DirectoryStore | S3Store = field(init=False, repr=False)


def folder(path: Path) -> Kept:
    def names() -> list[str]:
        return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())

    def overwrite(name: str, data: bytes) -> None:
        (path / name).write_bytes(data)

    return Kept({"store_url": path.as_uri()}, names, overwrite)


def bucket(service: Service, name: str) -> Kept:
    client = service.client

    def names() -> list[str]:
        found = client.list_objects_v2(Bucket=name).get("Contents", ())
        return sorted(entry["Key"].removeprefix("runs/one/") for entry in found)

    def overwrite(key: str, data: bytes) -> None:
        client.put_object(Bucket=name, Key=f"runs/one/{key}", Body=data, ChecksumAlgorithm="SHA256")

    return Kept({"store_url": f"s3://{name}/runs/one", "store_endpoint_url": service.url}, names, overwrite)


def place(name: str) -> str:
    return f"{name[:2]}/{name}"
