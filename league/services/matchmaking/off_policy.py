"""Off-policy evaluation of matchmaking: what another rule would have scored, from the logged distributions.

Leases are read one after the other, and of each distribution only its shares are kept: a million draws take the memory
of two numbers each.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sqlalchemy import Select, case, func, or_, select
from sqlalchemy.orm import Session

from arena import off_policy
from arena.matchmaking import WARM_UP, Candidates, MatchmakingConfig
from arena.off_policy import Evaluation
from arena.roles import MAINS, VERIFICATION
from arena.rules import Pasts, Rule
from league import wire
from league.db.models import Draw, Lease, Match
from league.errors import InvalidRequestError
from league.services.matches import counting, pair_records
from league.services.matches.pair_records import PairRecords
from league.services.matchmaking import leases
from league.services.matchmaking import opponents as matchmaking_opponents
from league.services.population import roles, rule_inputs
from league.services.population.cache import Population, PopulationCache
from league.settings import Settings

MOST = 1_000_000
"""Leases that are looked at."""

_KEPT = (WARM_UP, MAINS, VERIFICATION)
_LEAST = 2  # draws, for an interval
_AT_ONCE = 10_000
_REMEMBERED = 64  # distributions: leases of several workers are drawn from a few in turn


class _Played(NamedTuple):
    """A lease that was played: its distribution, its opponent, the learner's mean score, and the number of matches."""

    draw_id: str
    opponent: int
    propensity: float
    score: float
    matches: int


@dataclass(frozen=True, eq=False)
class _Situation:
    """One distribution that leases were drawn from, and what another rule would have drawn from in its place.

    Attributes:
        logged: (P,) probability of each player of the population; that of the learner itself is self-play's.
        target: (P,) the same by the other rule.
    """

    logged: NDArray[np.float64]
    target: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _OtherRule:
    """Another rule in the situations that a learner was in."""

    session: Session
    population: Population
    config: MatchmakingConfig
    learner_id: int

    @cached_property
    def rule(self) -> Rule:
        return self.config.rule(self.config.weighting)

    def situation(self, draw_id: str) -> _Situation | None:
        """Return a logged distribution and the rule's; None where it is not known whom it was over."""
        draw = self.session.execute(select(Draw).where(Draw.id == draw_id)).scalar_one()
        self.session.expunge(draw)
        learner = draw.distribution.get("learner")
        if learner is None or draw.pruned_at is not None:
            return None
        items, self_play = draw.distribution["items"], draw.distribution["self_play"]
        games, places = learner["games"], [self.population.place(player) for player in items["player_id"]]
        kept = [branch for branch in draw.distribution["branches"] if branch["name"] in _KEPT]
        stays = self_play + sum(branch["share"] for branch in kept)
        config = replace(self.config, self_play_share=min(stays, 1.0))
        needs = config.needs(games)
        candidates = Candidates(
            learner_rating=learner["rating"],
            learner_games=games,
            ratings=np.array(items["rating"]),
            win_rates=np.array(items["win_rate"]),
            between=self._between(places) if "between" in needs else None,
            pasts=self._pasts(items["player_id"], draw.created_at) if "pasts" in needs else None,
            lineage=roles.lineages(self.population, places),
        )
        target = matchmaking_opponents.weighed(candidates, config).probabilities
        for branch in kept:
            target = target + branch["share"] * np.array(items["weights"][branch["name"]])
        return _Situation(
            logged=self._spread(places, items["propensity"], self_play),
            target=self._spread(places, target, self_play),
        )

    def _spread(self, places: list[int], probabilities: ArrayLike, self_play: float) -> NDArray[np.float64]:
        """Return (P,) probabilities, given those of the opponents at some places and of self-play."""
        spread = np.zeros(len(self.population.members))
        spread[places] = probabilities
        spread[self.population.place(self.learner_id)] = self_play
        return spread

    @cached_property
    def _records(self) -> PairRecords:
        return pair_records.read(self.session, self.population.environment)

    def _between(self, places: list[int]) -> NDArray[np.float64]:
        """Return what is known today of the opponents' results: they are frozen, so it held then as well."""
        opponents = np.array(places, dtype=np.int64)
        return rule_inputs.among_opponents(self._records, self.population, opponents).win_rates

    def _pasts(self, ids: list[int], drawn_at: datetime) -> Pasts:
        through = rule_inputs.rated_through(self.session, self.population.environment, drawn_at)
        return rule_inputs.pasts_of(self.session, self.learner_id, ids, through, self.config.past_games, drawn_at)


class _Log:
    """What was drawn and scored, and the distributions of both rules summed over the draws."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.matches = 0
        self.unknown = 0
        self.weights = array("d")
        self.scores = array("d")
        self.logged = np.zeros(len(population.members))
        self.target = np.zeros(len(population.members))
        self.uncovered = 0.0

    @property
    def played(self) -> int:
        """How many leases were added."""
        return len(self.scores) + self.unknown

    def add(self, situation: _Situation | None, played: Sequence[_Played]) -> None:
        """Add leases that were drawn in one situation; None is one that is not known."""
        if situation is None:
            self.unknown += len(played)
            return
        places = [self.population.place(lease.opponent) for lease in played]
        propensities = np.array([lease.propensity for lease in played])
        self.weights.extend((situation.target[places] / propensities).tolist())
        self.scores.extend(lease.score for lease in played)
        self.matches += sum(lease.matches for lease in played)
        self.logged += len(played) * situation.logged
        self.target += len(played) * situation.target
        self.uncovered += len(played) * float(situation.target[situation.logged <= 0.0].sum())

    def evaluation(self) -> Evaluation:
        """Evaluate what was added, two known draws or more; shares are of the population's players."""
        count = len(self.scores)
        return off_policy.summary(
            np.array(self.weights),
            np.array(self.scores),
            logged_shares=self.logged / count,
            target_shares=self.target / count,
            uncovered=self.uncovered / count,
        )


