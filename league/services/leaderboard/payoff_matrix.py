"""Payoff matrix of an environment: win rates, cycles, and the Nash mixture (Nash averaging)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from arena.evaluation import payoff as arithmetic
from arena.evaluation.intransitivity import significant_cycles
from arena.ratings.glicko2 import Ratings, conservative
from league.provisional import is_provisional
from league.services.matches import pair_records
from league.services.matches.pair_records import PairRecords
from league.services.population.cache import Population, PopulationCache
from league.services.ratings import rated_players
from league.settings import Settings

FloatArray = NDArray[np.float64]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PayoffFilter:
    """Players and matches of a matrix.

    Attributes:
        limit: Maximum number of players.
        learners: Whether to include learners, which never play each other.
        open_matches: Whether matches after the last period count; such a matrix is not cached.
    """

    limit: int
    learners: bool = True
    open_matches: bool = False


@dataclass(frozen=True)
class PayoffPlayer:
    """A player of the matrix.

    Attributes:
        id: Id of the player.
        name: Unique in its environment and signature.
        call_sign: Call-sign of a current or former commander.
        kind: Kind of player.
        rating: On the Glicko scale.
        deviation: Rating deviation (RD).
        games: Number of rated games.
        provisional: Whether its interval is too wide for a promotion.
        weight: Weight in the Nash mixture of the matrix, in [0, 1]; None if the solver found none.
        tangled: Whether it is part of a cycle.
    """

    id: int
    name: str
    call_sign: str | None
    kind: str
    rating: float
    deviation: float
    games: int
    provisional: bool
    weight: float | None
    tangled: bool


@dataclass(frozen=True)
class Cycle:
    """A cycle: each player beats the next one significantly, and the last one the first.

    Attributes:
        players: Indices in the matrix.
        tangled: Number of players in the strongly connected component of the cycle.
    """

    players: tuple[int, ...]
    tangled: int


@dataclass(frozen=True, eq=False)
class PayoffMatrix:
    """Matrix of the P active players with the highest rating - 2 RD, highest first.

    Attributes:
        players: The players.
        total: Number of active players.
        win_rate: (P, P) estimated mean score of the row player; the prediction for pairs without matches.
        low: (P, P) lower end of the 95 % interval of the results alone; 0 without matches.
        high: (P, P) upper end; 1 without matches.
        matches: (P, P) int64 number of matches.
        cyclic: Share of the log-odds of win rates that ratings do not explain, in [0, 1].
        cycles: A shortest cycle of each strongly connected component, largest component first.
        triples: Number of cycles of three.
    """

    players: Sequence[PayoffPlayer]
    total: int
    win_rate: FloatArray
    low: FloatArray
    high: FloatArray
    matches: NDArray[np.int64]
    cyclic: float
    cycles: Sequence[Cycle]
    triples: int


def get_payoff_matrix(
    session: Session, settings: Settings, cache: PopulationCache, environment: str, wanted: PayoffFilter
) -> PayoffMatrix:
    """Return the payoff matrix of an environment's strongest active players.

    Args:
        session: A transaction.
        settings: Settings with the width of a provisional interval.
        cache: Cached populations, with the matrix after the last period.
        environment: Name of the environment.
        wanted: Players and matches.
    """
    population = cache.get(session, environment)
    if wanted.open_matches:
        return _compute(settings, population, pair_records.current(session, environment), wanted)
    return population.cached(
        ("payoff matrix", wanted),
        lambda: _compute(settings, population, pair_records.read(session, environment), wanted),
    )


def _compute(settings: Settings, population: Population, records: PairRecords, wanted: PayoffFilter) -> PayoffMatrix:
    in_play = [
        index
        for index, member in enumerate(population.members)
        if member.standing not in rated_players.OUT_OF_PLAY and (wanted.learners or member.kind != "learner")
    ]
    ratings = population.ratings
    bound = conservative(ratings)
    shown = sorted(in_play, key=lambda index: (-bound[index], population.members[index].id))[: wanted.limit]
    counts, matches = pair_records.matrix(records, [population.members[index].id for index in shown])
    chosen = Ratings(ratings.rating[shown], ratings.deviation[shown], ratings.volatility[shown])
    predicted = population.expected_matrix(np.array(shown, dtype=np.int64))
    joined = arithmetic.payoff(counts, chosen, expected=predicted)
    cycles = significant_cycles(counts)
    tangled = {player for group in cycles.groups for player in group}
    weights = _nash(joined.win_rate)
    return PayoffMatrix(
        players=[
            _player(settings, population, index, weight, tangled=rank in tangled)
            for rank, (index, weight) in enumerate(zip(shown, weights, strict=True))
        ],
        total=len(in_play),
        win_rate=joined.win_rate,
        low=joined.low,
        high=joined.high,
        matches=matches,
        cyclic=joined.cyclic,
        cycles=[Cycle(cycle, len(group)) for cycle, group in zip(cycles.shortest, cycles.groups, strict=True)],
        triples=cycles.triples,
    )


def _nash(win_rate: FloatArray) -> Sequence[float | None]:
    from arena.evaluation.nash_averaging import max_entropy_nash  # its solvers take a quarter of a second to load

    try:
        weights: list[float | None] = max_entropy_nash(win_rate).tolist()
    # The matrix is useful without the mixture, so the page must not fail.
    except ArithmeticError:
        log.warning("no Nash mixture of %d players was found", len(win_rate))
        return [None] * len(win_rate)
    return weights


def _player(
    settings: Settings, population: Population, index: int, weight: float | None, *, tangled: bool
) -> PayoffPlayer:
    member = population.members[index]
    deviation = float(population.ratings.deviation[index])
    return PayoffPlayer(
        id=member.id,
        name=member.name,
        call_sign=member.call_sign,
        kind=member.kind,
        rating=float(population.ratings.rating[index]),
        deviation=deviation,
        games=int(population.games[index]),
        provisional=is_provisional(member.kind, float(population.standard_errors[index]), settings),
        weight=weight,
        tangled=tangled,
    )
