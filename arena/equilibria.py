"""What a population comes to when everybody may choose whom to be: Nash mixtures and alpha-rank of a payoff matrix.

The game behind both: two choose a player each from the population and let them play. Its Nash mixture is the way to
choose that nobody in the population beats on average. Of all such mixtures the one of largest entropy is unique, and
copies of a player share what the player would have.

Source: Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018), "Nash averaging"; Omidshafiei et al.,
"Alpha-Rank: multi-agent evaluation by evolution" (2019).
"""

import clarabel
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.sparse import csc_array, hstack, vstack

FloatArray = NDArray[np.float64]

_SYMMETRY = 1e-6  # how far x_ij + x_ji may be from 1
_TOLERANCE = 1e-9  # of the conic solver, in win rates and probabilities
_NOTHING = 1e-7  # a lead over a mixture that is none: players a hair's breadth from even would leave no mixture else
_LEAST_CHANCE = 1e-300  # of a takeover, so that everybody can follow everybody


def nash_mixture(win_rate: ArrayLike) -> FloatArray:
    """Return the Nash mixture of maximum entropy of the game "choose a player each".

        maximise -sum_i p_i log p_i    subject to    sum_j (x_ij - x_ji) p_j <= 0 for all i,    p in the simplex

    A linear program finds out who has a share in any equilibrium at all; among those the entropy decides. Where the
    solver of that gives up, as it may where there is but one equilibrium, it is that of the linear program.

    Args:
        win_rate: (P, P) win rates x in [0, 1], x_ij + x_ji = 1 as in `arena.payoff.Payoff.win_rate`.

    Returns:
        (P,) probabilities that sum to 1; empty where there is nobody.

    Raises:
        ValueError: A win rate is out of range, or the two views of a pair contradict each other.
        ArithmeticError: A solver gave up.
    """
    lead = _lead(win_rate)
    mixture = np.zeros(len(lead))
    if not mixture.size:
        return mixture
    share = _any_equilibrium(lead)
    inside = share > -(lead @ share)
    mixture[inside] = _most_even(lead[:, inside], share[inside])
    return mixture


def alpha_rank(win_rate: ArrayLike, *, alpha: float = 1.0, population: int = 50) -> FloatArray:
    """Return the share of time for which each player would rule a population in which the fitter spread.

    A mutant r takes over a population of s with the probability

        rho = (1 - exp(-u)) / (1 - exp(-m u)),    u = alpha (x_rs - x_sr)        1 / m where u = 0

    and each other player is as likely to appear as a mutant. The shares are the stationary distribution of that.

    Args:
        win_rate: (P, P) win rates x as in `nash_mixture`.
        alpha: Intensity of selection, > 0: from all alike (towards 0) to whoever wins more often than not (large).
        population: m, how many individuals, >= 2.

    Returns:
        (P,) shares that sum to 1; empty where there is nobody.

    Raises:
        ValueError: As in `nash_mixture`, or alpha or the population is out of range.

    Source: Omidshafiei et al. (2019), equations 11 and 12, one population.
    """
    if not 0.0 < alpha < np.inf:
        raise ValueError(f"alpha is {alpha}: it must be finite and above 0")
    if population < 2:
        raise ValueError(f"population is {population}: it takes two to compete")
    lead = _lead(win_rate)
    return _stationary(_takeovers(alpha * lead.T, population)) if len(lead) else np.zeros(0)


def _any_equilibrium(lead: FloatArray) -> FloatArray:
    """Return an equilibrium in which each player has either a share or a loss, whichever it ever has.

    Maximise e subject to lead p <= 0 and p_i - (lead p)_i >= e. Where both sides have the same choices the maximum is
    above 0 (Goldman and Tucker 1956).
    """
    players = len(lead)
    one = np.ones((players, 1))
    no_loss = np.hstack((lead, 0.0 * one))
    strict = np.hstack((lead - np.eye(players), one))
    solution = linprog(
        np.append(np.zeros(players), -1.0),
        A_ub=np.vstack((no_loss, strict)),
        b_ub=np.zeros(2 * players),
        A_eq=np.append(np.ones(players), 0.0)[None, :],
        b_eq=[1.0],
        bounds=(0.0, None),
        method="highs",
    )
    if solution.status != 0:
        raise ArithmeticError(f"no equilibrium of {players} players was found: {solution.message}")
    return np.asarray(solution.x[:-1])


