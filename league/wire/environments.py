"""Environments of the league, and the token of a caller."""

from datetime import datetime
from typing import Literal

from league.wire.base import Answer


class Environment(Answer):
    """A game that the league plays."""

    name: str
    """Unique in the league."""
    signature: str | None
    """Of the newest learner's build; null before the first learner."""
    sides: tuple[str, str] | None
    """Names of home and away if these are unlike."""
    max_decisions: int | None
    """Longest match, as a learner declared it."""
    learners: int
    """Number of its lineages."""
    players: int
    """Number of its players, of every kind and standing."""


class CurrentToken(Answer):
    """The token of a call."""

    name: str
    """Of the token; `open` if the server needs none."""
    scope: Literal["read", "worker", "admin"]
    """Each scope includes those before it."""
    expires_at: datetime | None
    """Null if it never expires."""
