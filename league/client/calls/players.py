"""Calls for players and changes of their standing."""

from collections.abc import Sequence

from league import wire
from league.client import names as ids
from league.client.names import PlayerKey
from league.client.operation import Steps, get, iterator_of, operation, patch, post


class PlayerCalls:
    """Publish snapshots, show players and change their standing."""

    @operation
    def publish(self, player: wire.PlayerCreate) -> Steps[wire.Player]:
        """Publish an uploaded checkpoint as a snapshot of its learner."""
        return post("/players", player, wire.Player)

    @operation
    def register_external(self, external: wire.ExternalCreate) -> Steps[wire.Player]:
        """Register an external player, or return the existing one."""
        return post("/externals", external, wire.Player)

    @operation
    def players(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        kind: wire.Kind | None = None,
        limit: int = 100,
        cursor: str | None = None,
        *,
        tag: str | None = None,
    ) -> Steps[wire.Page[wire.Player]]:
        """List players by id."""
        conditions = {"environment": environment, "standing": standing, "kind": kind, "tag": tag}
        return get("/players", wire.Page[wire.Player], {**conditions, "limit": limit, "cursor": cursor})

    iter_players = iterator_of(players)

    @operation
    def player(self, player: PlayerKey, environment: str | None = None) -> Steps[wire.Player]:
        """Return a player; `environment` is for a name that several environments have."""
        found = yield from ids.player_id(player, environment)
        return (yield from get(f"/players/{found}", wire.Player))

    @operation
    def annotate(
        self, player: PlayerKey, tags: Sequence[str] | None = None, note: str | None = None
    ) -> Steps[wire.Player]:
        """Replace the tags or the note of a player; None leaves them unchanged."""
        found = yield from ids.player_id(player)
        update = wire.PlayerUpdate(tags=None if tags is None else tuple(tags), note=note)
        return (yield from patch(f"/players/{found}", update, wire.Player))

    @operation
    def ratings(
        self, player: PlayerKey, limit: int = 1000, cursor: str | None = None
    ) -> Steps[wire.Page[wire.RatingPoint]]:
        """List a player's ratings, oldest period first."""
        query = {"limit": limit, "cursor": cursor}
        return ids.get_of_player(player, "ratings", wire.Page[wire.RatingPoint], query)

    iter_ratings = iterator_of(ratings)

    @operation
    def lineage(
        self, player: PlayerKey, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.Ancestor]]:
        """List a player and its ancestors, newest first."""
        query = {"limit": limit, "cursor": cursor}
        return ids.get_of_player(player, "lineage", wire.Page[wire.Ancestor], query)

    iter_lineage = iterator_of(lineage)

    @operation
    def fingerprint(
        self, player: PlayerKey, limit: int = 10, other: PlayerKey | None = None
    ) -> Steps[wire.Fingerprint]:
        """Return a player's behaviour profile with the `limit` most similar players, or the distance to `other`."""
        other_id = None if other is None else (yield from ids.player_id(other))
        query = {"limit": limit, "other": other_id}
        return (yield from ids.get_of_player(player, "fingerprint", wire.Fingerprint, query))

    @operation
    def promote(self, player: PlayerKey, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Make a candidate a commander; with `expected`, only if that is still its standing."""
        return _change(player, "promote", reason, expected)

    @operation
    def retire(self, player: PlayerKey, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Retire a snapshot; its history stays."""
        return _change(player, "retire", reason, expected)

    @operation
    def reinstate(
        self, player: PlayerKey, reason: str = "", expected: wire.Standing | None = None
    ) -> Steps[wire.Player]:
        """Make a retired or quarantined snapshot a candidate again."""
        return _change(player, "reinstate", reason, expected)

    @operation
    def quarantine(
        self, player: PlayerKey, reason: str = "", expected: wire.Standing | None = None
    ) -> Steps[wire.Player]:
        """Quarantine a suspicious snapshot."""
        return _change(player, "quarantine", reason, expected)

    @operation
    def reports(
        self, player: PlayerKey, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.PlayerReport]]:
        """List unplayable reports of a player, newest first."""
        query = {"limit": limit, "cursor": cursor}
        return ids.get_of_player(player, "reports", wire.Page[wire.PlayerReport], query)

    iter_reports = iterator_of(reports)

    @operation
    def dismiss_reports(self, player: PlayerKey, reason: str = "") -> Steps[wire.Page[wire.PlayerReport]]:
        """Dismiss the open reports of a player as false; return them."""
        found = yield from ids.player_id(player)
        request = wire.DismissalRequest(reason=reason)
        return (yield from post(f"/players/{found}/reports/dismiss", request, wire.Page[wire.PlayerReport]))


def _change(player: PlayerKey, change: str, reason: str, expected: wire.Standing | None) -> Steps[wire.Player]:
    found = yield from ids.player_id(player)
    request = wire.LifecycleRequest(reason=reason, expected=expected)
    return (yield from post(f"/players/{found}/{change}", request, wire.Player))
