"""How often the rule of succession lets a commander follow the champion that is no better, and how soon a better one.

    python -m studies.succession

Many leagues at once, each of a champion, a challenger and four more frozen players as strong as the champion, rated by
Glicko-2 as the server does, without the whole-history fit. The rule looks after every period, as the server does: what
counts is whether it ever lets the challenger follow.
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.population.promotion import PromotionConfig, HeadToHead, Roster, succession
from arena.ratings.glicko2 import Kind, Ratings, Results, expected_score, rate_period

FloatArray = NDArray[np.float64]

CHAMPION, CHALLENGER, PLAYERS = 0, 1, 6
START_RATING, START_DEVIATION, START_VOLATILITY = 1500.0, 80.0, 0.06
FLOOR, CAP, VOLATILITY_CAP = 30.0, 350.0, 0.1  # the server's defaults


@dataclass(frozen=True)
class Setup:
    """How many leagues are simulated, for how long."""

    leagues: int
    periods: int
    games: int  # of champion and challenger, each, in a period


def main() -> None:
    """Simulate and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=300)
    parser.add_argument("--periods", type=int, default=200)
    parser.add_argument("--games", type=int, default=15, help="of champion and challenger in a period")
    parser.add_argument("--leads", type=float, nargs="+", default=[0.0, 50.0, 100.0, 200.0], help="rating points")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.95, PromotionConfig().succession, 0.999])
    arguments = parser.parse_args()
    setup = Setup(arguments.leagues, arguments.periods, arguments.games)
    print(f"{setup.leagues} leagues, {setup.games} games a period each; share in which the challenger has followed")
    print(f"{'lead':>6} {'succession':>10} {'10 periods':>10} {'50 periods':>10} {f'{setup.periods} periods':>11}")
    for lead in arguments.leads:
        past = simulate(lead, setup, np.random.default_rng(int(lead)))
        for share in arguments.shares:
            config = PromotionConfig(succession=share, gate="off", max_interval=np.inf)
            follows = np.array([[lets_follow(*pair, config) for pair in zip(*period, strict=True)] for period in past])
            followed = np.maximum.accumulate(follows, axis=0).mean(axis=1)
            by = [followed[min(period, setup.periods) - 1] for period in (10, 50, setup.periods)]
            print(f"{lead:>6.0f} {share:>10g} {by[0]:>10.3f} {by[1]:>10.3f} {by[2]:>11.3f}")


def simulate(lead: float, setup: Setup, rng: np.random.Generator) -> list[tuple[FloatArray, FloatArray]]:
    """Return ratings and deviations of champion and challenger, each (leagues, 2), after every period."""
    count = setup.leagues * PLAYERS
    ratings = Ratings(*(np.full(count, value) for value in (START_RATING, START_DEVIATION, START_VOLATILITY)))
    strength = np.zeros(count)
    strength[CHALLENGER::PLAYERS] = lead
    kinds = np.full(count, Kind.FROZEN)
    past = []
    for _ in range(setup.periods):
        home, away = pairs(setup, rng)
        expected = 1.0 / (1.0 + 10.0 ** ((strength[away] - strength[home]) / 400.0))
        score = (rng.random(home.size) < expected).astype(np.float64)
        results = Results(home, away, score, np.ones(home.size, dtype=np.int64))
        ratings = rate_period(
            ratings, results, kinds=kinds, deviation_floor=FLOOR, deviation_cap=CAP, volatility_cap=VOLATILITY_CAP
        )
        two = (column.reshape(-1, PLAYERS)[:, :2] for column in (ratings.rating, ratings.deviation))
        past.append((next(two), next(two)))
    return past


def pairs(setup: Setup, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pair champions and challengers with players of their leagues."""
    first = np.arange(setup.leagues)[:, None] * PLAYERS
    home, away = [], []
    for player in (CHAMPION, CHALLENGER):
        other = (player + rng.integers(1, PLAYERS, (setup.leagues, setup.games))) % PLAYERS
        home.append(np.broadcast_to(first + player, other.shape).ravel())
        away.append((first + other).ravel())
    return np.concatenate(home), np.concatenate(away)


def lets_follow(rating: FloatArray, deviation: FloatArray, config: PromotionConfig) -> bool:
    """Ask the rule about one champion and one challenger."""
    both = np.ones(2, dtype=np.bool_)
    ratings = Ratings(rating, deviation, np.full(2, START_VOLATILITY))
    roster = Roster(
        names=("champion", "challenger"),
        ratings=ratings,
        games=np.full(2, config.least_games),
        candidate=~both,
        commander=both,
        champion=np.array([True, False]),
        baseline=~both,
        expected=lambda player, others: expected_score(ratings, np.full(len(others), player), np.array(others)),
        record=lambda _, others: HeadToHead(np.full(len(others), 0.5), np.zeros(len(others))),
        gates={},
        title_gates={},
    )
    decision = succession(roster, config)
    return decision is not None and decision.approved


if __name__ == "__main__":
    main()
