"""Pair model: Bradley-Terry with cyclic components (multidimensional Elo), fitted to the whole history.

    P(i beats j) = sigmoid(r_i - r_j + sum_c (u_ic v_jc - v_ic u_jc))        r in units of 173.7178 points

One number per player cannot predict rock-paper-scissors: the cyclic components can. Each adds a position in a plane to
every player, and the signed area between two positions to the log-odds of the pair.

* Priors: r as in `arena.ratings.bradley_terry` (anchors fixed, children one usual step from their parents). u and v are
  normal with mean 0. A child inherits a share k of its parent's u and v, and the rest has 1 - k^2 of the variance (a
  stationary autoregression). The variances and k are learned by empirical Bayes, so that little data leaves u and v
  at 0. Without k, intervals are too narrow in lineages that drift slowly through a cycle.
* The number of components is chosen by cross-validation over pairs: one more is accepted if it lowers the log-loss of
  held-out pairs by at least 1 % and by more than a standard error. Whole pairs are held out, because a pair's own
  record predicts its further games even where no component generalizes to pairs that have not met.
* Each pair has a random effect besides (`arena.ratings.pair_effects`). Ten games of one pair therefore tell less of its
  players than ten games of ten pairs. The effect moves a prediction towards the pair's own record, and gives pairs that
  have not met an honest uncertainty.
* Intervals add the variances of the effect and of the parameters. The latter follows from Laplace's approximation with
  the Fisher information as the curvature.

The fit starts from fixed points and uses fixed random probes, and linear algebra runs on one thread: the same history
gives the same bits in every process.

Source: Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018), for mElo; Balduzzi et al., "Open-ended
learning in symmetric zero-sum games" (2019), for disc games; Wei and Tanner, "A Monte Carlo implementation of the EM
algorithm" (1990), for the variances.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from arena.arrays import FloatArray, IntArray
from arena.ratings.bradley_terry import pair_counts, require_history
from arena.ratings.covariance import SparseSystem
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import SCALE, Results
from arena.ratings.linear_algebra import ONE_THREAD
from arena.ratings.pair_effects import Effects, effect_posterior, mean_score
from arena.ratings.pair_posterior import (
    FINE_STEP,
    LearnedModel,
    Priors,
    learn,
    log_odds,
    sparse_system,
    with_component,
)

__all__ = ["COMPONENTS_MAX", "HeldOut", "PairModel", "Priors", "fit"]

COMPONENTS_MAX = 2
"""The third component never paid in the leagues that this was developed on."""

_FOLDS = 3  # a single split chose by the few pairs with thousands of games
_FOLDED_MAX = 5_000  # pairs; above, one fold is precise enough, and each costs seconds
_GAIN_MIN = 0.01  # of the log-loss; smaller gains were noise in simulated leagues without cycles
_INTERVAL_TOLERANCE, _DRAW_TOLERANCE = 1e-6, 1e-3
_BLOCK = 64  # intervals that are solved for at once
_CHANCE_MIN = 1e-4  # of a held-out game: one upset must not outweigh all others
_Z_95 = 1.959964


Fold = tuple[PairCounts, PairCounts]
"""Training pairs and held-out pairs."""


@dataclass(frozen=True)
class HeldOut:
    """Prediction of held-out pairs with a number of components.

    Attributes:
        components: Number of cyclic components.
        log_loss: Mean negative log-likelihood in nats per held-out game.
        gain: Log-likelihood gained over one component less, in nats, over all held-out games.
        error: Standard error of the gain over pairs.
    """

    components: int
    log_loss: float
    gain: float
    error: float


@dataclass(frozen=True, eq=False)
class PairModel:
    """A fitted pair model of P players.

    Attributes:
        rating: (P,) the transitive part r, in points; anchors have theirs.
        components: (k, P, 2) positions (u, v) in each cyclic component, in the order in which they were added.
        effect_variance: tau^2, prior variance of the effects of pairs on their log-odds.
        played: Games and points of the K pairs that played.
        effects: Posterior of their effects.
        held_out: The comparison that chose k; empty if k was given or there were too few pairs.
    """

    rating: FloatArray
    components: FloatArray
    effect_variance: float
    played: PairCounts
    effects: Effects
    held_out: tuple[HeldOut, ...]
    _learned: LearnedModel

    def expected(self, i: ArrayLike, j: ArrayLike) -> FloatArray:
        """Return the expected scores of players `i` against players `j`, (K,) each, in [0, 1]."""
        log_odds, variance, _ = self._predicted_log_odds(*_indices(i, j, self.rating.size))
        return mean_score(log_odds, variance)

    def interval(self, i: ArrayLike, j: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return the bounds of 95 % intervals of the expected scores of `i` against `j`, (K,) each, in [0, 1]."""
        log_odds, variance = self.log_odds(i, j)
        half = _Z_95 * np.sqrt(variance)
        return expit(log_odds - half), expit(log_odds + half)

    def log_odds(self, i: ArrayLike, j: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the log-odds of `i` against `j`, (K,) each.

        The variance includes that of the parameters, which takes a solution of a linear system per pair.
        """
        one, other = _indices(i, j, self.rating.size)
        mean, variance, shrinkage = self._predicted_log_odds(one, other)
        return mean, variance + np.square(shrinkage) * self._model_variance(one, other)

    def draw_scores(self, i: ArrayLike, j: ArrayLike, draws: int) -> Iterator[FloatArray]:
        """Yield draws from the posterior of the win probabilities of `i` against `j`, (K,) each.

        Parameters are drawn for all pairs together, and the effects of pairs independently.
        """
        one, other = _indices(i, j, self.rating.size)
        parameters, posterior = self._learned.parameters, self._learned.posterior
        mean, variance, weight = self._predicted_log_odds(one, other)
        at_mode, rng = log_odds(parameters, one, other), np.random.default_rng(0)
        noise = self._system.matrix.draw_noise(draws, rng)
        for moved in self._system.solution(noise, _DRAW_TOLERANCE).T:
            moved = moved.reshape(parameters.shape)
            moved[~posterior.free, 0] = 0.0
            shift = weight * (log_odds(parameters + moved, one, other) - at_mode)
            yield expit(mean + shift + np.sqrt(variance) * rng.normal(size=one.size))

    def win_rates(self) -> FloatArray:
        """Return the (P, P) matrix of expected scores; 0.5 on the diagonal."""
        rows, columns = np.indices((self.rating.size, self.rating.size)).reshape(2, -1)
        return self.expected(rows, columns).reshape(self.rating.size, self.rating.size)

    def refitted(self, pairs: PairCounts, priors: Priors) -> "PairModel":
        """Return the fit of other games with the same number of components; the search starts here."""
        with ONE_THREAD:
            learned = learn(pairs, priors, self._learned)
        return _model(pairs, priors, learned, self.held_out)

    def _predicted_log_odds(self, one: IntArray, other: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean and variance of the log-odds given the parameters, and the model's weight in the mean, (K,)."""
        mean = log_odds(self._learned.parameters, one, other)
        variance = np.full(one.size, self.effect_variance)
        if self.effect_variance == 0.0:
            return mean, variance, np.ones(one.size)
        low, high = np.minimum(one, other), np.maximum(one, other)
        code = self.played.low * self.rating.size + self.played.high
        wanted = low * self.rating.size + high
        found = np.minimum(np.searchsorted(code, wanted), code.size - 1)
        known = code[found] == wanted
        mean[known] += (np.where(one <= other, 1.0, -1.0) * self.effects.mean[found])[known]
        variance[known] = self.effects.variance[found[known]]
        return mean, variance, variance / self.effect_variance

    def _model_variance(self, one: IntArray, other: IntArray) -> FloatArray:
        """Return the variances of m of K pairs, g' C g with g their gradients."""
        parameters, posterior = self._learned.parameters, self._learned.posterior
        variance = np.zeros(one.size)
        with ONE_THREAD:
            for first in range(0, one.size, _BLOCK):
                block = slice(first, first + _BLOCK)
                gradient = posterior.gradients(parameters, one[block], other[block]).toarray().T
                solved = self._system.solution(gradient, _INTERVAL_TOLERANCE)
                variance[block] = np.einsum("ij,ij->j", gradient, solved)
        return variance

    @cached_property
    def _system(self) -> SparseSystem:
        posterior = self._learned.posterior
        return sparse_system(posterior.information(posterior.at(self._learned.parameters)))


def fit(results: Results, priors: Priors, *, components: int | None = None) -> PairModel:
    """Fit ratings and cyclic components of P players to all their games.

    Args:
        results: Rows over the P players, several rows of a pair allowed. Rows of a player against itself are dropped.
        priors: What is known before any game.
        components: Number of cyclic components; None chooses 0 to 2 by held-out likelihood.

    Raises:
        ValueError: An index is not a player, or the number of components is negative.
    """
    require_history(results, priors.start, priors.anchor, priors.parent)
    if components is not None and components < 0:
        raise ValueError(f"components is {components}: it must be 0 or more, or None to choose it")
    pairs = pair_counts(results, np.zeros(priors.start.size, dtype=np.bool_))
    start = np.array(priors.start / SCALE)[:, None]
    with ONE_THREAD:
        held_out: list[HeldOut] = []
        if components is None:
            best, held_out = _choose(pairs, priors, start)
        else:
            best = learn(pairs, priors, start)
            for _ in range(components):  # a component starts from the residuals of the ones before
                best = learn(pairs, priors, with_component(pairs, best))
        learned = learn(pairs, priors, best, FINE_STEP)
    return _model(pairs, priors, learned, held_out)


def _model(pairs: PairCounts, priors: Priors, learned: LearnedModel, held_out: Sequence[HeldOut]) -> PairModel:
    """Add the effects of pairs to learned ratings and components."""
    parameters = learned.parameters
    predicted = log_odds(parameters, pairs.low, pairs.high)
    variance = learned.posterior.prior.effect
    count = (parameters.shape[1] - 1) // 2
    return PairModel(
        rating=np.where(priors.anchor, priors.start, SCALE * parameters[:, 0]),
        components=parameters[:, 1:].reshape(len(parameters), count, 2).transpose(1, 0, 2),
        effect_variance=variance,
        played=pairs,
        effects=effect_posterior(pairs, predicted, variance),
        held_out=tuple(held_out),
        _learned=learned,
    )


def _indices(i: ArrayLike, j: ArrayLike, players: int) -> tuple[IntArray, IntArray]:
    one, other = np.broadcast_arrays(np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64))
    one, other = one.reshape(-1), other.reshape(-1)
    for indices in (one, other):
        wrong = (indices < 0) | (indices >= players)
        if wrong.any():
            raise ValueError(f"player index {indices[wrong][0]}: there are {players} players, counted from 0")
    return one, other


