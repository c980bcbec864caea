"""Calls for standings, payoffs, rating periods, analyses and environments."""

from league import wire
from league.client.operation import Call, Steps, get, iterator_of, operation, post
from league.client.responses import read


class StandingsCalls:
    """Read ratings, payoffs and analyses; close rating periods."""

    @operation
    def standings(
        self,
        environment: str | None = None,
        standing: wire.Standing | None = None,
        limit: int = 100,
        cursor: str | None = None,
        as_of: int | None = None,
        *,
        q: str | None = None,
    ) -> Steps[wire.Page[wire.StandingsItem]]:
        """Return the standings of an environment (None: the league's only one), now or after a past period.

        `q` is a part of a name, call sign or tag.
        """
        conditions = {"environment": environment, "standing": standing, "as_of": as_of, "q": q}
        return get("/standings", wire.Page[wire.StandingsItem], {**conditions, "limit": limit, "cursor": cursor})

    iter_standings = iterator_of(standings)

    @operation
    def payoff(self, environment: str | None = None, limit: int = 100) -> Steps[wire.Payoff]:
        """Return the payoff matrix of the `limit` strongest active players; `total` is the number of active players."""
        return get("/payoff", wire.Payoff, {"environment": environment, "limit": limit})

    @operation
    def superiority(self, environment: str | None = None, limit: int = 100) -> Steps[wire.Superiority]:
        """Return the frozen players' 95 % intervals and pairwise probabilities of superiority."""
        return get("/superiority", wire.Superiority, {"environment": environment, "limit": limit})

    @operation
    def pair_model(self, environment: str | None = None) -> Steps[wire.PairModel]:
        """Return the model that predicts the scores of pairs, and how well it does."""
        return get("/pair-model", wire.PairModel, {"environment": environment})

    @operation
    def redundancies(self, environment: str | None = None) -> Steps[wire.Page[wire.Redundancy]]:
        """List the snapshots that score like another snapshot that is no weaker."""
        return get("/redundancy", wire.Page[wire.Redundancy], {"environment": environment})

    @operation
    def regressions(self, environment: str | None = None) -> Steps[wire.Page[wire.Regression]]:
        """List the main learners that lose to snapshots that they beat before."""
        return get("/regressions", wire.Page[wire.Regression], {"environment": environment})

    @operation
    def close_period(self, environment: str | None = None, reason: str = "by hand") -> Steps[wire.RatingPeriod]:
        """Close the rating period: rate all results reported so far."""
        request = wire.PeriodCreate(environment=environment, reason=reason)
        return post("/rating-periods", request, wire.RatingPeriod)

    @operation
    def periods(
        self, environment: str | None = None, limit: int = 100, cursor: str | None = None, version: int | None = None
    ) -> Steps[wire.Page[wire.RatingPeriod]]:
        """List rating periods of a version of the ratings (None: the current one), newest first."""
        query = {"environment": environment, "limit": limit, "cursor": cursor, "version": version}
        return get("/rating-periods", wire.Page[wire.RatingPeriod], query)

    iter_periods = iterator_of(periods)

    @operation
    def environments(self, limit: int = 100, cursor: str | None = None) -> Steps[wire.Page[wire.Environment]]:
        """List environments by name."""
        return get("/environments", wire.Page[wire.Environment], {"limit": limit, "cursor": cursor})

    iter_environments = iterator_of(environments)

    @operation
    def health(self) -> Steps[wire.Health]:
        """Return the server's readiness with the state of its parts."""
        return read((yield Call("GET", "/readyz")), wire.Health)