def _most_even(lead: FloatArray, known: FloatArray) -> FloatArray:
    """Return the mixture of maximum entropy of K players that nobody beats.

    Variables are p and t with t_i <= -p_i log p_i, which is (t_i, p_i, 1) in the exponential cone.

    Args:
        lead: (P, K) lead of everybody over each of them.
        known: (K,) such a mixture in which each has a share; it is the answer where the solver gives up.
    """
    size = lead.shape[1]
    rows = csc_array(np.vstack((np.ones((1, size)), lead)))
    right = np.concatenate(([1.0], np.full(len(lead), _NOTHING), np.tile([0.0, 0.0, 1.0], size)))
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(lead))]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOLERANCE
    solver = clarabel.DefaultSolver(
        csc_array((2 * size, 2 * size)),
        np.concatenate((np.zeros(size), -np.ones(size))),
        csc_array(vstack((hstack((rows, csc_array(rows.shape))), _cone_rows(size)))),
        right,
        cones + [clarabel.ExponentialConeT()] * size,
        settings,
    )
    solution = solver.solve()
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        return np.asarray(known / known.sum())
    mixture = np.maximum(solution.x[:size], 0.0)
    return np.asarray(mixture / mixture.sum())


def _cone_rows(size: int) -> csc_array:
    """Return (3 K, 2 K) minus the rows that pick t_i, p_i and nothing."""
    columns, rows = np.arange(size), 3 * np.arange(size)
    places = np.concatenate((rows, rows + 1)), np.concatenate((size + columns, columns))
    return csc_array((-np.ones(2 * size), places), shape=(3 * size, 2 * size))


def _takeovers(advantage: FloatArray, population: int) -> FloatArray:
    """Return (P, P) probabilities that a mutant of the column takes over a population of the row."""
    size = np.abs(advantage)
    weak = -np.expm1(-size) / np.where(size > 0.0, -np.expm1(-population * size), 1.0)
    chance = np.where(advantage > 0.0, weak, np.exp(-(population - 1) * size) * weak)
    return np.maximum(np.where(size > 0.0, chance, 1.0 / population), _LEAST_CHANCE)


def _stationary(chances: FloatArray) -> FloatArray:
    """Return the stationary distribution of a Markov chain, its states eliminated one after the other.

    No step subtracts, so that shares of 1e-100 are right to the last digits as well.

    Args:
        chances: (P, P) transitions, > 0 off the diagonal, up to a common factor. The diagonal is not looked at.

    Source: Grassmann, Taksar and Heyman, "Regenerative analysis and steady state distributions" (1985).
    """
    chain = chances.copy()
    for last in range(len(chain) - 1, 0, -1):
        chain[:last, last] /= chain[last, :last].sum()
        chain[:last, :last] += np.outer(chain[:last, last], chain[last, :last])
    shares = np.zeros(len(chain))
    shares[0] = 1.0
    for state in range(1, len(chain)):
        shares[state] = shares[:state] @ chain[:state, state]
        shares[: state + 1] /= shares[: state + 1].sum()
    return shares


def _lead(win_rate: ArrayLike) -> FloatArray:
    x = np.asarray(win_rate, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"win_rate has shape {x.shape}: pass one row and one column per player")
    wrong = np.argwhere(~((x >= 0.0) & (x <= 1.0)))
    if wrong.size:
        i, j = wrong[0]
        raise ValueError(f"win_rate[{i}, {j}] is {x[i, j]}: a win rate lies in [0, 1]")
    apart = np.argwhere(np.abs(x + x.T - 1.0) > _SYMMETRY)
    if apart.size:
        i, j = apart[0]
        raise ValueError(
            f"win_rate[{i}, {j}] is {x[i, j]} and [{j}, {i}] is {x[j, i]}: both views of a pair must sum to 1"
        )
    return np.asarray(x - x.T)
