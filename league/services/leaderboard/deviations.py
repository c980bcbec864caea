"""Deviations in an environment: players and pairs whose results do not agree with ratings or predictions.

Only frozen players are compared, because a learner's results are those of many policies.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from arena.evaluation.deviations import SIGNIFICANCE, deviating_pairs, deviating_players
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import expected_score
from league.services.matches import pair_records
from league.services.matches.pair_records import Pair
from league.services.population.cache import Population, PopulationCache

GAMES_MIN = 10
"""Games of a pair from which it is compared. A single game cannot deviate by more than chance."""


@dataclass(frozen=True)
class PairDeviation:
    """A pair whose score deviates, from the point of view of one of its players.

    Attributes:
        matches: Number of matches.
        observed: Mean score, in [0, 1].
        by_ratings: Score that ratings alone predict, in [0, 1].
        predicted: Score that the pair model predicts, in [0, 1].
    """

    matches: int
    observed: float
    by_ratings: float
    predicted: float


@dataclass(frozen=True)
class Deviations:
    """Deviations up to the last period.

    Attributes:
        players: Ids of the players whose results differ from those that ratings alone predict.
        pairs: Pairs whose score differs from that which ratings alone predict, or from that of the pair model, by
            (lower id, higher id) and seen from the lower one.
    """

    players: frozenset[int]
    pairs: Mapping[Pair, PairDeviation]

    def find(self, player_id: int, opponent_id: int) -> PairDeviation | None:
        """Return the deviation of a pair from the player's point of view; None if its score does not deviate."""
        if player_id < opponent_id:
            return self.pairs.get((player_id, opponent_id))
        found = self.pairs.get((opponent_id, player_id))
        if found is None:
            return None
        return PairDeviation(found.matches, 1.0 - found.observed, 1.0 - found.by_ratings, 1.0 - found.predicted)


def get_deviations(session: Session, cache: PopulationCache, environment: str) -> Deviations:
    """Return the deviations of an environment, cached with its population."""
    population = cache.get(session, environment)
    return population.cached("deviations", lambda: _find(session, population))


def _find(session: Session, population: Population) -> Deviations:
    records = pair_records.read(session, population.environment, GAMES_MIN)
    frozen = population.ids[[member.kind != "learner" for member in population.members]]
    chosen = np.isin(records.low, frozen) & np.isin(records.high, frozen)
    low, high, matches = records.low[chosen], records.high[chosen], records.matches[chosen]
    one, other = np.searchsorted(population.ids, low), np.searchsorted(population.ids, high)
    played = PairCounts(one, other, records.games[chosen], records.points[chosen])
    predicted = population.expected(one, other)
    by_ratings = expected_score(population.ratings, one, other)
    players = population.ids[deviating_players(played, by_ratings, population.ids.size)]
    # Each comparison gets half of the false discovery rate, so that it holds for both together.
    half = SIGNIFICANCE / 2.0
    marked = deviating_pairs(played, by_ratings, significance=half)
    marked |= deviating_pairs(played, predicted, significance=half)
    columns = low, high, matches, played.points / played.games, by_ratings, predicted
    rows = zip(*(column[marked].tolist() for column in columns), strict=True)
    pairs = {(low_id, high_id): PairDeviation(*values) for low_id, high_id, *values in rows}
    return Deviations(frozenset(players.tolist()), pairs)
