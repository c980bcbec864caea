"""Bodies of environments, and of the caller's token."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer


class Environment(Answer):
    """A game that the league plays."""

    name: str
    """Unique in the league."""
    signature: str | None
    """Signature of the newest learner's build; null before the first learner."""
    sides: tuple[str, str] | None
    """Names of home and away in an asymmetric game."""
    max_decisions: int | None
    """Longest match that a learner declared."""
    learners: int
    """Number of learners."""
    players: int
    """Number of players, of every kind and standing."""


class CurrentToken(Answer):
    """The token of a call."""

    name: str
    """Name of the token; `open` if the server needs none."""
    scope: Literal["read", "worker", "admin"]
    """Each scope includes those before it."""
    expires_at: datetime | None
    """Null if it never expires."""
