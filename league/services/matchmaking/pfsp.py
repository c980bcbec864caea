"""PFSP (prioritised fictitious self-play): opponent distribution of a learner, with self-play and role branches.

Pure functions of a population and of the inputs from `rule_inputs.load_inputs`. Weights are in `arena.matchmaking`,
branches of roles in `arena.matchmaking.roles`.

Source: Vinyals et al. (2019), Grandmaster level in StarCraft II using multi-agent reinforcement learning.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.evaluation import payoff
from arena.evaluation.payoff import WinCounts
from arena.matchmaking import Branch, Candidates, Distribution, MatchmakingConfig, effective_opponents
from arena.matchmaking.roles import MainExploiter, OpponentTable, RoleRules, role_distribution, without_self_play
from arena.matchmaking.rules import WinRateHistory
from league.errors import InvalidRequestError
from league.services.matches import pair_records
from league.services.matches.pair_records import PairRecords
from league.services.matchmaking.explanations import DistributionRecord, filters_as_json, group_shares, rounded
from league.services.population import roles, rule_inputs
from league.services.population.cache import Filter, Member, Population
from league.services.population.roles import LearnerRole
from league.services.population.rule_inputs import LearnerInputs

SELF_PLAY = "self-play"

_CORRECT_THE_RULE = "correct the rule, or set LEAGUE_MATCHMAKING__WEIGHTING and __MIXTURE to others and start again"
_PROBABILITY_DIGITS, _SCORE_DIGITS = 8, 4

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class OpponentDistribution:
    """Distribution of a learner's next opponent.

    Attributes:
        opponents: (K,) ids of the candidates.
        distribution: Distribution over the K candidates and self-play.
        record: Its explanation.
    """

    opponents: tuple[int, ...]
    distribution: Distribution
    record: DistributionRecord


@dataclass(frozen=True, eq=False)
class OpponentPool:
    """Eligible opponents under a signature, shared by all of its learners.

    Attributes:
        indices: (K,) indices in the population.
        filters: Filters that removed the other players.
        ids: (K,) ids.
        columns: Columns of an explanation that are equal for all learners, K values by name.
        groups: Indices among the K, by name of the group.
    """

    indices: NDArray[np.int64]
    filters: tuple[Filter, ...]
    ids: tuple[int, ...]
    columns: Mapping[str, Any]
    groups: Mapping[str, NDArray[np.int64]]

    @classmethod
    def of(cls, population: Population, indices: NDArray[np.int64], filters: Sequence[Filter]) -> "OpponentPool":
        """Return the pool of the players at K indices."""
        ids: list[int] = population.ids[indices].tolist()
        columns = {
            "player_id": ids,
            "rating": rounded(population.ratings.rating[indices], 1),
            "deviation": rounded(population.ratings.deviation[indices], 1),
        }
        groups = _group_indices([population.members[index] for index in indices])
        return cls(indices, tuple(filters), tuple(ids), columns, groups)

    def items(self, games: NDArray[np.int64]) -> dict[str, Any]:
        """Return the columns of an explanation's items, given the number of games of each."""
        return {**self.columns, "games": games.tolist()}


@dataclass(frozen=True, eq=False)
class _Among:
    """Results of the K opponents against each other.

    Attributes:
        win_rates: (K, K) estimated mean score of the row player, from records and predictions.
        matches: (K,) number of matches of each against the others.
    """

    win_rates: NDArray[np.float64]
    matches: NDArray[np.int64]


def require_learner(population: Population, player_id: int) -> Member:
    """Return the learner with a player id.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: The player is not a learner.
    """
    member = population.members[population.index(player_id)]
    if member.kind != "learner":
        rule = f"{member.name} is a {member.kind}; opponents are drawn for learners"
        raise InvalidRequestError(
            f"player {player_id}", rule, "pass a learner's player_id, as returned by POST /learners"
        )
    return member


def opponent_pool(population: Population, signature: str, unplayable: frozenset[int]) -> OpponentPool:
    """Return the eligible opponents under a signature, except those that the requesting worker could not play."""
    return population.cached(
        ("pool", signature, unplayable),
        lambda: OpponentPool.of(population, *population.opponents(signature, unplayable)),
    )


