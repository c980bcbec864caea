"""Posterior of the pair model: log-odds with cyclic components, Fisher information, mode and learned variances."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array, linalg, vstack
from scipy.special import expit

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.ratings.bradley_terry import NO_PARENT, require_history
from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.covariance import SparseSystem
from arena.ratings.expected_score import PairCounts
from arena.ratings.glicko2 import SCALE, START_RATING, Results
from arena.ratings.pair_effects import effect_modes, learned_variance

ROUGH_STEP, FINE_STEP = 0.02, 1e-4
"""Last steps of a search, in units of 173.7178 points: 3 points to compare models, 0.02 points for the result."""

WEIGHT_FLOOR = 1e-6
"""Least information of a game: a pair that always wins still bends the likelihood."""

_SPREAD_START, _SPREAD_MIN, _SPREAD_MAX = 0.5, 0.02, 4.0  # of u and v; 0.02 moves no score by 0.1 %
_INHERITANCE_START, _INHERITANCES = 0.5, np.linspace(0.0, 0.98, 50)
_EFFECT_MIN = 0.02  # change that counts; moves no score by 0.5 %
_ROUNDS, _ROUND_TOLERANCE = 8, 0.05
_STEPS, _STEPS_PER_ROUND, _STEP_MAX, _HALVINGS = 60, 3, 4.0, 30
_SOLVER_TOLERANCE = 0.01  # Fisher scoring corrects the rest in its next step
_DRAWN, _DRAWS_MIN, _DRAWS_MAX = 4_000, 4, 32  # players times draws leave an error of 2 % in a variance
_DENSE_SVD_MAX = 200  # players; 10 ms


@dataclass(frozen=True, eq=False)
class Priors:
    """What is known of P players before any game.

    Attributes:
        start: (P,) ratings in points: those of the anchors, and where the search begins for the others.
        anchor: (P,) true for players that keep their rating.
        parent: (P,) index of the player that each descends from, -1 for none. An anchor has none.
        config: The prior of strengths.

    Raises:
        ValueError: Lengths differ, a parent is not a player, or players descend from each other.
    """

    start: FloatArray
    anchor: BoolArray
    parent: IntArray
    config: RefitConfig = field(default_factory=RefitConfig)

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", np.asarray(self.start, dtype=np.float64))
        object.__setattr__(self, "anchor", np.asarray(self.anchor, dtype=np.bool_))
        object.__setattr__(self, "parent", np.asarray(self.parent, dtype=np.int64))
        none = np.empty(0, dtype=np.int64)
        require_history(Results(none, none, np.empty(0), none), self.start, self.anchor, self.parent)


def log_odds(parameters: FloatArray, one: IntArray, other: IntArray) -> FloatArray:
    """Return the log-odds of K pairs from (P, 1 + 2k) parameters: r, then u and v of each component."""
    home, away = parameters[one], parameters[other]
    area = home[:, 1::2] * away[:, 2::2] - home[:, 2::2] * away[:, 1::2]
    return np.asarray(home[:, 0] - away[:, 0] + area.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Variances:
    """Learned part of the prior.

    Attributes:
        step_mean: Mean step of r from parent to child.
        step_variance: Its variance.
        spread: (k,) standard deviations of u and v of each component.
        inheritance: (k,) correlations of u and v with the parent's, in [0, 1).
        effect: Variance of the effects of pairs.
    """

    step_mean: float
    step_variance: float
    spread: FloatArray
    inheritance: FloatArray
    effect: float = 0.0


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters with the most likely effects of the K pairs at them.

    Attributes:
        parameters: (P, 1 + 2k).
        effect: (K,) modes of the effects.
        log_odds: (K,) log-odds of the pairs, effects included.
    """

    parameters: FloatArray
    effect: FloatArray
    log_odds: FloatArray