def _choose(pairs: PairCounts, priors: Priors, start: FloatArray) -> tuple[FloatArray | LearnedModel, list[HeldOut]]:
    """Return a start of the fit with the number of components that predicts held-out pairs best (cross-validation)."""
    folds = _folds(pairs)
    if not folds:
        return start, []
    best = [learn(train, priors, start) for train, _ in folds]
    games = sum(float(test.games.sum()) for _, test in folds)
    loss = _losses(folds, best)
    compared = [HeldOut(0, float(loss.sum() / games), 0.0, 0.0)]
    for count in range(1, COMPONENTS_MAX + 1):
        richer = [learn(train, priors, with_component(train, fit)) for (train, _), fit in zip(folds, best, strict=True)]
        after = _losses(folds, richer)
        gains = loss - after
        error = float(np.sqrt(np.square(gains).sum()))
        compared.append(HeldOut(count, float(after.sum() / games), float(gains.sum()), error))
        if gains.sum() <= max(error, _GAIN_MIN * loss.sum()):
            break
        best, loss = richer, after
    return best[0], compared


def _losses(folds: Sequence[Fold], fitted: Sequence[LearnedModel]) -> FloatArray:
    """Return the negative log-likelihood of each held-out pair's games under the model alone."""
    losses = []
    for (_, test), learned in zip(folds, fitted, strict=True):
        chance = mean_score(log_odds(learned.parameters, test.low, test.high), learned.posterior.prior.effect)
        chance = np.clip(chance, _CHANCE_MIN, 1.0 - _CHANCE_MIN)
        losses.append(-xlogy(test.points, chance) - xlogy(test.games - test.points, 1.0 - chance))
    return np.concatenate(losses)


def _folds(pairs: PairCounts) -> list[Fold]:
    """Split the pairs at random; return the training and the held-out part of each fold, without empty ones."""
    drawn = np.random.default_rng(0).integers(_FOLDS, size=pairs.low.size)  # the same in every process
    folds = [(pairs.subset(drawn != fold), pairs.subset(drawn == fold)) for fold in range(_FOLDS)]
    if pairs.low.size > _FOLDED_MAX:
        folds = folds[:1]
    return [(train, test) for train, test in folds if train.low.size and test.low.size]
