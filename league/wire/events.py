"""Body of events."""

from datetime import datetime
from typing import Any

from league.wire.base import Answer


class Event(Answer):
    """An event of the league."""

    id: int
    """Its id."""
    kind: str
    """Kind of event, for example `result`, `period`, `promote` or `token`."""
    environment: str | None
    """Name of the environment; null for the whole league."""
    player_id: int | None
    """Player concerned, if any."""
    actor: str
    """Token, rule or process that did it."""
    reason: str
    """Reason in words."""
    details: dict[str, Any]
    """Further fields, by kind."""
    created_at: datetime
    """Time of the event."""


class StreamedEvent(Event):
    """An event of the stream."""

    cursor: str
    """Position after the event, from which a reader resumes."""
