"""Calls for gates."""

from league import wire
from league.client.connection import Connection


class GateCalls(Connection):
    """Open, show, list and cancel gates."""

    def gate(self, request: wire.GateCreate) -> wire.Gate:
        """Open the gate of this test, or return the existing one."""
        return self._post("/gates", request, wire.Gate)

    def show_gate(self, gate_id: int) -> wire.Gate:
        """Return a gate with its state."""
        return self._get(f"/gates/{gate_id}", wire.Gate)

    def gates(
        self,
        environment: str | None = None,
        state: wire.GateState | None = None,
        player_id: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Gate]:
        """List gates, newest first; `player_id` matches the candidate or the champion."""
        query = {"environment": environment, "state": state, "player": player_id, "limit": limit, "cursor": cursor}
        return self._get("/gates", wire.Page[wire.Gate], query)

    def cancel_gate(self, gate_id: int, reason: str = "") -> wire.Gate:
        """Cancel an open gate without a verdict."""
        return self._post(f"/gates/{gate_id}/cancel", wire.GateCancel(reason=reason), wire.Gate)
