"""Calls about gates."""

from league import wire
from league.client.connection import Connection


class GateCalls(Connection):
    """Open gates, look at them and give them up."""

    def gate(self, request: wire.GateCreate) -> wire.Gate:
        """Find the gate of this test of these two, or open it."""
        return self._post("/gates", request, wire.Gate)

    def show_gate(self, gate_id: int) -> wire.Gate:
        """Show a gate and where it stands."""
        return self._get(f"/gates/{gate_id}", wire.Gate)

    def gates(
        self,
        environment: str | None = None,
        state: wire.GateState | None = None,
        player_id: int | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Gate]:
        """List gates, newest first; `player_id` is either of the two."""
        query = {"environment": environment, "state": state, "player": player_id, "limit": limit, "cursor": cursor}
        return self._get("/gates", wire.Page[wire.Gate], query)

    def cancel_gate(self, gate_id: int, reason: str = "") -> wire.Gate:
        """Give an open gate up without a verdict."""
        return self._post(f"/gates/{gate_id}/cancel", wire.GateCancel(reason=reason), wire.Gate)
