"""Who may call what: bearer tokens with one scope each, stored as hashes."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

_SECRET_BYTES = 32


class Scope(IntEnum):
    """What a token may do; each scope includes those before it."""

    READ = 1
    WORKER = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """The scope as people write it."""
        return self.name.lower()


@dataclass(frozen=True)
class Principal:
    """Who is calling: a token's name, or `open` where the server has no tokens; and until when it may."""

    name: str
    scope: Scope
    expires_at: datetime | None = None


OPEN = Principal("open", Scope.ADMIN)
"""Everybody, while no token exists and only this machine can reach the server."""


def new_secret() -> str:
    """Make a token: 256 random bits, readable."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_secret(text: str) -> bool:
    """Say whether a text has the form of a token."""
    return re.fullmatch(r"[A-Za-z0-9_-]{43}", text) is not None


def digest(secret: str) -> str:
    """Return what is stored of a token. A random one needs no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()
