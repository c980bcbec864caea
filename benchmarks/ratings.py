"""How fast a rating period is: arrays against one player and one game at a time, in the same run; and two refits.

    python -m benchmarks.ratings

1,000 players, 10^6 games in 100 periods. The loop is Glickman's paper as written, in plain Python, and rates the first
periods only; both must agree on those before anything is printed.

The refits are of the whole history and of the pair model, whose league has a cycle: a cold fit chooses the number of
components, and a warm one adds 2 % more games.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena.ratings import pair_model
from arena.ratings.bradley_terry import NO_PARENT, Fit, fit, pair_counts
from arena.ratings.glicko2 import SCALE, Ratings, Results, newcomers, rate_period
from benchmarks import record

TAU, EPSILON = 0.5, 1e-9
LEAGUES = (1_000, 5_000, 20_000)
AIMS = {5_000: "2 s", 20_000: "10 s"}  # of a fit, by the number of snapshots
PAIR_LEAGUES = (1_000, 5_000)
PAIR_AIMS = {1_000: "2 s warm", 5_000: "20 s warm"}
LINEAGES, MEETINGS, RESETS, BATCH = 5, 12, 0.02, 50
CIRCLES = 0.8
INHERITED = 0.9  # share of its parent's position in the cycle that a snapshot keeps
LATE = 50  # every so many of a pair's rows are new to a warm fit
AGREEMENT = 1e-5  # rating points; the two solve the volatility equation to different tolerances


def main() -> None:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=1_000)
    parser.add_argument("--games", type=int, default=10_000, help="per period")
    parser.add_argument("--periods", type=int, default=100)
    parser.add_argument("--loop-periods", type=int, default=2, help="how many of them the plain loop rates")
    parser.add_argument("--repeats", type=int, default=5)
    record.add_json_option(parser)
    arguments = parser.parse_args()

    periods = play(arguments.players, arguments.games, arguments.periods)
    loop_seconds, by_loop = timed(rate_by_loop, arguments.players, periods[: arguments.loop_periods])
    _, by_arrays = timed(rate_by_arrays, arguments.players, periods[: arguments.loop_periods])
    difference = float(np.abs(by_loop.rating - by_arrays.rating).max())
    if difference > AGREEMENT:
        raise SystemExit(f"the two differ by {difference:.2g} points: a speed of something else says nothing")

    seconds = [timed(rate_by_arrays, arguments.players, periods)[0] for _ in range(arguments.repeats)]
    array_rate = arguments.games * arguments.periods / statistics.median(seconds)
    loop_rate = arguments.games * arguments.loop_periods / loop_seconds
    print(f"{arguments.players:,} players, {arguments.games:,} games a period, one core, CPU seconds")
    print(f"{'':24}{'periods':>8}{'games/s':>14}{'ms/period':>11}")
    for name, count, rate in (
        ("arena.ratings.glicko2", arguments.periods, array_rate),
        ("plain Python loop", arguments.loop_periods, loop_rate),
    ):
        print(f"{name:24}{count:>8}{rate:>14,.0f}{1e3 * arguments.games / rate:>11.2f}")
    print(f"ratio {array_rate / loop_rate:,.0f}; largest difference {difference:.1e} rating points")
    rows = [
        {
            "work": f"Glicko-2 of {arguments.players:,} players, {arguments.games:,} games, one core",
            "measured": f"{1e3 * arguments.games / array_rate:.2f} ms",
            "reference": f"a plain loop: {1e3 * arguments.games / loop_rate:.2f} ms, {array_rate / loop_rate:,.0f}",
        }
    ]
    for players in LEAGUES:
        plain, cyclic = fit_seconds(players), fit_seconds(players, CIRCLES)
        print(f"fit of the whole history, {players:,} snapshots: {plain:.2f} s, with cycles {cyclic:.2f} s")
        rows.append(
            {
                "work": f"fit of the whole history, {players:,} snapshots",
                "measured": f"{plain:.2f} s, with cycles {cyclic:.2f} s",
                "aim": AIMS.get(players, ""),
            }
        )
    for players in PAIR_LEAGUES:
        cold, warm, components = pair_fit_seconds(players)
        print(f"pair model, {players:,} snapshots, {components} component(s): {cold:.2f} s cold, {warm:.2f} s warm")
        rows.append(
            {
                "work": f"fit of the pair model, {players:,} snapshots in a cycle",
                "measured": f"{cold:.2f} s cold, {warm:.2f} s warm",
                "aim": PAIR_AIMS.get(players, ""),
            }
        )
    record.write(arguments.json, "ratings", rows)


@dataclass(frozen=True, eq=False)
class History:
    """All rating matches of a league of P frozen players, the first of which is its baseline.

    `rating` (P,) are the ratings before the fit, `parent` (P,) the snapshots that each descends from.
    """

    results: Results
    rating: NDArray[np.float64]
    parent: NDArray[np.int64]

    def fit(self) -> Fit:
        """Fit the whole history."""
        return fit(self.results, self.rating, anchor=np.arange(self.rating.size) == 0, parent=self.parent)


def history(players: int, circles: float = 0.0, cycle: float = 0.0) -> History:
    """Simulate a long league of five lineages that improve ever more slowly, paired as the server pairs.

    Every newcomer meets 12 players twice, nearest in a Thompson sample of the ratings of everybody before it.

    Args:
        players: P.
        circles: Standard deviation of each pair's own part of the log-odds.
        cycle: Standard deviation of positions in a cyclic component, which drift along lineages.
    """
    rng = np.random.default_rng(1)
    order = np.arange(players)
    lineage = rng.integers(0, LINEAGES, players)
    truth: NDArray[np.float64] = (
        1500.0 + 2000.0 * (1.0 - np.exp(-3.0 * order / players)) - 150.0 * (lineage > 1) + rng.normal(0, 60, players)
    )
    truth[0] = 1500.0
    parent = np.full(players, NO_PARENT)
    for each in range(LINEAGES):
        own = np.flatnonzero((lineage == each) & (order > 0))
        parent[own[1:]] = np.where(rng.random(own.size - 1) < RESETS * (each > 1), NO_PARENT, own[:-1])
    home, away = [], []
    for first in range(2, players, BATCH):
        newcomers = order[first : first + BATCH]
        known = order[:first]
        for number in range(MEETINGS):
            sample = rng.normal(truth[known], 40.0)
            ranked = np.argsort(sample)
            guess = rng.normal(truth[newcomers], 120.0 if number < MEETINGS // 3 else 60.0)
            nearest = np.searchsorted(sample[ranked], guess).clip(0, first - 1)
            home.append(newcomers)
            away.append(known[ranked[nearest]])
    one, other = np.concatenate(home), np.concatenate(away)
    lead = (truth[one] - truth[other]) / SCALE + circles * rng.normal(size=one.size)
    if cycle:
        u, v = cycle * positions(parent, INHERITED, rng)
        lead += u[one] * v[other] - v[one] * u[other]
    results = Results(one, other, rng.binomial(2, expit(lead)) / 2, np.full(one.size, 2))
    return History(results, rng.normal(truth, 40.0), parent)


def positions(parent: NDArray[np.int64], inherited: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return (2, P) positions of variance 1 in one cyclic component; children inherit a share of their parent's."""
    drawn = rng.normal(size=(2, parent.size))
    for player in np.flatnonzero(parent != NO_PARENT):  # parents come first
        drawn[:, player] *= math.sqrt(1.0 - inherited**2)
        drawn[:, player] += inherited * drawn[:, parent[player]]
    return drawn