@dataclass(frozen=True, eq=False)
class Posterior:
    """The log-posterior of (P, 1 + 2k) parameters as a function, with the effects of pairs at their modes.

    Attributes:
        pairs: Games and points, (K,).
        free: (P,) true for players whose rating moves.
        precision: (P,) of the prior of r around 1500; 0 for children.
        child: (C,) players with a parent.
        parent: (C,) their parents.
        prior: The learned part.
    """

    pairs: PairCounts
    free: BoolArray
    precision: FloatArray
    child: IntArray
    parent: IntArray
    prior: Variances

    def at(self, parameters: FloatArray) -> Point:
        """Return the point with these parameters."""
        found = log_odds(parameters, self.pairs.low, self.pairs.high)
        effect = effect_modes(self.pairs, found, self.prior.effect)
        return Point(parameters, effect, found + effect)

    def height(self, point: Point) -> float:
        """Return the log-posterior, up to a constant."""
        parameters = point.parameters
        likelihood = self.pairs.points * point.log_odds - self.pairs.games * np.logaddexp(0.0, point.log_odds)
        if self.prior.effect > 0.0:
            likelihood -= 0.5 * np.square(point.effect) / self.prior.effect
        prior = self.precision * np.square(parameters[:, 0] - START_RATING / SCALE)
        descent = np.square(self._surplus(parameters)) / self._step_variances()
        positions = np.square(parameters[:, 1:]) * self._position_precision()
        return float(likelihood.sum() - 0.5 * (prior.sum() + descent.sum() + positions.sum()))

    def slope(self, point: Point) -> FloatArray:
        """Return the (P, 1 + 2k) first derivatives; 0 for the ratings of anchors."""
        parameters = point.parameters
        low, high, size = self.pairs.low, self.pairs.high, len(parameters)
        residuals = self.pairs.points - self.pairs.games * expit(point.log_odds)
        found = np.empty_like(parameters)
        for column, (of_low, of_high) in enumerate(_pair_gradients(parameters, low, high)):
            found[:, column] = np.bincount(low, residuals * of_low, size) + np.bincount(high, residuals * of_high, size)
        pull = self._surplus(parameters) / self._step_variances()
        for column, inherited in enumerate(self._inherited()):
            of_child, of_parent = pull[:, column], inherited * pull[:, column]
            found[:, column] -= np.bincount(self.child, of_child, size) - np.bincount(self.parent, of_parent, size)
        found[:, 0] -= self.precision * (parameters[:, 0] - START_RATING / SCALE)
        found[:, 1:] -= self._position_precision() * parameters[:, 1:]
        found[~self.free, 0] = 0.0
        return found

    def information(self, point: Point) -> "Information":
        """Return the Fisher information plus the prior's precision, (P (1 + 2k))^2; anchors' ratings are held."""
        parameters, chance = point.parameters, expit(point.log_odds)
        weight = self.pairs.games * np.maximum(chance * (1.0 - chance), WEIGHT_FLOOR)
        # The effects are integrated out: the variance of an effect adds to that of its pair's score.
        weight /= 1.0 + self.prior.effect * weight
        gradients = self.gradients(parameters, self.pairs.low, self.pairs.high)
        # Square roots of the weights, because the matrix is root' root.
        gradients.data *= np.repeat(np.sqrt(weight), 2 * parameters.shape[1])
        own = np.empty_like(parameters)
        # An anchor has no gradient. Any precision keeps its row regular, and its solution 0.
        own[:, 0] = np.where(self.free, self.precision, 1.0)
        own[:, 1:] = self._position_precision()
        return Information(vstack((gradients, self._step_gradients(parameters.shape)), format="csr"), own.reshape(-1))

    def gradients(self, parameters: FloatArray, one: IntArray, other: IntArray) -> csr_array:
        """Return the (K, P (1 + 2k)) gradients of the log-odds of K pairs."""
        width = parameters.shape[1]
        values = np.empty((one.size, 2, width))
        for column, (of_one, of_other) in enumerate(_pair_gradients(parameters, one, other)):
            values[:, 0, column], values[:, 1, column] = of_one, of_other
        values[:, 0, 0] *= self.free[one]
        values[:, 1, 0] *= self.free[other]
        columns = np.stack((one, other), axis=1)[:, :, None] * width + np.arange(width)
        starts = np.arange(one.size + 1) * (2 * width)
        return csr_array((values.reshape(-1), columns.reshape(-1), starts), shape=(one.size, parameters.size))

    def prior_squares(self, moved: FloatArray) -> float:
        """Return the mean of the prior's squares of (N, P, 1 + 2k) differences from the mode, in variances."""
        steps = moved[:, self.child] - self._inherited() * moved[:, self.parent]
        squares = self.precision @ np.square(moved[:, :, 0]).T + (np.square(steps) / self._step_variances()).sum((1, 2))
        squares += (np.square(moved[:, :, 1:]) * self._position_precision()).sum((1, 2))
        return float(squares.mean())

    def _step_gradients(self, shape: tuple[int, int]) -> csr_array:
        """Return the (C (1 + 2k), P (1 + 2k)) gradients of the surplus, in standard deviations."""
        width, count = shape[1], self.child.size
        scale = 1.0 / np.sqrt(self._step_variances())
        values = np.empty((count, width, 2))
        values[:, :, 0], values[:, :, 1] = scale, -scale * self._inherited()
        values[:, 0, 1] *= self.free[self.parent]
        columns = np.stack((self.child, self.parent), axis=1)[:, None, :] * width + np.arange(width)[:, None]
        starts = np.arange(count * width + 1) * 2
        return csr_array((values.reshape(-1), columns.reshape(-1), starts), shape=(count * width, shape[0] * width))

    def _position_precision(self) -> FloatArray:
        """Return the (P, 2k) precisions of positions around 0; 0 for children."""
        without_parent = np.ones(self.free.size)
        without_parent[self.child] = 0.0
        return np.outer(without_parent, np.repeat(1.0 / np.square(self.prior.spread), 2))

    def _inherited(self) -> FloatArray:
        """Return the (1 + 2k,) shares of the parent's values that a child inherits: all of r."""
        return np.concatenate(([1.0], np.repeat(self.prior.inheritance, 2)))

    def _step_variances(self) -> FloatArray:
        """Return the (1 + 2k,) variances of the surplus. Those of u and v keep their variance along a lineage."""
        of_positions = np.square(self.prior.spread) * (1.0 - np.square(self.prior.inheritance))
        return np.concatenate(([self.prior.step_variance], np.repeat(of_positions, 2)))

    def _surplus(self, parameters: FloatArray) -> FloatArray:
        """Return the (C, 1 + 2k) parts of the children's values that their parents do not predict."""
        surplus = parameters[self.child] - self._inherited() * parameters[self.parent]
        surplus[:, 0] -= self.prior.step_mean
        return np.asarray(surplus)


