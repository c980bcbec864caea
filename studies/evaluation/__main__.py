"""How many rating matches it takes to learn the players' order, by the way in which they are paired.

    python -m studies.evaluation

Players of known strength meet in pairs of games with sides swapped; after every batch the whole history is fitted
(`arena.ratings.bradley_terry`), and the ratings are compared with the truth by Spearman's rank correlation. The
log-odds of a pair are the difference of the strengths and, on top, a part that no strength explains and that has the
given share of all squares (`arena.evaluation.payoff.cyclic_share` of the true win rates). That part favours nobody:
strengths have the order of the mean scores against everybody. `--budget` is that of evaluators: so many games has a
pair on each side.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import spearmanr

from arena.matchmaking import rating_matches
from arena.matchmaking.rating_matches import rating_pairs
from arena.ratings.bradley_terry import NO_PARENT, Fit, fit
from arena.ratings.glicko2 import SCALE, START_DEVIATION, START_RATING, Results

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Pairing = Callable[["Known", int, np.random.Generator], IntArray]

SPREAD = 300.0  # standard deviation of the strengths, in points
HERMITE_DEGREE, LEAD_MAX, LEADS = 80, 4.0, 81
HOME_ADVANTAGE = 50.0  # points; both sides have it once


@dataclass(frozen=True, eq=False)
class Population:
    """P players: their strengths in points, and the (P, P) log-odds with which each beats each."""

    strength: FloatArray
    log_odds: FloatArray


@dataclass(frozen=True, eq=False)
class Known:
    """What is known so far: the fit, and the (P, P) games that each pair has played."""

    fit: Fit
    pair_games: FloatArray

    @property
    def games(self) -> IntArray:
        """(P,) games of each player."""
        return self.pair_games.sum(axis=1).astype(np.int64)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--batch", type=int, default=100, help="games between two fits, about")
    meeting = parser.add_mutually_exclusive_group()
    meeting.add_argument("--budget", type=int, default=1, help="games of a pair on each side when it meets")
    meeting.add_argument("--once", action="store_true", help="one game of a pair, on either side by chance")
    parser.add_argument("--games", type=int, default=12_000, help="give up after so many")
    parser.add_argument("--goal", type=float, default=0.95, help="rank correlation")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.15, 0.3], help="intransitive, in [0, 1)")
    parser.add_argument("--pairings", nargs="+", choices=list(PAIRINGS), default=list(PAIRINGS))
    arguments = parser.parse_args()
    print(f"games to a rank correlation of {arguments.goal} of {arguments.players} players, mean of {arguments.seeds}")
    for share in arguments.shares:
        print(f"intransitive share {share}; no way needs fewer than {fewest_games(arguments, share):,.0f}")
        for name in arguments.pairings:
            needed = [
                games_needed(population(arguments.players, share, seed), PAIRINGS[name], seed, arguments)
                for seed in range(arguments.seeds)
            ]
            print(f"  {name:40}{_summary(needed, arguments.games)}", flush=True)


def population(players: int, intransitive: float, seed: int) -> Population:
    """Make up players, and circles among them whose rows sum to 0, so that they favour nobody."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(START_RATING, SPREAD, players)
    lead = (strength[:, None] - strength) / SCALE
    return Population(strength, lead + circles(lead, intransitive, rng))


def circles(lead: FloatArray, intransitive: float, rng: np.random.Generator) -> FloatArray:
    """Return (P, P) log-odds that no strength explains and that favour nobody, beside those that strengths explain."""
    turn = rng.normal(0.0, 1.0, lead.shape)
    turn -= turn.T
    mean = turn.mean(axis=1)
    turn -= mean[:, None] - mean
    size = np.sqrt(intransitive / (1.0 - intransitive)) * np.linalg.norm(lead) / np.linalg.norm(turn)
    return np.asarray(size * turn)


def fewest_games(arguments: argparse.Namespace, intransitive: float) -> float:
    """Return a bound on the games that any pairing and any estimator need on average, where strengths are normal.

        rho = 2 sin(pi goal / 6)                                  correlation that ranks of the goal mean
        v   = (1 - rho^2) s^2                                     variance left of each strength, s^2 before any game
        1 / v  <=  1 / s^2 + 2 n i / (P - 1)                      n games, each at best as telling as the best game
        i   = max_l E[p (1 - p)]^2 / (E[p] (1 - E[p])),           p = 1 / (1 + exp(-(l + c))), c the pair's own part

    The third line is that of a round robin of equally telling games: of all precisions of the same trace the one that
    is alike in all directions leaves the least variance. A pair's second game tells less than its first, for it has
    the same c.

    Source: Kiefer, "Optimum experimental designs" (1959) for the third line; Pearson (1907) for the first.
    """
    places, weights = np.polynomial.hermite_e.hermegauss(HERMITE_DEGREE)
    variance = (SPREAD / SCALE) ** 2
    own = np.sqrt(2.0 * variance * intransitive / (1.0 - intransitive))
    chance = expit(np.linspace(0.0, LEAD_MAX, LEADS)[:, None] + own * places)
    score, slope = (values @ (weights / weights.sum()) for values in (chance, chance * (1.0 - chance)))
    telling = float(np.max(np.square(slope) / (score * (1.0 - score))))
    correlation = 2.0 * np.sin(np.pi * arguments.goal / 6.0)
    needed = (1.0 / (1.0 - correlation**2) - 1.0) / variance
    return float(needed * (arguments.players - 1) / (2.0 * telling))


