"""Calls for learners, players, the champion and the audit log."""

from collections.abc import Sequence

from league import wire
from league.client.connection import Connection


class PlayerCalls(Connection):
    """Register learners, publish snapshots and change their standing."""

    def learner(self, learner: wire.LearnerCreate) -> wire.Learner:
        """Register a learner, or return the existing one."""
        return self._post("/learners", learner, wire.Learner)

    def learners(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.Learner]:
        """List learners with their latest metrics."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return self._get("/learners", wire.Page[wire.Learner], query)

    def show_learner(self, learner_id: int) -> wire.Learner:
        """Show one lineage with its latest metrics."""
        return self._get(f"/learners/{learner_id}", wire.Learner)

    def metrics(
        self, learner_id: int, names: Sequence[str] | None = None, after: int = 0, most: int | None = None
    ) -> wire.TrainingCurves:
        """Return a learner's metrics: all or the named ones, at most `most` points, or the points since `after`."""
        query = {"name": names, "after": after, "most": most}
        return self._get(f"/learners/{learner_id}/metrics", wire.TrainingCurves, query)

    def publish(self, player: wire.PlayerCreate) -> wire.Player:
        """Publish an uploaded checkpoint as a snapshot of its learner."""
        return self._post("/players", player, wire.Player)

    def enter(self, external: wire.ExternalCreate) -> wire.Player:
        """Register an external player, or return the existing one."""
        return self._post("/externals", external, wire.Player)

    def players(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        kind: wire.Kind | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Player]:
        """List players by id."""
        query = {"environment": environment, "standing": standing, "kind": kind, "limit": limit, "cursor": cursor}
        return self._get("/players", wire.Page[wire.Player], query)

    def player(self, player_id: int) -> wire.Player:
        """Return a player."""
        return self._get(f"/players/{player_id}", wire.Player)

    def lineage(self, player_id: int, limit: int = 100, cursor: str | None = None) -> wire.Page[wire.Ancestor]:
        """List a player and its ancestors, newest first."""
        return self._get(f"/players/{player_id}/lineage", wire.Page[wire.Ancestor], {"limit": limit, "cursor": cursor})

    def fingerprint(self, player_id: int, limit: int = 10, other: int | None = None) -> wire.Fingerprint:
        """Return a player's behaviour profile with the `limit` most similar players, or the distance to `other`."""
        query = {"limit": limit, "other": other}
        return self._get(f"/players/{player_id}/fingerprint", wire.Fingerprint, query)

    def promote(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Make a candidate a commander; with `expected`, only if that is still its standing."""
        return self._change(player_id, "promote", reason, expected)

    def retire(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Retire a snapshot; its history stays."""
        return self._change(player_id, "retire", reason, expected)

    def reinstate(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Make a retired or quarantined snapshot a candidate again."""
        return self._change(player_id, "reinstate", reason, expected)

    def quarantine(self, player_id: int, reason: str = "", expected: wire.Standing | None = None) -> wire.Player:
        """Quarantine a suspicious snapshot."""
        return self._change(player_id, "quarantine", reason, expected)

    def reports(self, player_id: int, limit: int = 100) -> wire.Page[wire.PlayerReport]:
        """List unplayable reports of a player, newest first."""
        return self._get(f"/players/{player_id}/reports", wire.Page[wire.PlayerReport], {"limit": limit})

    def dismiss_reports(self, player_id: int, reason: str = "") -> wire.Page[wire.PlayerReport]:
        """Dismiss the open reports of a player as false; return them."""
        request = wire.DismissalRequest(reason=reason)
        return self._post(f"/players/{player_id}/reports/dismiss", request, wire.Page[wire.PlayerReport])

    def champion(self, environment: str | None = None) -> wire.Champion:
        """Return the champion of an environment (None: the league's only one)."""
        return self._get("/champion", wire.Champion, {"environment": environment})

    def champions(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> wire.Page[wire.ChampionChange]:
        """List champion changes, newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor}
        return self._get("/champion/history", wire.Page[wire.ChampionChange], query)

    def crown(self, player_id: int, reason: str = "", *, expected: int | None) -> wire.Champion:
        """Make a commander or candidate the champion if the current champion is `expected` (None: no champion)."""
        request = wire.ChampionRequest(player_id=player_id, reason=reason, expected=expected)
        return self._post("/champion", request, wire.Champion)

    def log(
        self,
        environment: str | None = None,
        player_id: int | None = None,
        kind: str | None = None,
        *,
        periods: bool = False,
        limit: int = 100,
        cursor: str | None = None,
    ) -> wire.Page[wire.Event]:
        """List the audit log, newest first; `periods` includes closed rating periods."""
        query = {"environment": environment, "player": player_id, "kind": kind, "limit": limit, "cursor": cursor}
        return self._get("/events/history", wire.Page[wire.Event], {**query, "periods": str(periods).lower()})

    def _change(self, player_id: int, change: str, reason: str, expected: wire.Standing | None) -> wire.Player:
        request = wire.LifecycleRequest(reason=reason, expected=expected)
        return self._post(f"/players/{player_id}/{change}", request, wire.Player)
