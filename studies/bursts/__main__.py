"""Many games of a learner in one rating period: errors and times of one step, of a split and of the posterior's mode.

    python -m studies.bursts

The learner starts at 1500 and plays one opponent of 1500 +/- 30. Errors are against the maximum-likelihood rating, in
deviations after the period.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from arena.ratings.glicko2 import SCALE, Kind, Ratings, Results, rate_period

BURST = 50
LIMITS = {"deviation_floor": 30.0, "deviation_cap": 350.0, "volatility_cap": 0.1}
OPPONENTS, PLAYERS = 20, 1_000

Rate = Callable[[Ratings, Results], Ratings]


def main() -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scores", type=float, nargs="+", default=[0.75, 0.9, 0.99, 0.999])
    parser.add_argument("--repeats", type=int, default=10)
    arguments = parser.parse_args()
    ways: dict[str, Rate] = {"one step": one_step, "split": split, "iterated": iterated}

    print(f"{'RD before':>9}{'score':>7}{'games':>8}" + "".join(f"{name:>10}" for name in ways))
    for deviation in (30.0, 80.0, 150.0, 350.0):
        for score in arguments.scores:
            for games in (100, 1_000, 10_000):
                errors = "".join(f"{error(rate, deviation, score, games):>+10.1f}" for rate in ways.values())
                print(f"{deviation:>9.0f}{score:>7}{games:>8,}{errors}")

    print(f"\nms a period, {OPPONENTS} opponents among {PLAYERS:,} players")
    for games in (20, 150, 1_000, 10_000, 100_000):
        times = "".join(f"{milliseconds(rate, games, arguments.repeats):>10.2f}" for rate in ways.values())
        print(f"{'':>16}{games:>8,}{times}")


def one_step(ratings: Ratings, results: Results) -> Ratings:
    """Rate by plain Glicko-2."""
    return rate_period(ratings, results, kinds=kinds(len(ratings)), **LIMITS)


def iterated(ratings: Ratings, results: Results) -> Ratings:
    """Rate as a league does."""
    return rate_period(ratings, results, kinds=kinds(len(ratings)), burst_games=BURST, **LIMITS)


def split(ratings: Ratings, results: Results) -> Ratings:
    """Rate by plain Glicko-2, in periods of `BURST` games one after another."""
    for start in range(0, len(results), BURST):
        part = slice(start, start + BURST)
        columns = results.home[part], results.away[part], results.score[part], results.games[part]
        ratings = one_step(ratings, Results(*columns))
    return ratings


def kinds(players: int) -> np.ndarray:
    """Say that the first player learns and all others are only read."""
    return np.where(np.arange(players) == 0, int(Kind.LEARNER), int(Kind.OBSERVED))


def error(rate: Rate, deviation: float, score: float, games: int) -> float:
    """Return how far a rating is off the maximum-likelihood one, in deviations; every game has the mean score."""
    ratings = Ratings([1500.0, 1500.0], [deviation, 30.0], [0.06, 0.06])
    after = rate(ratings, played(np.ones(games, np.int64), np.full(games, score)))
    most_likely = 1500.0 + SCALE * math.log(score / (1.0 - score))
    return float((after.rating[0] - most_likely) / after.deviation[0])


def milliseconds(rate: Rate, games: int, repeats: int) -> float:
    """Return the least CPU time of a period in which the learner wins four games of five."""
    rng = np.random.default_rng(1)
    ratings = Ratings(rng.normal(1500.0, 300.0, PLAYERS), np.full(PLAYERS, 60.0), np.full(PLAYERS, 0.06))
    results = played(rng.integers(1, OPPONENTS + 1, games), (rng.random(games) < 0.8).astype(np.float64))
    times = []
    for _ in range(repeats):
        start = time.process_time()
        rate(ratings, results)
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def played(away: np.ndarray, score: np.ndarray) -> Results:
    """Return one row for each game of the learner."""
    return Results(np.zeros(away.size, np.int64), away, score, np.ones(away.size, np.int64))


if __name__ == "__main__":
    main()