def games_needed(truth: Population, pairing: Pairing, seed: int, arguments: argparse.Namespace) -> float:
    """Return after how many games the order is known well enough; infinity where it never was."""
    rng = np.random.default_rng((seed, 1))
    players = truth.strength.size
    deviations = np.full(players, START_DEVIATION)
    newcomers = Fit(np.full(players, START_RATING), deviations, lambda columns: START_DEVIATION**2 * columns)
    known = Known(newcomers, np.zeros((players,) * 2))
    log = np.zeros((3, 0))
    while log.shape[1] < arguments.games:
        home, away = _meetings(pairing, known, arguments, rng).T
        log = np.hstack((log, [home, away, _play(truth, home, away, rng)]))
        np.add.at(known.pair_games, (home, away), 1.0)
        np.add.at(known.pair_games, (away, home), 1.0)
        known = Known(_fitted(log, known.fit.rating), known.pair_games)
        if spearmanr(known.fit.rating, truth.strength).statistic >= arguments.goal:
            return float(log.shape[1])
    return np.inf


def _meetings(pairing: Pairing, known: Known, arguments: argparse.Namespace, rng: np.random.Generator) -> IntArray:
    """Return (M, 2) who is at home and who is away in a batch's games."""
    if arguments.once:
        pairs = pairing(known, arguments.batch, rng)
        return np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1])
    pairs = pairing(known, max(1, arguments.batch // (2 * arguments.budget)), rng)
    return np.repeat(np.concatenate((pairs, pairs[:, ::-1])), arguments.budget, axis=0)


def _play(truth: Population, home: IntArray, away: IntArray, rng: np.random.Generator) -> FloatArray:
    chance = expit(truth.log_odds[home, away] + HOME_ADVANTAGE / SCALE)
    return (rng.random(home.size) < chance).astype(np.float64)


def _fitted(log: FloatArray, start: FloatArray) -> Fit:
    home, away, score = log
    results = Results(home.astype(np.int64), away.astype(np.int64), score, np.ones(score.size, dtype=np.int64))
    return fit(results, start, anchor=np.zeros(start.size, dtype=bool), parent=np.full(start.size, NO_PARENT))


def _uniform(known: Known, count: int, rng: np.random.Generator) -> IntArray:
    players = known.games.size
    one = rng.integers(players, size=count)
    return np.stack((one, (one + rng.integers(1, players, size=count)) % players), axis=1)


def _neighbours(known: Known, count: int, rng: np.random.Generator) -> IntArray:
    return rating_pairs(known.fit.rating, np.zeros(known.games.size), known.games, count, rng)


def _thompson(known: Known, count: int, rng: np.random.Generator) -> IntArray:
    return rating_pairs(known.fit.rating, known.fit.deviation, known.games, count, rng)


def _thompson_among_strangers(known: Known, count: int, rng: np.random.Generator) -> IntArray:
    return rating_pairs(known.fit.rating, known.fit.deviation, known.games, count, rng, pair_games=known.pair_games)


def _posterior_among_strangers(known: Known, count: int, rng: np.random.Generator) -> IntArray:
    """Sample from the joint posterior: players whose ratings are known only together stay neighbours."""
    rating, factor = known.fit.rating, np.linalg.cholesky(known.fit.covariance)
    pool = rating_matches._pool(known.fit.deviation, known.games, None, known.pair_games)
    return rating_matches._pairs(lambda: rating + factor @ rng.standard_normal(rating.size), pool, count, rng)


PAIRINGS: dict[str, Pairing] = {
    "Thompson, covariance, strangers first": _posterior_among_strangers,
    "Thompson, strangers first": _thompson_among_strangers,
    "Thompson": _thompson,
    "neighbours": _neighbours,
    "uniform": _uniform,
}


def _summary(needed: list[float], limit: int) -> str:
    if np.isinf(needed).any():
        return f"{np.isfinite(needed).sum()} of {len(needed)} runs within {limit:,} games"
    error = np.std(needed, ddof=1) / np.sqrt(len(needed))
    return f"{np.mean(needed):>8,.0f} ± {2.0 * error:,.0f}"


if __name__ == "__main__":
    main()
