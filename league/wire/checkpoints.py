"""The bytes of policies, and where to send them."""

from typing import Annotated

from pydantic import Field

from league.wire.base import PLAIN, Answer, Request


class UploadCreate(Request):
    """A checkpoint about to be sent."""

    size_bytes: Annotated[int, Field(ge=0, lt=2**63), PLAIN]


class Upload(Answer):
    """Where to send a checkpoint's bytes with PUT: nowhere if they are `stored`, else to `url` with these `headers`.

    A null `url` is the checkpoint's own address at the server. After a PUT to another one, POST to
    `/checkpoints/{sha256}/complete` has the bytes verified.
    """

    stored: bool
    url: str | None
    headers: dict[str, str]


class Checkpoint(Answer):
    """A checkpoint that the league has."""

    sha256: str
    size_bytes: int
