"""Rating periods."""

from datetime import datetime
from typing import Any

from league.wire.base import Answer, EnvironmentName, Request, Text


class PeriodCreate(Request):
    """A rating period to close."""

    environment: EnvironmentName | None = None
    """Null for the league's only one."""
    reason: Text = "by hand"
    """Why, in words."""


class RatingPeriod(Answer):
    """A closed rating period."""

    id: int
    """Its id."""
    version: int
    """Version of the ratings; rating everything again makes a new one."""
    number: int
    """Running number, from 1."""
    environment: str
    """Name of the environment."""
    matches: int
    """Matches in it."""
    players: int
    """Their players."""
    config_id: str
    """Beginning of the hash of `config`."""
    config: dict[str, Any]
    """Numbers that it was rated under."""
    refitted: bool
    """Whether the whole history was fitted at its end."""
    closed_at: datetime
    """When it was closed."""
    reason: str
    """Why, in words."""
