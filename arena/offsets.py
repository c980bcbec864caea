"""How unsure ratings are of what was taken off their scores: what a side gives a player is an estimate, too."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.special import expit

from arena.round_robin import Meetings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Leads:
    """Of how much better than on average over both sides P players are at home, and worse away: how sure that is.

    Attributes:
        share: (M,) of the results' rows, how many more of its games home's player had the home side than the away
            side, in [-1, 1]: 0 where sides were swapped evenly.
        variance: (P,) of each player's lead, in points squared.
    """

    share: FloatArray
    variance: FloatArray


def widened(covariance: FloatArray, theta: FloatArray, free: IntArray, meetings: Meetings, leads: Leads) -> FloatArray:
    """Add to the covariance of F free players' strengths what errors of the leads make of them.

    An error e_k of player k's lead takes n b p (1 - p) e_k too much off the points of whoever had the better side more
    often, in each pair of k's. To first order strengths then err by X e:

        C + X diag(v) X'        X = C G        G = sum over pairs (i, j) of  n b p (1 - p) (u_i - u_j) (u_i + u_j)'

    with u the unit vectors and b the share by which i had the home side more often than not. Where sides were swapped
    evenly, b = 0 and nothing is added.

    Args:
        covariance: C, (F, F).
        theta: (P,) strengths of all players, in the same units.
        free: (F,) who of them is free to move.
        meetings: K pairs with n, as much as their games count.
        leads: b of whoever is lower of each of the K pairs, and v in the same units squared.
    """
    chance = expit(theta[meetings.low] - theta[meetings.high])
    slope = meetings.games * leads.share * chance * (1.0 - chance)
    low, high = meetings.low, meetings.high
    rows, columns = np.concatenate((low, low, high, high)), np.concatenate((low, high, low, high))
    values = np.concatenate((slope, slope, -slope, -slope))
    unsure = np.unique(columns[(values != 0.0) & (leads.variance[columns] > 0.0)])
    if not unsure.size:
        return covariance
    shifts = csc_array((values, (rows, columns)), shape=(theta.size, theta.size))[:, unsure][free]
    errors: FloatArray = np.asarray((shifts.T @ covariance).T) * np.sqrt(leads.variance[unsure])
    widening: FloatArray = errors @ errors.T
    return covariance + widening
