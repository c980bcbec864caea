"""Inputs of matchmaking rules beyond ratings: results among the opponents, and the learner's past.

Both are of the matches up to the last closed period, so that they belong to a version of the population.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena.glicko2 import Ratings
from arena.payoff import Tally
from arena.rules import Need, Pasts
from league.db.models import Period
from league.services.matches import log as match_log
from league.services.matches import pair_records
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import PairRecords
from league.services.population import role_config
from league.services.population.cache import Population

_DIGITS = 4  # of a score


@dataclass(frozen=True, eq=False)
class Among:
    """What K opponents scored against each other.

    Attributes:
        win_rates: (K, K) estimated mean score of the row's player, from the records and what the ratings predict.
        matches: (K,) how many matches each has played against the others.
    """

    win_rates: NDArray[np.float64]
    matches: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RuleInputs:
    """What the rules of a draw needed, None where they needed none.

    Attributes:
        among: Of the opponents.
        pasts: Of the learner, against the opponents.
    """

    among: Among | None
    pasts: Pasts | None

    @property
    def between(self) -> NDArray[np.float64] | None:
        """(K, K) win rates of the opponents against each other."""
        return None if self.among is None else self.among.win_rates

    def columns(self) -> dict[str, list[dict[str, Any]]]:
        """Return what explanations show of it: by name, a record of each opponent."""
        columns = {}
        if self.among is not None:
            columns["among"] = _records(self.among.matches, self.among.win_rates.mean(axis=1))
        if self.pasts is not None:
            columns |= {"earlier": _scores(self.pasts.earlier), "recent": _scores(self.pasts.recent)}
        return columns


def gather(
    session: Session,
    population: Population,
    needs: frozenset[Need],
    learner_id: int,
    places: NDArray[np.int64],
    past_games: int,
) -> RuleInputs:
    """Read what rules need, each once per population and set of opponents.

    Args:
        session: Reads payoffs and matches.
        population: Of the learner's environment.
        needs: Of the rules.
        learner_id: Who asks.
        places: (K,) of the opponents in the population.
        past_games: How many of the learner's last games to look at.
    """
    who = places.tobytes()
    among, pasts = None, None
    if "between" in needs:
        records = partial(pair_records.read, session, population.environment)
        among = population.cached(("among", who), lambda: among_opponents(records(), population, places))
    if "pasts" in needs:
        key, ids = ("pasts", learner_id, who), _ids(population, places)
        closed = partial(rated_through, session, population.environment)
        pasts = population.cached(key, lambda: pasts_of(session, learner_id, ids, closed(), past_games))
    return RuleInputs(among, pasts)


def among_opponents(records: PairRecords, population: Population, places: NDArray[np.int64]) -> Among:
    """Return what the opponents at these places of the population scored against each other."""
    counts, matches = pair_records.matrix(records, _ids(population, places))
    ratings = population.ratings
    among = Ratings(ratings.rating[places], ratings.deviation[places], ratings.volatility[places])
    return Among(arithmetic.win_rates(counts, arithmetic.expected_matrix(among)), matches.sum(axis=1))


def rated_through(session: Session, environment: str, at: datetime | None = None) -> int:
    """Return the last match of the newest period that was closed at a time, None being now; 0 before the first."""
    closed = select(func.max(Period.last_match_id)).where(Period.environment == environment)
    return session.scalar(closed if at is None else closed.where(Period.closed_at <= at)) or 0


def pasts_of(
    session: Session,
    learner_id: int,
    opponents: Sequence[int],
    through: int,
    past_games: int,
    at: datetime | None = None,
) -> Pasts:
    """Return what a learner scored against K opponents in the older and in the newer half of its matches with each.

    Those from before it last began anew, with other weights, are not its past.

    Args:
        session: Reads matches.
        learner_id: Who, by its id as a player.
        opponents: Ids, ascending.
        through: The last match to look at.
        past_games: How many to look at.
        at: When, None being now; it may have begun anew since.
    """
    began = role_config.began_step(session, learner_id, at)
    return pasts_in(match_log.last_of(session, learner_id, through, past_games, from_step=began), learner_id, opponents)


def pasts_in(games: MatchArrays, learner_id: int, opponents: Sequence[int]) -> Pasts:
    """Return what a learner scored against K opponents in the older and in the newer half of its games with each.

    Args:
        games: The learner's, each against somebody else.
        learner_id: Who, by its id as a player.
        opponents: Ids, ascending.
    """
    home = games.home == learner_id
    opponent = np.where(home, games.away, games.home)
    score = np.where(home, games.score, 1.0 - games.score)
    ids = np.array(opponents, dtype=np.int64)
    met = np.isin(opponent, ids)
    return Pasts.halves(np.searchsorted(ids, opponent[met]), score[met], ids.size)


def _records(matches: NDArray[Any], score: NDArray[np.float64]) -> list[dict[str, Any]]:
    rows = zip(matches.astype(np.int64).tolist(), np.round(score, _DIGITS).tolist(), strict=True)
    return [{"matches": each, "score": mean} for each, mean in rows]


def _scores(counts: Tally) -> list[dict[str, Any]]:
    """Return the mean scores of games that count alike; where nothing was played 0.5."""
    return _records(counts.games, np.where(counts.games > 0, counts.points, 0.5) / np.maximum(counts.games, 1.0))


def _ids(population: Population, places: NDArray[np.int64]) -> Sequence[int]:
    return [population.members[place].id for place in places]