def fit_seconds(players: int, circles: float = 0.0) -> float:
    """Return the CPU seconds of a fit."""
    played = history(players, circles)
    start = time.process_time()
    played.fit()
    return time.process_time() - start


def pair_fit_seconds(players: int) -> tuple[float, float, int]:
    """Return the CPU seconds of a cold and a warm fit of the pair model, and its number of cyclic components."""
    played = history(players, cycle=1.0)
    results, anchor = played.results, np.arange(players) == 0
    priors = pair_model.Priors(played.rating, anchor, played.parent)
    early = np.arange(results.home.size) % LATE > 0
    before = Results(results.home[early], results.away[early], results.score[early], results.games[early])
    start = time.process_time()
    model = pair_model.fit(before, priors)
    middle = time.process_time()
    model.refitted(pair_counts(results, np.zeros(players, dtype=np.bool_)), priors)
    return middle - start, time.process_time() - middle, len(model.components)


def play(players: int, games: int, periods: int) -> list[Results]:
    """Return periods of games between random pairs of known strengths."""
    rng = np.random.default_rng(1)
    strength = rng.normal(1500.0, 300.0, players)
    home = rng.integers(0, players, (periods, games))
    away = (home + rng.integers(1, players, (periods, games))) % players
    wins = rng.random((periods, games)) < 1.0 / (1.0 + 10.0 ** ((strength[away] - strength[home]) / 400.0))
    ones = np.ones(games, dtype=np.int64)
    return [Results(h, a, s, ones) for h, a, s in zip(home, away, wins.astype(np.float64), strict=True)]


