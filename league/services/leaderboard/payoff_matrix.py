"""Payoff matrix of an environment: win rates, cycles, and the Nash mixture (Nash averaging).

Up to the last closed period, so that it is computed once between two changes of the population, whoever looks.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena import payoff as arithmetic
from arena.cycles import significant_cycles
from arena.glicko2 import Ratings
from league import wire
from league.db.models import Player
from league.services.environments import lookup as environments
from league.services.matches import pair_records
from league.services.player_names import display_name
from league.services.population.cache import Population, PopulationCache
from league.services.ratings import rated_players

FloatArray = NDArray[np.float64]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PayoffPlayer:
    """A player of the map.

    Attributes:
        id: Who.
        name: Unique in its environment and signature.
        call_sign: Of who was a commander once.
        kind: What it is.
        rating: On the Glicko scale.
        deviation: RD.
        games: Rated games.
        weight: In the Nash mixture of the players of the map, in [0, 1]; None where the solver found none.
        tangled: Whether it is in a circle.
    """

    id: int
    name: str
    call_sign: str | None
    kind: str
    rating: float
    deviation: float
    games: int
    weight: float | None
    tangled: bool


@dataclass(frozen=True)
class Circle:
    """Players each of whom beats the next beyond doubt, and the last one the first.

    Attributes:
        players: Places in the map.
        tangled: How many players are in circles with these.
    """

    players: tuple[int, ...]
    tangled: int


@dataclass(frozen=True, eq=False)
class PayoffMatrix:
    """The P players in play with the highest rating - 2 RD, highest first.

    Attributes:
        players: Who.
        total: How many there are to choose from.
        win_rate: (P, P) estimated mean score of the row's player; what ratings predict where nothing was played.
        low: (P, P) lower end of the 95 % interval of the results alone; 0 where nothing was played.
        high: (P, P) upper end; 1 where nothing was played.
        matches: (P, P) int64 how many they played.
        cyclic: Share of the log-odds of win rates that no ratings explain, in [0, 1].
        circles: A shortest one of each group of players that are tangled, the largest group first.
        triples: How many circles of three there are.
    """

    players: Sequence[PayoffPlayer]
    total: int
    win_rate: FloatArray
    low: FloatArray
    high: FloatArray
    matches: NDArray[np.int64]
    cyclic: float
    circles: Sequence[Circle]
    triples: int


def get_payoff(session: Session, environment: str, limit: int) -> wire.Payoff:
    """Show who beats whom among those in play, the `limit` highest conservative ratings first.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not this one.
    """
    environments.require_known(session, environment)
    in_play = Player.environment == environment, rated_players.in_play()
    query = rated_players.rated().where(*in_play)
    found = session.execute(query.order_by(rated_players.conservative().desc(), Player.id).limit(limit)).all()
    players = [player for player, _ in found]
    counts, matches = pair_records.matrix(pair_records.current(session, environment), [player.id for player in players])
    joined = arithmetic.payoff(counts, rated_players.ratings(found))
    return wire.Payoff(
        environment=environment,
        total=session.scalar(select(func.count()).select_from(Player).where(*in_play)) or 0,
        players=[wire.PlayerName(player_id=player.id, name=player.name) for player in players],
        names=[display_name(player) for player in players],
        win_rates=joined.win_rate.tolist(),
        counts=matches.tolist(),
        intransitivity=joined.cyclic,
    )


def of_environment(
    session: Session, cache: PopulationCache, environment: str, most: int, *, learners: bool = True
) -> PayoffMatrix:
    """Return the map of an environment's strongest players, at most so many.

    Args:
        session: A transaction.
        cache: Has the population.
        environment: Which.
        most: Players.
        learners: Whether those that still learn are among them, who have never met each other.
    """
    population = cache.get(session, environment)
    return population.cached(
        ("payoff map", most, learners), lambda: _draw(session, population, most, learners=learners)
    )


def _draw(session: Session, population: Population, most: int, *, learners: bool) -> PayoffMatrix:
    in_play = [
        place
        for place, each in enumerate(population.members)
        if each.standing not in rated_players.OUT_OF_PLAY and (learners or each.kind != "learner")
    ]
    ratings = population.ratings
    cautious = ratings.rating - 2.0 * ratings.deviation
    shown = sorted(in_play, key=lambda place: (-cautious[place], population.members[place].id))[:most]
    counts, matches = pair_records.matrix(
        pair_records.read(session, population.environment), [population.members[place].id for place in shown]
    )
    chosen = Ratings(ratings.rating[shown], ratings.deviation[shown], ratings.volatility[shown])
    joined = arithmetic.payoff(counts, chosen)
    cycles = significant_cycles(counts)
    tangled = {player for group in cycles.groups for player in group}
    weights = _nash(joined.win_rate)
    return PayoffMatrix(
        players=[
            _placed(population, place, weight, tangled=rank in tangled)
            for rank, (place, weight) in enumerate(zip(shown, weights, strict=True))
        ],
        total=len(in_play),
        win_rate=joined.win_rate,
        low=joined.low,
        high=joined.high,
        matches=matches,
        cyclic=joined.cyclic,
        circles=[Circle(circle, len(group)) for circle, group in zip(cycles.shortest, cycles.groups, strict=True)],
        triples=cycles.triples,
    )


def _nash(win_rate: FloatArray) -> Sequence[float | None]:
    from arena.equilibria import nash_mixture  # its solvers take a quarter of a second to load

    try:
        weights: list[float | None] = nash_mixture(win_rate).tolist()
    except ArithmeticError:
        log.warning("no Nash mixture of %d players was found", len(win_rate))
        return [None] * len(win_rate)
    return weights


def _placed(population: Population, place: int, weight: float | None, *, tangled: bool) -> PayoffPlayer:
    member = population.members[place]
    return PayoffPlayer(
        id=member.id,
        name=member.name,
        call_sign=member.call_sign,
        kind=member.kind,
        rating=float(population.ratings.rating[place]),
        deviation=float(population.ratings.deviation[place]),
        games=int(population.games[place]),
        weight=weight,
        tangled=tangled,
    )