@dataclass(frozen=True, eq=False)
class Information:
    """The (F, F) matrix root' root + diag(own): its products cost less than the matrix."""

    root: csr_array
    own: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.own.size, self.own.size

    @cached_property
    def _transposed(self) -> csr_array:
        return csr_array(self.root.T)

    def __matmul__(self, right: FloatArray) -> FloatArray:
        own = self.own if right.ndim == 1 else self.own[:, None]
        return np.asarray(self._transposed @ (self.root @ right) + own * right)

    def draw_noise(self, draws: int, rng: np.random.Generator) -> FloatArray:
        """Return (F, draws) normal vectors with the matrix as covariance: their solutions have its inverse."""
        noise = self._transposed @ rng.normal(size=(self.root.shape[0], draws))
        return np.asarray(noise + np.sqrt(self.own)[:, None] * rng.normal(size=(self.own.size, draws)))

    def diagonal(self) -> FloatArray:
        """Return the (F,) diagonal."""
        return np.bincount(self.root.indices, np.square(self.root.data), self.own.size) + self.own


def _pair_gradients(
    parameters: FloatArray, one: IntArray, other: IntArray
) -> Iterator[tuple[FloatArray | float, FloatArray | float]]:
    """Yield, for each column of the parameters, the derivative of the log-odds in either player's value."""
    yield 1.0, -1.0
    home, away = parameters[one], parameters[other]
    for u in range(1, parameters.shape[1], 2):
        yield away[:, u + 1], -home[:, u + 1]
        yield -away[:, u], home[:, u]


@dataclass(frozen=True, eq=False)
class LearnedModel:
    """Parameters at the mode, with the posterior that they are the mode of.

    Attributes:
        parameters: (P, 1 + 2k).
        posterior: The log-posterior with the learned variances.
    """

    parameters: FloatArray
    posterior: Posterior


def sparse_system(information: Information) -> SparseSystem:
    """Return the solver of a matrix, without deflation: finding its directions cost more CPU than it saved (1.2x)."""
    return SparseSystem.of(information, np.empty((information.shape[0], 0)))


