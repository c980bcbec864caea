"""The bytes of policies, and where to send them."""

from typing import Annotated

from pydantic import Field

from league.wire.base import PLAIN, Answer, Request


class UploadCreate(Request):
    """A checkpoint about to be uploaded."""

    size_bytes: Annotated[int, Field(ge=0, lt=2**63), PLAIN]
    """Size in bytes."""


class Upload(Answer):
    """Where to upload a checkpoint."""

    stored: bool
    """Whether the league has it already, so that there is nothing to upload."""
    url: str | None
    """Address for PUT; null for the checkpoint's own. Afterwards POST to `/checkpoints/{sha256}/complete`."""
    headers: dict[str, str]
    """Headers to send with it."""


class Checkpoint(Answer):
    """A checkpoint that the league has."""

    sha256: str
    """SHA-256 of the bytes."""
    size_bytes: int
    """Size in bytes."""
