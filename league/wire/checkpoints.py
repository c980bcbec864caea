"""Bodies of checkpoint uploads."""

from typing import Annotated

from pydantic import Field

from league.wire.base import PLAIN, Answer, Request


class UploadCreate(Request):
    """A checkpoint about to be uploaded."""

    size_bytes: Annotated[int, Field(ge=0, lt=2**63), PLAIN]
    """Size in bytes."""


class Upload(Answer):
    """Destination of a checkpoint upload."""

    stored: bool
    """Whether the league has it already, so that no upload is needed."""
    url: str | None
    """URL for PUT; null for the checkpoint's own. Afterwards POST to `/checkpoints/{sha256}/complete`."""
    headers: dict[str, str]
    """Headers to send with it."""


class Checkpoint(Answer):
    """A stored checkpoint."""

    sha256: str
    """SHA-256 of the bytes."""
    size_bytes: int
    """Size in bytes."""