def learn(
    pairs: PairCounts, priors: Priors, start: "FloatArray | LearnedModel", tolerance: float = ROUGH_STEP
) -> LearnedModel:
    """Alternate the mode of the posterior with the learned variances (empirical Bayes by EM).

    Args:
        pairs: Games and points, (K,).
        priors: Of P players.
        start: (P, 1 + 2k) parameters, or the fit of a similar history, whose variances are a start too.
        tolerance: Last step of the search, in units of 173.7178 points.
    """
    free = ~priors.anchor
    child = np.flatnonzero(free & (priors.parent != NO_PARENT))
    precision = np.where(free & (priors.parent == NO_PARENT), (SCALE / priors.config.prior_deviation) ** 2, 0.0)
    if isinstance(start, LearnedModel):
        parameters, variances = start.parameters.copy(), start.posterior.prior
    else:
        components = (start.shape[1] - 1) // 2
        spread, inheritance = np.full(components, _SPREAD_START), np.full(components, _INHERITANCE_START)
        variances = Variances(0.0, 4.0 / priors.config.parent_draws, spread, inheritance)
        parameters = start.copy()
    posterior = Posterior(pairs, free, precision, child, priors.parent[child], variances)
    draws = Draws(int(np.clip(_DRAWN // max(len(parameters), 1), _DRAWS_MIN, _DRAWS_MAX)))
    for _ in range(_ROUNDS):
        parameters, moved = _climb(posterior, parameters, ROUGH_STEP, _STEPS_PER_ROUND)
        before = variances
        variances, determined = _learned_variances(posterior, parameters, draws, priors.config)
        if priors.config.pair_correlation:
            found = log_odds(parameters, pairs.low, pairs.high)
            variances = replace(variances, effect=learned_variance(pairs, found, determined, before.effect))
        posterior = replace(posterior, prior=variances)
        if _near(before, variances) and moved < _ROUND_TOLERANCE:
            break
    parameters, _ = _climb(posterior, parameters, tolerance, _STEPS)
    return LearnedModel(parameters, posterior)


def _climb(posterior: Posterior, parameters: FloatArray, tolerance: float, steps: int) -> tuple[FloatArray, float]:
    """Move towards the nearest mode by Fisher scoring with halved steps; return where to, and the last step's size."""
    point = posterior.at(parameters)
    height, moved = posterior.height(point), 0.0
    for _ in range(steps):
        slope = posterior.slope(point).reshape(-1, 1)
        system = sparse_system(posterior.information(point))
        step = system.solution(slope, _SOLVER_TOLERANCE).reshape(parameters.shape)
        step *= _STEP_MAX / max(np.abs(step).max(), _STEP_MAX)
        for _ in range(_HALVINGS):
            tried = posterior.at(point.parameters + step)
            risen = posterior.height(tried)
            if risen >= height:
                break
            step *= 0.5
        else:
            return point.parameters, 0.0
        point, height, moved = tried, risen, float(np.abs(step).max())
        if moved < tolerance:
            break
    return point.parameters, moved


def _learned_variances(
    posterior: Posterior, parameters: FloatArray, draws: "Draws", config: RefitConfig
) -> tuple[Variances, float]:
    """Return the M step's variances, and the effective number of parameters that the games determined."""
    drawn = draws.of(posterior, parameters)
    steps = parameters[posterior.child, 0] - parameters[posterior.parent, 0]
    weight = config.parent_weight
    mean = float(steps.sum()) / (steps.size + weight)
    moved = np.square(drawn[:, posterior.child, 0] - drawn[:, posterior.parent, 0]).sum(axis=1).mean()
    squares = weight * 4.0 / config.parent_draws + float(np.square(steps - mean).sum() + moved)
    spread, inheritance = np.empty_like(posterior.prior.spread), np.empty_like(posterior.prior.spread)
    for component in range(spread.size):
        own = slice(1 + 2 * component, 3 + 2 * component)
        spread[component], inheritance[component] = _learned_positions(posterior, parameters[:, own] + drawn[:, :, own])
    determined = parameters.size - float((~posterior.free).sum()) - posterior.prior_squares(drawn)
    variances = Variances(mean, squares / (steps.size + weight), spread, inheritance, posterior.prior.effect)
    return variances, max(determined, 0.0)


def _learned_positions(posterior: Posterior, positions: FloatArray) -> tuple[float, float]:
    """Return the most likely spread and inheritance of a component, given draws of its (P, 2) positions, (N, P, 2).

    a = sum over players without a parent x^2        b(k) = sum over children (x_c - k x_p)^2
    maximise  -P log s^2 - C log(1 - k^2)            s^2 = (a + b(k) / (1 - k^2)) / (2 P)
    """
    count, players, _ = positions.shape
    child, parent = positions[:, posterior.child], positions[:, posterior.parent]
    of_child, of_parent, of_both = (
        float((one * other).sum()) / count for one, other in ((child, child), (parent, parent), (child, parent))
    )
    without_parent = float(np.square(positions).sum()) / count - of_child
    left = 1.0 - np.square(_INHERITANCES)
    surplus = of_child - 2.0 * _INHERITANCES * of_both + np.square(_INHERITANCES) * of_parent
    variance = (without_parent + surplus / left) / (2 * players)
    best = int(np.argmin(players * np.log(variance) + posterior.child.size * np.log(left)))
    return float(np.clip(np.sqrt(variance[best]), _SPREAD_MIN, _SPREAD_MAX)), float(_INHERITANCES[best])


@dataclass(eq=False)
class Draws:
    """Draws from the posterior about its mode, which estimate variances.

    Attributes:
        count: Number of draws N.
        solution: (P (1 + 2k), N) the last draws, where the search for the next ones starts.
    """

    count: int
    solution: FloatArray | None = None

    def of(self, posterior: Posterior, parameters: FloatArray) -> FloatArray:
        """Return (N, P, 1 + 2k) differences from the mode; 0 for the ratings of anchors."""
        information = posterior.information(posterior.at(parameters))
        noise = information.draw_noise(self.count, np.random.default_rng(0))  # the same in every process
        self.solution = sparse_system(information).solution(noise, _SOLVER_TOLERANCE, self.solution)
        drawn = self.solution.T.reshape(self.count, *parameters.shape).copy()
        drawn[:, ~posterior.free, 0] = 0.0
        return drawn


def _near(one: Variances, other: Variances) -> bool:
    apart = abs(one.step_mean - other.step_mean) / one.step_variance**0.5
    of_steps = abs(1.0 - other.step_variance / one.step_variance)
    of_positions = np.abs(1.0 - other.spread / one.spread).max(initial=0.0)
    of_inheritance = np.abs(other.inheritance - one.inheritance).max(initial=0.0)
    of_effects = abs(other.effect - one.effect) / max(one.effect, _EFFECT_MIN)
    return bool(max(apart, of_steps, of_positions, of_inheritance, of_effects) < _ROUND_TOLERANCE)


def with_component(pairs: PairCounts, learned: LearnedModel) -> LearnedModel:
    """Return a start with one more component, along the plane in which the residual scores of pairs are largest.

    At 0 the slope of u and v vanishes, so the search has to begin elsewhere: at the first singular vectors of the
    antisymmetric matrix of residuals, whose singular values come in pairs.
    """
    parameters, prior = learned.parameters, learned.posterior.prior
    players = len(parameters)
    # The effects of pairs start at 0, or they would explain everything that the component could.
    prior = replace(
        prior,
        spread=np.append(prior.spread, _SPREAD_START),
        inheritance=np.append(prior.inheritance, _INHERITANCE_START),
        effect=0.0,
    )
    posterior = replace(learned.posterior, prior=prior)
    if players < 3 or not pairs.low.size:
        return LearnedModel(np.hstack((parameters, np.zeros((players, 2)))), posterior)
    chance = expit(log_odds(parameters, pairs.low, pairs.high))
    residual = (pairs.points - pairs.games * chance) / np.sqrt(pairs.games * 0.25 + 1.0)
    rows, columns = np.concatenate((pairs.low, pairs.high)), np.concatenate((pairs.high, pairs.low))
    matrix = csr_array((np.concatenate((residual, -residual)), (rows, columns)), shape=(players, players))
    if players <= _DENSE_SVD_MAX:
        u = np.linalg.svd(matrix.toarray())[0][:, 0]
    else:  # ARPACK fails where its start happens to be orthogonal to the rows, as in leagues of few pairs
        u = linalg.svds(matrix, k=1, v0=np.linspace(1.0, 2.0, players), solver="arpack")[0][:, 0]
    v = matrix.T @ u
    v -= u * (u @ v)
    size = _SPREAD_START * np.sqrt(players)
    length = float(np.linalg.norm(v))
    v = v / length if length > 0.0 else v
    parameters = np.hstack((parameters, size * u[:, None], size * v[:, None]))
    return LearnedModel(parameters, posterior)
