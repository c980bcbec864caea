"""What another rule of matchmaking would have done with a learner's games, from the draws that were logged.

Leases are read one after the other, and of each distribution only its shares are kept: a million draws take the memory
of two numbers each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, case, func, or_, select
from sqlalchemy.orm import Session

from arena import off_policy
from arena.matchmaking import Candidates, MatchmakingConfig
from arena.off_policy import Evaluation
from arena.rules import Pasts, Rule
from league import wire
from league.config import Settings
from league.db.models import Draw, Lease, Match, Player
from league.errors import InvalidRequestError
from league.services import draws, evidence, exclusion, leases, payoffs
from league.services.payoffs import Records
from league.services.population import Population, PopulationCache

MOST = 1_000_000
"""Leases that are looked at."""

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
        place: Where each player that could be drawn stands in the columns.
        logged: (K + 1,) probability of each opponent, and of the learner itself at the end.
        target: (K + 1,) the same by the other rule.
    """

    place: dict[int, int]
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
        ids, games = items["player_id"], learner["games"]
        config = replace(self.config, self_play_share=self_play)
        needs = config.needs(games)
        candidates = Candidates(
            learner_rating=learner["rating"],
            learner_games=games,
            ratings=np.array(items["rating"]),
            win_rates=np.array(items["win_rate"]),
            between=self._between(ids) if "between" in needs else None,
            pasts=self._pasts(ids, draw.created_at) if "pasts" in needs else None,
        )
        other = draws.weighed(candidates, config)
        return _Situation(
            place={player: place for place, player in enumerate([*ids, self.learner_id])},
            logged=np.append(items["propensity"], self_play),
            target=np.append(other.probabilities, other.self_play),
        )

    @cached_property
    def _records(self) -> Records:
        return payoffs.read(self.session, self.population.environment)

    def _between(self, ids: list[int]) -> NDArray[np.float64]:
        """Return what is known today of the opponents' results: they are frozen, so it held then as well."""
        places = np.array([self.population.place(player) for player in ids], dtype=np.int64)
        return evidence.among_opponents(self._records, self.population, places).win_rates

    def _pasts(self, ids: list[int], drawn_at: datetime) -> Pasts:
        through = evidence.rated_through(self.session, self.population.environment, drawn_at)
        return evidence.pasts_of(self.session, self.learner_id, ids, through, self.config.past_games)


@dataclass(eq=False)
class _Log:
    """What was drawn and scored, and the shares of both rules summed over the draws."""

    matches: int = 0
    unknown: int = 0
    weights: list[NDArray[np.float64]] = field(default_factory=list)
    scores: list[NDArray[np.float64]] = field(default_factory=list)
    logged: dict[int, float] = field(default_factory=dict)
    target: dict[int, float] = field(default_factory=dict)
    uncovered: float = 0.0

    def add(self, situation: _Situation | None, played: list[_Played]) -> None:
        """Add the leases that were drawn in a situation, one after the other."""
        if situation is None:
            self.unknown += len(played)
            return
        _, opponents, propensities, scores, matches = zip(*played, strict=True)
        option = [situation.place[opponent] for opponent in opponents]
        self.weights.append(situation.target[option] / np.array(propensities))
        self.scores.append(np.array(scores))
        self.matches += sum(matches)
        self.uncovered += len(played) * float(situation.target[situation.logged <= 0.0].sum())
        for player, place in situation.place.items():
            self.logged[player] = self.logged.get(player, 0.0) + len(played) * float(situation.logged[place])
            self.target[player] = self.target.get(player, 0.0) + len(played) * float(situation.target[place])

    def evaluation(self) -> Evaluation:
        """Evaluate what was added, two draws or more; shares are in the order of `logged`."""
        scores = np.concatenate(self.scores)
        return off_policy.summary(
            np.concatenate(self.weights),
            scores,
            logged_shares=np.array(list(self.logged.values())) / scores.size,
            target_shares=np.array(list(self.target.values())) / scores.size,
            uncovered=self.uncovered / scores.size,
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

    The other rule takes the place of the configured one; self-play keeps the share that it had, and warm-up stays.

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
    draws.learner(population, player_id)
    asked = _granted(population.environment, player_id, last, since)
    other = _OtherRule(session, population, _with_rule(settings.matchmaking, rule), player_id)
    situation = lru_cache(_REMEMBERED)(other.situation)
    log, played = _Log(), 0
    for draw_id, together in groupby(_played(session, asked), attrgetter("draw_id")):
        drawn = list(together)
        played += len(drawn)
        log.add(situation(draw_id), drawn)
    granted = session.scalar(select(func.count()).select_from(asked.subquery())) or 0
    if played - log.unknown < _LEAST:
        looked = f"of the {granted} leases looked at {played} were played, {log.unknown} of these from a forgotten draw"
        way_out = "let the learner play, or look at more leases"
        raise InvalidRequestError(f"player {player_id}", f"{looked}; an estimate takes two others", way_out)
    found = log.evaluation()
    return wire.MatchmakingEvaluation(
        environment=population.environment,
        player_id=player_id,
        rule=rule,
        prefers=other.rule.words,
        leases=granted,
        draws=found.draws,
        matches=log.matches,
        unplayed=granted - played,
        unknown=log.unknown,
        logged_score=_estimate(found.logged_score),
        score=None if np.isnan(found.self_normalised.value) else _estimate(found.self_normalised),
        weighted=_estimate(found.weighted),
        effective_draws=found.effective_draws,
        too_few=found.too_few,
        uncovered=found.uncovered,
        shares=_shares(session, list(log.logged), found),
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
    query = select(*columns).join(Match, Match.lease_id == lease.c.id).where(*exclusion.counted(session))
    query = query.group_by(lease.c.id, *columns[:3]).order_by(lease.c.id)
    for row in session.execute(query.execution_options(yield_per=_AT_ONCE)):
        yield _Played(*row)


def _estimate(found: off_policy.Estimate) -> wire.Estimate:
    return wire.Estimate(value=found.value, low=found.low, high=found.high)


def _shares(session: Session, players: list[int], found: Evaluation) -> list[wire.RuleShare]:
    names = dict(session.execute(select(Player.id, Player.name).where(Player.id.in_(players))).all())
    columns = zip(players, found.logged_shares.tolist(), found.target_shares.tolist(), strict=True)
    shares = [
        wire.RuleShare(player_id=player, name=names[player], logged=logged, target=target)
        for player, logged, target in columns
    ]
    return sorted(shares, key=lambda share: (-share.target, share.player_id))
