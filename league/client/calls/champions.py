"""Calls for champions."""

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Steps, get, iterator_of, operation, post


class ChampionCalls:
    """Show and change the champion."""

    @operation
    def champion(self, environment: str | None = None) -> Steps[wire.Champion]:
        """Return the champion of an environment (None: the league's only one)."""
        return get("/champion", wire.Champion, {"environment": environment})

    @operation
    def champions(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.ChampionChange]]:
        """List champion changes, newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return get("/champion/history", wire.Page[wire.ChampionChange], query)

    iter_champions = iterator_of(champions)

    @operation
    def set_champion(self, player: PlayerKey, reason: str = "", *, expected: PlayerKey | None) -> Steps[wire.Champion]:
        """Make a commander or candidate the champion if the current champion is `expected` (None: no champion)."""
        player_id = yield from ids.player_id(player)
        expected_id = None if expected is None else (yield from ids.player_id(expected))
        request = wire.ChampionRequest(player_id=player_id, reason=reason, expected=expected_id)
        return (yield from post("/champion", request, wire.Champion))
