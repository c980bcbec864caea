"""Bearer tokens, each with one scope; only their hashes are stored."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

_SECRET_BYTES = 32


class Scope(IntEnum):
    """Scope of a token; each scope includes the previous ones."""

    READ = 1
    WORKER = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """Lower-case name of the scope."""
        return self.name.lower()


@dataclass(frozen=True)
class Principal:
    """Authenticated caller: the token's name, or `open` without authentication, with its expiry."""

    name: str
    scope: Scope
    expires_at: datetime | None = None


OPEN = Principal("open", Scope.ADMIN)
"""Any caller, if there are no tokens and only this machine can reach the server."""


def new_secret() -> str:
    """Generate a token of 256 random bits."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_secret(text: str) -> bool:
    """Return True if a text has the form of a token."""
    return re.fullmatch(r"[A-Za-z0-9_-]{43}", text) is not None


def digest(secret: str) -> str:
    """Return the stored hash of a token; random tokens need no slow hash."""
    # 256 random bits cannot be guessed offline, unlike passwords, which need a slow hash.
    return hashlib.sha256(secret.encode()).hexdigest()
