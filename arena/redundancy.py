"""Which snapshots a league could do without: those that another one stands for, in results and in behaviour.

Two players are alike in results if their win rates against the opponents that both met differ by little, and alike in
behaviour if their fingerprints do. Of players that are alike the best stays and stands for the others.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.payoff import Tally

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_ONE_SIDED_95 = 1.644854


@dataclass(frozen=True)
class RedundancyConfig:
    """When two players count as alike.

    Attributes:
        win_rate_distance: Largest root mean square difference of win rates, in (0, 1).
        fingerprint_distance: Largest root mean square difference of fingerprints, in standard deviations of the
            population, > 0.
        least_opponents: How many opponents both must have met, >= 1.

    Raises:
        ValueError: A value is out of its range.
    """

    win_rate_distance: float = 0.1
    fingerprint_distance: float = 0.25
    least_opponents: int = 5

    def __post_init__(self) -> None:
        if not 0.0 < self.win_rate_distance < 1.0:
            raise ValueError(f"win_rate_distance is {self.win_rate_distance}: it must be in (0, 1); 0.1 is usual")
        if not 0.0 < self.fingerprint_distance < np.inf:
            raise ValueError(
                f"fingerprint_distance is {self.fingerprint_distance}: it must be finite and above 0; 0.25 is usual"
            )
        if self.least_opponents < 1:
            raise ValueError(f"least_opponents is {self.least_opponents}: it must be 1 or more; 5 is usual")


@dataclass(frozen=True)
class Redundant:
    """A player that another one stands for.

    Attributes:
        player: Who could retire.
        twin: Who stands for it and stays.
        win_rate_distance: Estimated root mean square difference of their win rates, noise taken off.
        win_rate_bound: Below this it is with 95 % confidence.
        fingerprint_distance: Difference of their fingerprints; NaN where none are known.
        opponents: How many opponents both met.
    """

    player: int
    twin: int
    win_rate_distance: float
    win_rate_bound: float
    fingerprint_distance: float
    opponents: int


def redundant(
    counts: Tally,
    strength: ArrayLike,
    config: RedundancyConfig,
    *,
    keep: ArrayLike | None = None,
    fingerprints: ArrayLike | None = None,
) -> tuple[Redundant, ...]:
    """Find the players that better ones stand for.

    Players are looked at from the strongest down. Each stays unless it is alike to one that stays; so whoever retires
    leaves somebody alike and no weaker behind, also where only some of those named retire.

    Alike in results takes evidence: the upper bound of

        D^2 = mean over k of (x_ik - x_jk)^2

    must not exceed the configured distance. Of the observed squares the noise v = var_ik + var_jk is taken off; their
    sum is taken for normal with variance sum of 2 v^2 + 4 d^2 v.

    Args:
        counts: (P, P) counts; entry (i, j) is i's view of all games of i and j.
        strength: (P,) what decides who stays, for example the conservative rating.
        config: When two players count as alike.
        keep: (P,) true for players that stay in any case; None for nobody.
        fingerprints: (P, F) what each does, in any units: every column is scaled by its spread. A row with NaN is not
            known and like nobody's. None where the environment declares no fingerprint: results alone decide.

    Returns:
        Those that could retire, most alike first.

    Raises:
        ValueError: Shapes do not fit, or a strength is not finite.
    """
    order, stays = _order(counts, strength, keep)
    behaviour = _scaled(fingerprints, order.size)
    met = counts.games > 0.0
    mean, variance = _mean_and_variance(counts)
    kept: list[int] = []
    found: list[Redundant] = []
    for player in order.tolist():
        twins = np.array(kept, dtype=np.int64)
        closest = None if stays[player] else _closest(player, twins, mean, variance, met, behaviour, config)
        if closest is None:
            kept.append(player)
        else:
            found.append(closest)
    return tuple(sorted(found, key=lambda each: (each.win_rate_bound, each.player)))


def _closest(
    player: int,
    twins: IntArray,
    mean: FloatArray,
    variance: FloatArray,
    met: BoolArray,
    behaviour: FloatArray | None,
    config: RedundancyConfig,
) -> Redundant | None:
    """Return the one of the twins that the player is most certainly alike, if any."""
    common = met[player] & met[twins]
    common[np.arange(twins.size), twins] = False
    opponents = common.sum(axis=1)
    noise = np.where(common, variance[player] + variance[twins], 0.0)
    surplus = np.where(common, np.square(mean[player] - mean[twins]), 0.0) - noise
    error = np.sqrt((2.0 * noise**2 + 4.0 * np.maximum(surplus, 0.0) * noise).sum(axis=1))
    square = np.maximum(surplus.sum(axis=1), 0.0) / np.maximum(opponents, 1)
    bound = np.sqrt(square + _ONE_SIDED_95 * error / np.maximum(opponents, 1))
    apart = np.full(twins.size, np.nan)
    if behaviour is not None:
        apart = np.linalg.norm(behaviour[player] - behaviour[twins], axis=1)
    alike = (opponents >= config.least_opponents) & (bound <= config.win_rate_distance)
    if behaviour is not None:
        alike &= apart <= config.fingerprint_distance
    if not alike.any():
        return None
    best = int(np.argmin(np.where(alike, bound, np.inf)))
    return Redundant(
        player=player,
        twin=int(twins[best]),
        win_rate_distance=float(np.sqrt(square[best])),
        win_rate_bound=float(bound[best]),
        fingerprint_distance=float(apart[best]),
        opponents=int(opponents[best]),
    )


def _order(counts: Tally, strength: ArrayLike, keep: ArrayLike | None) -> tuple[IntArray, BoolArray]:
    """Return players from the strongest down, and who stays in any case."""
    values = np.asarray(strength, dtype=np.float64)
    stays = np.zeros(values.shape, dtype=np.bool_) if keep is None else np.asarray(keep, dtype=np.bool_)
    if values.ndim != 1 or stays.shape != values.shape or counts.games.shape != 2 * values.shape:
        raise ValueError(
            f"counts have shape {counts.games.shape}, strength {values.shape}, keep {stays.shape}: "
            "pass one row, column and value per player"
        )
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        raise ValueError(f"strength[{wrong[0]}] is {values[wrong[0]]}: it must be finite")
    return np.argsort(-values, kind="stable"), stays


def _mean_and_variance(counts: Tally) -> tuple[FloatArray, FloatArray]:
    """Return mean scores and their variances; a win and a loss are added to the latter, or one result would be certain.

    Draws spread less than wins and losses of the same mean.
    """
    games = np.maximum(counts.games, 1.0)
    share, square = ((each + 1.0) / (counts.games + 2.0) for each in (counts.points, counts.wins + 0.25 * counts.draws))
    return counts.points / games, (np.minimum(square, share) - np.square(share)) / games


def _scaled(fingerprints: ArrayLike | None, players: int) -> FloatArray | None:
    """Return (P, F) fingerprints whose distances are root mean squares over the columns that spread at all."""
    if fingerprints is None:
        return None
    table = np.asarray(fingerprints, dtype=np.float64)
    if table.ndim != 2 or len(table) != players:
        raise ValueError(f"fingerprints have shape {table.shape}: pass one row for each of {players} players")
    known = table[np.isfinite(table).all(axis=1)]
    spread = known.std(axis=0) if len(known) else np.zeros(table.shape[1])
    return np.asarray(table / np.where(spread > 0.0, spread, 1.0) / max(int(np.count_nonzero(spread)), 1) ** 0.5)
