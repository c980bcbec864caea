"""Calls for standings, payoffs, rating periods and analyses."""

from league import wire
from league.client.connection import Connection, read


class StandingsCalls(Connection):
    """Read ratings, payoffs and analyses; close rating periods."""

    def standings(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        limit: int = 100,
        cursor: str | None = None,
        as_of: int | None = None,
    ) -> wire.Page[wire.StandingsItem]:
        """Return the standings of an environment (None: the league's only one), now or after a past period."""
        query = {"environment": environment, "standing": standing, "limit": limit, "cursor": cursor, "as_of": as_of}
        return self._get("/standings", wire.Page[wire.StandingsItem], query)

    def ratings(self, player_id: int, limit: int = 1000, cursor: str | None = None) -> wire.Page[wire.RatingPoint]:
        """List a player's ratings, oldest period first."""
        query = {"limit": limit, "cursor": cursor}
        return self._get(f"/players/{player_id}/ratings", wire.Page[wire.RatingPoint], query)

    def matches(self, player_id: int, limit: int = 100, cursor: str | None = None) -> wire.Page[wire.Match]:
        """List a player's matches, newest first."""
        query = {"limit": limit, "cursor": cursor}
        return self._get(f"/players/{player_id}/matches", wire.Page[wire.Match], query)

    def match(self, match_id: int) -> wire.PlayedMatch:
        """Return a match with the behaviour of both sides."""
        return self._get(f"/matches/{match_id}", wire.PlayedMatch)

    def payoff(self, environment: str | None = None, limit: int = 100) -> wire.Payoff:
        """Return the payoff matrix of the `limit` strongest active players; `total` is the number of active players."""
        return self._get("/payoff", wire.Payoff, {"environment": environment, "limit": limit})

    def superiority(self, environment: str | None = None, limit: int = 100) -> wire.Superiority:
        """Return the frozen players' 95 % intervals and pairwise probabilities of superiority."""
        return self._get("/superiority", wire.Superiority, {"environment": environment, "limit": limit})

    def pair_model(self, environment: str | None = None) -> wire.PairModel:
        """Return the model that predicts the scores of pairs, and how well it does."""
        return self._get("/pair-model", wire.PairModel, {"environment": environment})

    def redundant(self, environment: str | None = None) -> wire.Page[wire.Redundancy]:
        """List the snapshots that score like another snapshot that is no weaker."""
        return self._get("/redundancy", wire.Page[wire.Redundancy], {"environment": environment})

    def regressions(self, environment: str | None = None) -> wire.Page[wire.Regression]:
        """List the main learners that lose to snapshots that they beat before."""
        return self._get("/regressions", wire.Page[wire.Regression], {"environment": environment})

    def close_period(self, environment: str | None = None, reason: str = "by hand") -> wire.RatingPeriod:
        """Close the rating period: rate all results reported so far."""
        request = wire.PeriodCreate(environment=environment, reason=reason)
        return self._post("/rating-periods", request, wire.RatingPeriod)

    def periods(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None, version: int | None = None
    ) -> wire.Page[wire.RatingPeriod]:
        """List rating periods of a version of the ratings (None: the current one), newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor, "version": version}
        return self._get("/rating-periods", wire.Page[wire.RatingPeriod], query)

    def health(self) -> wire.Health:
        """Return the server's readiness with the state of its parts."""
        return read(self._send("GET", "/readyz"), wire.Health)