def timed(
    rate: Callable[[Ratings, list[Results]], Ratings], players: int, periods: list[Results]
) -> tuple[float, Ratings]:
    """Return CPU seconds and the ratings after the last period."""
    start = time.process_time()
    ratings = rate(newcomers(players), periods)
    return time.process_time() - start, ratings


def rate_by_arrays(ratings: Ratings, periods: list[Results]) -> Ratings:
    """Rate all periods with `rate_period`."""
    for results in periods:
        ratings = rate_period(ratings, results, tau=TAU)
    return ratings


def rate_by_loop(ratings: Ratings, periods: list[Results]) -> Ratings:
    """Rate all periods one player and one game at a time."""
    players = list(zip(ratings.rating.tolist(), ratings.deviation.tolist(), ratings.volatility.tolist(), strict=True))
    for results in periods:
        by_player: list[list[tuple[int, float]]] = [[] for _ in players]
        for home, away, score in zip(results.home.tolist(), results.away.tolist(), results.score.tolist(), strict=True):
            by_player[home].append((away, score))
            by_player[away].append((home, 1.0 - score))
        players = [
            rate_one(player, [(*players[other][:2], score) for other, score in games])
            for player, games in zip(players, by_player, strict=True)
        ]
    return Ratings(*np.array(players).T)


def rate_one(player: tuple[float, float, float], games: list[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Rate one player as the paper does, steps 2 to 8; games are (rating, deviation, score)."""
    rating, deviation, sigma = player
    mu, phi = (rating - 1500.0) / SCALE, deviation / SCALE
    if not games:
        return rating, SCALE * math.sqrt(phi**2 + sigma**2), sigma
    information = total = 0.0
    for other_rating, other_deviation, score in games:
        g = 1.0 / math.sqrt(1.0 + 3.0 * (other_deviation / SCALE) ** 2 / math.pi**2)
        expected = 1.0 / (1.0 + math.exp(-g * (mu - (other_rating - 1500.0) / SCALE)))
        information += g * g * expected * (1.0 - expected)
        total += g * (score - expected)
    v = 1.0 / information
    sigma = new_volatility(phi, sigma, v * total, v)
    phi = 1.0 / math.sqrt(1.0 / (phi**2 + sigma**2) + information)
    return SCALE * (mu + phi**2 * total) + 1500.0, SCALE * phi, sigma


def new_volatility(phi: float, sigma: float, delta: float, v: float) -> float:
    """Solve step 5 as the paper does."""
    a = math.log(sigma**2)

    def f(x: float) -> float:
        ex = math.exp(x)
        return ex * (delta**2 - phi**2 - v - ex) / (2.0 * (phi**2 + v + ex) ** 2) - (x - a) / TAU**2

    low = a
    high = math.log(delta**2 - phi**2 - v) if delta**2 > phi**2 + v else a - TAU
    f_low, f_high = f(low), f(high)
    while abs(high - low) > EPSILON:
        middle = low + (low - high) * f_low / (f_high - f_low)
        f_middle = f(middle)
        if f_middle * f_high <= 0.0:
            low, f_low = high, f_high
        else:
            f_low /= 2.0
        high, f_high = middle, f_middle
    return math.exp(low / 2.0)


if __name__ == "__main__":
    main()
