"""Calls for gates."""

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Steps, get, iterator_of, operation, post


class GateCalls:
    """Open, show, list and cancel gates."""

    @operation
    def open_gate(self, request: wire.GateCreate) -> Steps[wire.Gate]:
        """Open the gate of this test, or return the existing one."""
        return post("/gates", request, wire.Gate)

    @operation
    def gate(self, gate_id: int) -> Steps[wire.Gate]:
        """Return a gate with its state."""
        return get(f"/gates/{gate_id}", wire.Gate)

    @operation
    def gates(
        self,
        environment: str | None = None,
        state: wire.GateState | None = None,
        player: PlayerKey | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[wire.Page[wire.Gate]]:
        """List gates, newest first; `player` is the candidate or the champion."""
        player_id = None if player is None else (yield from ids.player_id(player))
        query = {"environment": environment, "state": state, "player": player_id, "limit": limit, "cursor": cursor}
        return (yield from get("/gates", wire.Page[wire.Gate], query))

    iter_gates = iterator_of(gates)

    @operation
    def cancel_gate(self, gate_id: int, reason: str = "") -> Steps[wire.Gate]:
        """Cancel an open gate without a verdict."""
        return post(f"/gates/{gate_id}/cancel", wire.GateCancel(reason=reason), wire.Gate)
