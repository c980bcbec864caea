"""Out-of-sample check of a pair model: predictions of held-out games.

A fit predicts its own games better than new ones, above all with an effect of each pair. The check therefore splits the
games of each pair at random, fits the same kind of model to 70 % of them and predicts the other 30 %.

    z = (observed - E[p]) / sqrt(E[p (1 - p)] / n + Var[p])        n held-out games of a pair, p its win probability

Var[p] is the uncertainty of the prediction. The root mean square of z over pairs is 1 if it is as large as it should
be.
"""

from dataclasses import dataclass

import numpy as np

from arena.arrays import FloatArray, IntArray
from arena.ratings.expected_score import PairCounts
from arena.ratings.pair_effects import score_moments
from arena.ratings.pair_model import PairModel, Priors

HELD_OUT = 0.3
"""Share of the games of each pair that is predicted from the others."""

_CHECKED_MAX = 1_000  # pairs, because each takes the solution of a linear system
_FLOOR = 1e-3  # variance of a game's score; a pair that always wins must not suggest an infinite z


@dataclass(frozen=True, eq=False)
class HeldOutGames:
    """Predicted games of K pairs that played at least twice.

    Attributes:
        pairs: The held-out games.
        expected: (K,) predicted mean scores of the lower players.
        enough: Indices of the pairs that played enough games in all, at most 1,000.
        z: z of these pairs.
    """

    pairs: PairCounts
    expected: FloatArray
    enough: IntArray
    z: FloatArray


def predict_held_out(model: PairModel, priors: Priors, games_min: int) -> HeldOutGames:
    """Fit 70 % of a model's games with its number of components, and predict the other 30 %.

    The games of a pair are exchangeable to the model. The sum of their scores is rounded to wins at random, up with the
    probability of its fraction.

    Args:
        model: Fit of all games.
        priors: Its priors.
        games_min: Games of a pair, fitted and held out, from which its z is computed.
    """
    train, test, total = _split(model.played)
    fitted = model.refitted(train, priors)
    enough = np.flatnonzero(total >= games_min)
    if enough.size > _CHECKED_MAX:
        enough = enough[np.linspace(0, enough.size - 1, _CHECKED_MAX).astype(np.int64)]
    checked = test.subset(enough)
    moments = score_moments(*fitted.log_odds(checked.low, checked.high))
    return HeldOutGames(test, fitted.expected(test.low, test.high), enough, z_scores(checked, *moments))


def z_scores(pairs: PairCounts, expected: FloatArray, variance: FloatArray) -> FloatArray:
    """Return z of K pairs, given means and variances of their predicted win probabilities, (K,) each."""
    of_game = np.maximum(expected * (1.0 - expected) - variance, _FLOOR)
    return np.asarray((pairs.points / pairs.games - expected) / np.sqrt(of_game / pairs.games + variance))


def _split(pairs: PairCounts) -> tuple[PairCounts, PairCounts, FloatArray]:
    """Split the games of each pair at random into those to fit and those to predict; return the latter's totals too."""
    rng = np.random.default_rng(0)  # the same in every process
    won = np.floor(pairs.points + rng.random(pairs.points.size)).astype(np.int64)
    games = np.rint(HELD_OUT * pairs.games).astype(np.int64)
    points = rng.hypergeometric(won, pairs.games.astype(np.int64) - won, games)
    train = PairCounts(pairs.low, pairs.high, pairs.games - games, (won - points).astype(np.float64))
    test = PairCounts(pairs.low, pairs.high, games.astype(np.float64), points.astype(np.float64))
    chosen = np.flatnonzero(games > 0)
    return train, test.subset(chosen), pairs.games[chosen]
