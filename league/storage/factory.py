"""Factory of the configured checkpoint store."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from league.errors import ConfigurationError
from league.settings import Settings
from league.storage.local import DirectoryStore
from league.storage.s3 import S3Store
from league.storage.s3_client import BucketAddress


def open_store(settings: Settings) -> DirectoryStore | S3Store:
    """Return the checkpoint store without reading or writing anything.

    Raises:
        ConfigurationError: `store_url` is not a valid store URL.
    """
    url = settings.store_url
    if url is None:
        return DirectoryStore(settings.home / "checkpoints", settings.checkpoint_max_bytes)
    parts = urlsplit(url)
    if parts.scheme == "s3":
        address = BucketAddress.parse(url, settings.store_endpoint_url, settings.store_public_url)
        return S3Store(address, settings.checkpoint_max_bytes, settings.store_hashing)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return DirectoryStore(Path(unquote(parts.path)), settings.checkpoint_max_bytes)
    if parts.scheme == "" and url:
        return DirectoryStore(Path(url), settings.checkpoint_max_bytes)
    rule = "checkpoints are stored in a folder or in a bucket"
    raise ConfigurationError(
        f"LEAGUE_STORE_URL={url}", rule, "use file:///FOLDER, s3://BUCKET/PREFIX or leave it unset"
    )
