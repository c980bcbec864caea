"""Nash averaging: the maximum-entropy Nash equilibrium of a payoff matrix.

In the meta-game, two participants each choose a player of the population, and the two players play a match. No player
beats a Nash mixture of this game on average. The mixture of maximum entropy is unique. Copies of a player divide the
probability that a single copy would have.

Source: Balduzzi, Tuyls, Perolat and Graepel, "Re-evaluating evaluation" (2018), "Nash averaging".
"""

import clarabel
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.sparse import csc_array, hstack, vstack

from arena.arrays import FloatArray

_SYMMETRY = 1e-6  # tolerance of x_ij + x_ji = 1
_TOLERANCE = 1e-9  # of the conic solver, in win rates and probabilities
# tolerance of a lead over the mixture: with exactly 0, players almost even with it would leave no feasible mixture
_NOTHING = 1e-7


def max_entropy_nash(win_rate: ArrayLike) -> FloatArray:
    """Return the maximum-entropy Nash mixture of the game in which each side chooses a player.

        maximise -sum_i p_i log p_i    subject to    sum_j (x_ij - x_ji) p_j <= 0 for all i,    p in the simplex

    A linear program first finds the players with a positive probability in some equilibrium. The entropy is then
    maximised over those. If the conic solver fails, which can happen if the equilibrium is unique, the result is the
    solution of the linear program.

    Args:
        win_rate: (P, P) win rates x in [0, 1], x_ij + x_ji = 1 as in `arena.evaluation.payoff.Payoff.win_rate`.

    Returns:
        (P,) probabilities that sum to 1. Empty for an empty population.

    Raises:
        ValueError: A win rate is out of range, or the two views of a pair contradict each other.
        ArithmeticError: The linear program failed.
    """
    lead = _lead(win_rate)
    mixture = np.zeros(len(lead))
    if not mixture.size:
        return mixture
    share = _any_equilibrium(lead)
    inside = share > -(lead @ share)  # strict complementarity: exactly one of share and loss is positive
    mixture[inside] = _most_even(lead[:, inside], share[inside])
    return mixture


def _any_equilibrium(lead: FloatArray) -> FloatArray:
    """Return a strictly complementary equilibrium: each player has either a positive probability or a loss.

    Maximise e subject to lead p <= 0 and p_i - (lead p)_i >= e. In a symmetric game the maximum is above 0 (Goldman and
    Tucker 1956).
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
    """Return the maximum-entropy mixture of K players that no player beats.

    The variables are p and t with t_i <= -p_i log p_i, which is (t_i, p_i, 1) in the exponential cone.

    Args:
        lead: (P, K) lead of each player over each of the K.
        known: (K,) a feasible mixture with positive probabilities, returned if the solver fails.
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
    # The solver's probabilities may be negative by its tolerance.
    mixture = np.maximum(solution.x[:size], 0.0)
    return np.asarray(mixture / mixture.sum())


def _cone_rows(size: int) -> csc_array:
    """Return the negated (3 K, 2 K) rows that select t_i, p_i and nothing."""
    columns, rows = np.arange(size), 3 * np.arange(size)
    cells = np.concatenate((rows, rows + 1)), np.concatenate((size + columns, columns))
    return csc_array((-np.ones(2 * size), cells), shape=(3 * size, 2 * size))


def _lead(win_rate: ArrayLike) -> FloatArray:
    x = np.asarray(win_rate, dtype=np.float64)
    if x.ndim != 2 or x.shape[0] != x.shape[1]:
        raise ValueError(f"win_rate has shape {x.shape}: pass one row and one column per player")
    wrong = np.argwhere(~((x >= 0.0) & (x <= 1.0)))
    if wrong.size:
        i, j = wrong[0]
        raise ValueError(f"win_rate[{i}, {j}] is {x[i, j]}: a win rate must be in [0, 1]")
    asymmetric = np.argwhere(np.abs(x + x.T - 1.0) > _SYMMETRY)
    if asymmetric.size:
        i, j = asymmetric[0]
        raise ValueError(
            f"win_rate[{i}, {j}] is {x[i, j]} and [{j}, {i}] is {x[j, i]}: both views of a pair must sum to 1"
        )
    return np.asarray(x - x.T)
