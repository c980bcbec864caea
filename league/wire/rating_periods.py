"""Bodies of rating periods."""

from datetime import datetime
from typing import Any

from league.wire.base import Answer, EnvironmentName, Request, Text


class PeriodCreate(Request):
    """A rating period to close."""

    environment: EnvironmentName | None = None
    """Name of the environment; null for the league's only one."""
    reason: Text = "by hand"
    """Reason in words."""


class RatingPeriod(Answer):
    """A closed rating period."""

    id: int
    """Its id."""
    version: int
    """Version of the ratings; a rebuild under another config adds one."""
    number: int
    """Running number, from 1."""
    environment: str
    """Name of the environment."""
    matches: int
    """Number of matches."""
    players: int
    """Number of players with a match."""
    config_id: str
    """First digits of the hash of `config`."""
    config: dict[str, Any]
    """Rating settings of the period."""
    refitted: bool
    """Whether the whole history was fitted at its end."""
    closed_at: datetime
    """Time of closing."""
    reason: str
    """Reason in words."""
