"""Calls for the audit log."""

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Steps, get, iterator_of, operation


class EventCalls:
    """Read the audit log."""

    @operation
    def events(
        self,
        environment: str | None = None,
        player: PlayerKey | None = None,
        kind: str | None = None,
        *,
        periods: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[wire.Page[wire.Event]]:
        """List the audit log, newest first; `periods` includes closed rating periods."""
        player_id = None if player is None else (yield from ids.player_id(player))
        query = {"environment": environment, "player": player_id, "kind": kind, "limit": limit, "cursor": cursor}
        query["periods"] = str(periods).lower()
        return (yield from get("/events/history", wire.Page[wire.Event], query))

    iter_events = iterator_of(events)