def evaluate(
    session: Session,
    settings: Settings,
    cache: PopulationCache,
    player_id: int,
    rule: str,
    last: int,
    since: datetime | None,
) -> wire.MatchmakingEvaluation:
    """Estimate how another rule would have distributed a learner's games, and what it would have scored.

    The other rule takes the place of the configured one; self-play, warm-up and what else the learner's role has keep
    the shares that they had.

    Args:
        session: Reads leases, draws and matches.
        settings: Has the other numbers of matchmaking.
        cache: Has the learner's population.
        player_id: The learner.
        rule: Name of the other rule.
        last: How many of the learner's last leases to look at.
        since: None of them granted earlier; None for any.

    Raises:
        UnknownPlayerError: There is no such player.
        InvalidRequestError: It is not a learner, there is no such rule, or fewer than two draws count.
        ConfigurationError: The rule failed.
    """
    population = cache.of_player(session, player_id)
    matchmaking_opponents.learner(population, player_id)
    asked = _granted(population.environment, player_id, last, since)
    other = _OtherRule(session, population, _with_rule(settings.matchmaking, rule), player_id)
    situation = lru_cache(_REMEMBERED)(other.situation)
    log = _Log(population)
    for draw_id, together in groupby(_played(session, asked), attrgetter("draw_id")):
        log.add(situation(draw_id), list(together))
    granted = session.scalar(select(func.count()).select_from(asked.subquery())) or 0
    if log.played - log.unknown < _LEAST:
        looked = (
            f"{granted} leases were looked at, {log.played} of them played, {log.unknown} drawn from whom is not known"
        )
        way_out = "let the learner play, or look at more leases"
        raise InvalidRequestError(f"player {player_id}", f"{looked}; an estimate takes two that are", way_out)
    found = log.evaluation()
    return wire.MatchmakingEvaluation(
        environment=population.environment,
        player_id=player_id,
        rule=rule,
        prefers=other.rule.words,
        leases=granted,
        draws=found.draws,
        matches=log.matches,
        unplayed=granted - log.played,
        unknown=log.unknown,
        logged_score=_estimate(found.logged_score),
        score=None if np.isnan(found.self_normalised.value) else _estimate(found.self_normalised),
        weighted=_estimate(found.weighted),
        effective_draws=found.effective_draws,
        too_few=found.too_few,
        uncovered=found.uncovered,
        shares=_shares(population, found),
    )


def _with_rule(config: MatchmakingConfig, name: str) -> MatchmakingConfig:
    try:
        return replace(config, weighting=name, mixture=())
    except ValueError as error:
        raise InvalidRequestError(f"rule {name!r}", str(error), "docs/matchmaking.md has the rules") from error


def _granted(
    environment: str, player_id: int, last: int, since: datetime | None
) -> Select[tuple[str, str, int, float, bool]]:
    """Select the last leases of a learner, its opponents, and whether it is at home."""
    at_home = (Lease.learner_side == "home") & (Lease.home_id == player_id)
    away = (Lease.learner_side == "away") & (Lease.away_id == player_id)
    opponent = case((at_home, Lease.away_id), else_=Lease.home_id)
    columns = Lease.id, Lease.draw_id, opponent.label("opponent"), Lease.propensity, at_home.label("at_home")
    query = select(*columns).where(Lease.kind == "training", Lease.environment == environment, or_(at_home, away))
    if since is not None:
        query = query.where(Lease.id >= leases.first_id(since))
    return query.order_by(Lease.id.desc()).limit(last)


def _played(session: Session, granted: Select[tuple[str, str, int, float, bool]]) -> Iterator[_Played]:
    """Read which of these leases have matches that count, in order of time, with the learner's mean score."""
    lease = granted.subquery()
    score = func.avg(case((lease.c.at_home, Match.score), else_=1.0 - Match.score))
    columns = lease.c.draw_id, lease.c.opponent, lease.c.propensity, score, func.count()
    query = select(*columns).join(Match, Match.lease_id == lease.c.id).where(*counting.counted(session))
    query = query.group_by(lease.c.id, *columns[:3]).order_by(lease.c.id)
    for row in session.execute(query.execution_options(yield_per=_AT_ONCE)):
        yield _Played(*row)


def _estimate(found: off_policy.Estimate) -> wire.Estimate:
    return wire.Estimate(value=found.value, low=found.low, high=found.high)


def _shares(population: Population, found: Evaluation) -> list[wire.RuleShare]:
    columns = zip(population.members, found.logged_shares.tolist(), found.target_shares.tolist(), strict=True)
    shares = [
        wire.RuleShare(player_id=member.id, name=member.name, logged=logged, target=target)
        for member, logged, target in columns
        if logged or target
    ]
    return sorted(shares, key=lambda share: (-share.target, share.player_id))