def opponent_distribution(
    population: Population, pool: OpponentPool, inputs: LearnerInputs, *, self_play: bool = True
) -> OpponentDistribution:
    """Return the distribution of a learner's next opponent.

    Args:
        population: Population of the learner's environment.
        pool: The eligible opponents.
        inputs: The learner's role and records.
        self_play: Whether to include the league's share of self-play; without opponents it is always included.
    """
    role, indices, filters = inputs.role, pool.indices, pool.filters
    member, own = role.member, population.index(role.member.id)
    matchups = roles.matchups(population, role, inputs.records, indices)
    rating, games = float(population.ratings.rating[own]), int(population.games[own])
    among = None if inputs.among is None else _opponents_among_themselves(population, indices, inputs.among)
    pasts = None if inputs.games is None else rule_inputs.win_rate_history(inputs.games, member.id, pool.ids)
    candidates = Candidates(
        learner_rating=rating,
        learner_games=games,
        ratings=population.ratings.rating[indices],
        win_rates=matchups.win_rates,
        between=None if among is None else among.win_rates,
        pasts=pasts,
        lineage=matchups.against.lineage,
    )
    distribution, failures = _apply_role(matchups.against, candidates, role.rules)
    filters += _contradiction(role) + failures
    if not self_play:
        distribution = without_self_play(distribution)
        filters += (Filter(SELF_PLAY, "not requested: the trainer has its own", (member.id,)),)
    for branch in distribution.branches:
        if branch.filter:
            removed = tuple(population.ids[indices[branch.excluded]].tolist())
            filters += (Filter(branch.name, branch.filter, removed),)
    items = pool.items(matchups.matches) | _columns(among, pasts)
    items["propensity"] = rounded(distribution.probabilities, _PROBABILITY_DIGITS)
    items["win_rate"] = rounded(matchups.win_rates, _PROBABILITY_DIGITS)
    items["weights"] = {branch.name: rounded(branch.weights, _PROBABILITY_DIGITS) for branch in distribution.branches}
    content = {
        "learner": {"player_id": member.id, "rating": round(rating, 1), "games": games},
        "self_play": distribution.self_play,
        "branches": [
            _self_play_branch(distribution),
            *(_branch(branch, pool.groups) for branch in distribution.branches),
        ],
        "filters": filters_as_json(filters),
        "items": items,
    }
    return OpponentDistribution(pool.ids, distribution, DistributionRecord.of(content))


def _opponents_among_themselves(population: Population, indices: NDArray[np.int64], records: PairRecords) -> _Among:
    def compute() -> _Among:
        counts, matches = pair_records.matrix(records, population.ids[indices].tolist())
        return _Among(payoff.win_rates(counts, population.expected_matrix(indices)), matches.sum(axis=1))

    # Shared by all learners of a signature, which have the same opponents.
    return population.cached(("among", indices.tobytes()), compute)


def _apply_role(
    against: OpponentTable, candidates: Candidates, rules: RoleRules
) -> tuple[Distribution, tuple[Filter, ...]]:
    """Return a role's distribution; if its rule fails, the default rule replaces it and a filter reports that."""
    try:
        return role_distribution(against, candidates, rules), ()
    # A rule of a plugin may fail on one population after hours of training. The learner then goes on with the default.
    except ValueError as error:
        if isinstance(rules, MainExploiter):  # has no configured rule to replace
            raise
        default = MatchmakingConfig.weighting
        log.error("%s; using %r instead. %s", error, default, _CORRECT_THE_RULE)  # noqa: TRY400 - a configuration error
        replaced = replace(rules, matchmaking=replace(rules.matchmaking, weighting=default, mixture=()))
        failure = Filter("failed rule", f"{error}; using {default!r} instead", ())
        return role_distribution(against, candidates, replaced), (failure,)


def _contradiction(role: LearnerRole) -> tuple[Filter, ...]:
    """Return the filter that reports a learner's settings that contradict the league's."""
    if not role.failure:
        return ()
    return (Filter("failed rule", f"{role.failure}; using the settings of a {role.member.role} instead", ()),)


def _columns(among: _Among | None, pasts: WinRateHistory | None) -> dict[str, list[dict[str, Any]]]:
    """Return the explanation's columns for inputs that only some rules use."""
    columns = {}
    if among is not None:
        columns["among"] = _records(among.matches, among.win_rates.mean(axis=1))
    if pasts is not None:
        columns |= {"earlier": _scores(pasts.earlier), "recent": _scores(pasts.recent)}
    return columns


def _records(matches: NDArray[Any], score: NDArray[np.float64]) -> list[dict[str, Any]]:
    rows = zip(matches.astype(np.int64).tolist(), rounded(score, _SCORE_DIGITS), strict=True)
    return [{"matches": each, "score": mean} for each, mean in rows]


def _scores(counts: WinCounts) -> list[dict[str, Any]]:
    """Return the mean scores of undiscounted games, 0.5 without games."""
    return _records(counts.games, np.where(counts.games > 0, counts.points, 0.5) / np.maximum(counts.games, 1.0))


def _self_play_branch(distribution: Distribution) -> dict[str, Any]:
    return {
        "name": SELF_PLAY,
        "share": distribution.self_play,
        "rule": "the learner itself",
        "opponents": 1,
        "effective_opponents": 1.0,
        "groups": [],
    }


def _branch(branch: Branch, groups: Mapping[str, NDArray[np.int64]]) -> dict[str, Any]:
    return {
        "name": branch.name,
        "share": branch.share,
        "rule": branch.rule,
        "opponents": int(np.count_nonzero(~branch.excluded)),
        "effective_opponents": round(effective_opponents(branch.weights), 2),
        "groups": group_shares(groups, branch.weights),
    }


def _group_indices(members: Sequence[Member]) -> dict[str, NDArray[np.int64]]:
    """Return the indices of groups by standing, role and age, so that an explanation shows crowding."""
    snapshots = [index for index, member in enumerate(members) if member.kind == "snapshot"]
    groups = {
        "baselines": [index for index, member in enumerate(members) if member.kind == "baseline"],
        "commanders": [index for index in snapshots if members[index].standing == "commander"],
        "candidates": [index for index in snapshots if members[index].standing == "candidate"],
        "snapshots of mains": [index for index in snapshots if members[index].role == "main"],
        "snapshots of exploiters": [index for index in snapshots if members[index].role in roles.EXPLOITERS],
        "older half of the snapshots": snapshots[: len(snapshots) // 2],
    }
    return {name: np.array(indices, dtype=np.int64) for name, indices in groups.items()}
