"""Simulated leagues of workers that report honestly, or with a lie."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from league.services.trust.statistics import Reports

WORKERS = 10
PERIODS = 20
LEVEL = 1e-6
"""Probability below which a check raises an alarm; the default of the server."""

_LENGTH_MEAN, _LENGTH_SPREAD = 4.5, 0.5  # of logarithms: 90 decisions, from 55 to 150
_LENGTH_TREND, _TRENDS_APART = -0.2, 0.2  # matches become shorter as learners improve, each in its way

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]
Lie = Callable[[np.random.Generator, Arrays, NDArray[np.bool_]], Arrays]
"""What becomes of the scores and lengths where the mask says that a bad worker reports."""


@dataclass(frozen=True)
class League:
    """A league's last matches.

    Attributes:
        matches: How many.
        pairings: Of how many pairs.
        trend: By how much the differences grow over all periods, in rating points.
        draws: Share of draws between equals.
        alone: Whether each pairing is played by one worker only.
    """

    matches: int = 20_000
    pairings: int = 300
    trend: float = 100.0
    draws: float = 0.2
    alone: bool = False

    def play(self, rng: np.random.Generator, lie: Lie | None) -> Reports:
        """Play all matches; worker 0 tells the lie."""
        pairing = rng.integers(0, self.pairings, self.matches)
        period = np.sort(rng.integers(0, PERIODS, self.matches))
        worker = pairing % WORKERS if self.alone else rng.integers(0, WORKERS, self.matches)
        apart = rng.normal(0.0, 250.0, self.pairings)[pairing] + self.trend * (period / PERIODS - 0.5)
        chance = _expected(apart)
        drawn = rng.random(self.matches) < self.draws * 4.0 * chance * (1.0 - chance)
        score = np.where(drawn, 0.5, rng.random(self.matches) < chance)
        trend = rng.normal(_LENGTH_TREND, _TRENDS_APART, self.pairings)[pairing]
        length = rng.normal(_LENGTH_MEAN, _LENGTH_SPREAD, self.matches) * (1.0 + trend * period / PERIODS)
        decisions = np.exp(length).astype(np.int64) + 1
        if lie is not None:
            score, decisions = lie(rng, (score, decisions), worker == 0)
        occasion = pairing * PERIODS + period
        return Reports(worker, pairing, occasion, score, decisions)


def always_wins(_: np.random.Generator, told: Arrays, lying: NDArray[np.bool_]) -> Arrays:
    """Home wins, whatever happened."""
    return np.where(lying, 1.0, told[0]), told[1]


def swaps(share: float) -> Lie:
    """Sides are mixed up in a share of the matches."""

    def tell(rng: np.random.Generator, told: Arrays, lying: NDArray[np.bool_]) -> Arrays:
        swapped = lying & (rng.random(lying.size) < share)
        return np.where(swapped, 1.0 - told[0], told[0]), told[1]

    return tell


def shorter(factor: float) -> Lie:
    """Matches are cut short, or the game is another."""

    def tell(_: np.random.Generator, told: Arrays, lying: NDArray[np.bool_]) -> Arrays:
        return told[0], np.where(lying, np.maximum(1, (told[1] * factor).astype(np.int64)), told[1])

    return tell


def _expected(apart: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1.0 / (1.0 + 10.0 ** (-apart / 400.0))
