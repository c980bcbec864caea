"""Calls for learners, players, the champion and the audit log."""

from collections.abc import Sequence

from league import wire
from league.client.operation import Steps, get, operation, post


class PlayerCalls:
    """Register learners, publish snapshots and change their standing."""

    @operation
    def learner(self, learner: wire.LearnerCreate) -> Steps[wire.Learner]:
        """Register a learner, or return the existing one."""
        return post("/learners", learner, wire.Learner)

    @operation
    def learners(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Steps[wire.Page[wire.Learner]]:
        """List learners with their latest metrics."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return get("/learners", wire.Page[wire.Learner], query)

    @operation
    def show_learner(self, learner_id: int) -> Steps[wire.Learner]:
        """Show one lineage with its latest metrics."""
        return get(f"/learners/{learner_id}", wire.Learner)

    @operation
    def metrics(
        self, learner_id: int, names: Sequence[str] | None = None, after: int = 0, most: int | None = None
    ) -> Steps[wire.TrainingCurves]:
        """Return a learner's metrics: all or the named ones, at most `most` points, or the points since `after`."""
        query = {"name": names, "after": after, "most": most}
        return get(f"/learners/{learner_id}/metrics", wire.TrainingCurves, query)

    @operation
    def publish(self, player: wire.PlayerCreate) -> Steps[wire.Player]:
        """Publish an uploaded checkpoint as a snapshot of its learner."""
        return post("/players", player, wire.Player)

    @operation
    def enter(self, external: wire.ExternalCreate) -> Steps[wire.Player]:
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
    ) -> Steps[wire.Page[wire.Player]]:
        """List players by id."""
        query = {"environment": environment, "standing": standing, "kind": kind, "limit": limit, "cursor": cursor}
        return get("/players", wire.Page[wire.Player], query)

    @operation
    def player(self, player_id: int) -> Steps[wire.Player]:
        """Return a player."""
        return get(f"/players/{player_id}", wire.Player)

    @operation
    def lineage(self, player_id: int, limit: int = 100, cursor: str | None = None) -> Steps[wire.Page[wire.Ancestor]]:
        """List a player and its ancestors, newest first."""
        return get(f"/players/{player_id}/lineage", wire.Page[wire.Ancestor], {"limit": limit, "cursor": cursor})

    @operation
    def fingerprint(self, player_id: int, limit: int = 10, other: int | None = None) -> Steps[wire.Fingerprint]:
        """Return a player's behaviour profile with the `limit` most similar players, or the distance to `other`."""
        query = {"limit": limit, "other": other}
        return get(f"/players/{player_id}/fingerprint", wire.Fingerprint, query)

    @operation
    def promote(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Make a candidate a commander; with `expected`, only if that is still its standing."""
        return _change(player_id, "promote", reason, expected)

    @operation
    def retire(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Retire a snapshot; its history stays."""
        return _change(player_id, "retire", reason, expected)

    @operation
    def reinstate(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Make a retired or quarantined snapshot a candidate again."""
        return _change(player_id, "reinstate", reason, expected)

    @operation
    def quarantine(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> Steps[wire.Player]:
        """Quarantine a suspicious snapshot."""
        return _change(player_id, "quarantine", reason, expected)

    @operation
    def reports(self, player_id: int, limit: int = 100) -> Steps[wire.Page[wire.PlayerReport]]:
        """List unplayable reports of a player, newest first."""
        return get(f"/players/{player_id}/reports", wire.Page[wire.PlayerReport], {"limit": limit})

    @operation
    def dismiss_reports(self, player_id: int, reason: str = "") -> Steps[wire.Page[wire.PlayerReport]]:
        """Dismiss the open reports of a player as false; return them."""
        request = wire.DismissalRequest(reason=reason)
        return post(f"/players/{player_id}/reports/dismiss", request, wire.Page[wire.PlayerReport])

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

    @operation
    def crown(self, player_id: int, reason: str = "", *, expected: int | None) -> Steps[wire.Champion]:
        """Make a commander or candidate the champion if the current champion is `expected` (None: no champion)."""
        request = wire.ChampionRequest(player_id=player_id, reason=reason, expected=expected)
        return post("/champion", request, wire.Champion)

    @operation
    def log(
        self,
        environment: str | None = None,
        player_id: int | None = None,
        kind: str | None = None,
        *,
        periods: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Steps[wire.Page[wire.Event]]:
        """List the audit log, newest first; `periods` includes closed rating periods."""
        query = {"environment": environment, "player": player_id, "kind": kind, "limit": limit, "cursor": cursor}
        return get("/events/history", wire.Page[wire.Event], {**query, "periods": str(periods).lower()})


def _change(player_id: int, change: str, reason: str, expected: wire.Standing | None) -> Steps[wire.Player]:
    request = wire.LifecycleRequest(reason=reason, expected=expected)
    return post(f"/players/{player_id}/{change}", request, wire.Player)
