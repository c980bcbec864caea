"""What happened."""

from datetime import datetime
from typing import Any

from league.wire.base import Answer


class Event(Answer):
    """Something that happened: `result`, `period`, a change of standing, of the champion or of a token; who and why."""

    id: int
    kind: str
    environment: str | None
    player_id: int | None
    actor: str
    reason: str
    details: dict[str, Any]
    created_at: datetime
