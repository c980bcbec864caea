"""Glicko-2 rating periods: the public names of `arena.ratings.glicko2`."""

from arena.ratings.glicko2 import (
    SCALE,
    START_DEVIATION,
    START_RATING,
    START_VOLATILITY,
    Kind,
    Ratings,
    Results,
    conservative,
    expected_score,
    newcomers,
    rate_period,
)

__all__ = [
    "SCALE",
    "START_DEVIATION",
    "START_RATING",
    "START_VOLATILITY",
    "Kind",
    "Ratings",
    "Results",
    "conservative",
    "expected_score",
    "newcomers",
    "rate_period",
]
