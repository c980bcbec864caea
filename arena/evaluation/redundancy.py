"""Redundant snapshots: players that a stronger one represents, in results and in behaviour.

Two players are similar in results if their win rates against common opponents differ little. They are similar in
behaviour if their behaviour descriptors differ little. Of similar players the strongest is the representative.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.evaluation.behaviour_profiles import Distances, Fingerprints, fingerprint_distances, root_mean_squares
from arena.evaluation.payoff import WinCounts


@dataclass(frozen=True)
class RedundancyConfig:
    """Thresholds of similarity between two players.

    Attributes:
        win_rate_distance: Largest root mean square difference of win rates, in (0, 1).
        fingerprint_distance: Largest root mean square difference of behaviour descriptors, in standard deviations of
            the population, > 0.
        least_opponents: Fewest common opponents, >= 1.

    Raises:
        ValueError: A value is out of range.
    """

    win_rate_distance: float = 0.1
    fingerprint_distance: float = 0.25
    least_opponents: int = 5

    def __post_init__(self) -> None:
        if not 0.0 < self.win_rate_distance < 1.0:
            raise ValueError(f"win_rate_distance is {self.win_rate_distance}: it must be in (0, 1); 0.1 is typical")
        if not 0.0 < self.fingerprint_distance < np.inf:
            raise ValueError(
                f"fingerprint_distance is {self.fingerprint_distance}: it must be finite and above 0; 0.25 is typical"
            )
        if self.least_opponents < 1:
            raise ValueError(f"least_opponents is {self.least_opponents}: it must be 1 or more; 5 is typical")


@dataclass(frozen=True)
class Redundant:
    """A redundant player and its representative.

    Attributes:
        player: Index of the player that can retire.
        twin: Index of its representative, which stays.
        win_rate_distance: Estimated root mean square difference of their win rates, without sampling noise.
        win_rate_bound: Upper bound of that difference at 95 % confidence.
        opponents: Number of common opponents.
        fingerprint_distance: Estimated difference of their behaviour descriptors, in standard deviations, without
            sampling noise; NaN without common measures, in which case results alone decide.
        fingerprint_bound: Upper bound of that difference at 95 % confidence. NaN without common measures.
        measures: Number of common measures.
    """

    player: int
    representative: int
    win_rate_distance: float
    win_rate_bound: float
    opponents: int
    fingerprint_distance: float
    fingerprint_bound: float
    measures: int


def redundant(
    counts: WinCounts,
    strength: ArrayLike,
    config: RedundancyConfig,
    *,
    keep: ArrayLike | None = None,
    fingerprints: Fingerprints | None = None,
) -> tuple[Redundant, ...]:
    """Find the players that a stronger, similar player represents.

    Players are examined from the strongest down. Each stays unless it is similar to one that stays. Every redundant
    player therefore has a representative at least as strong, even if only some of the redundant players retire.

    Similarity requires evidence: the upper bounds of the root mean square differences in results and, if known for
    both, in behaviour must not exceed the configured limits. See
    `arena.evaluation.behaviour_profiles.root_mean_squares`.

    Args:
        counts: (P, P) counts; entry (i, j) is i's view of all games of i and j.
        strength: (P,) order of preference, for example the conservative rating.
        config: Thresholds of similarity.
        keep: (P,) true for players that always stay. None for none.
        fingerprints: Descriptors of the P players. None without measurements.

    Returns:
        Redundant players, most similar first.

    Raises:
        ValueError: Shapes do not match, or a strength is not finite.
    """
    order, stays = _order(counts, strength, keep)
    _require_fit(fingerprints, order.size)
    have_games = counts.games > 0.0
    mean, variance = _mean_and_variance(counts)
    staying: list[int] = []
    found: list[Redundant] = []
    # From the strongest down, so that a representative is never weaker than the players that it represents.
    for player in order.tolist():
        representatives = np.array(staying, dtype=np.int64)
        closest = (
            None
            if stays[player]
            else _closest(player, representatives, mean, variance, have_games, fingerprints, config)
        )
        if closest is None:
            staying.append(player)
        else:
            found.append(closest)
    return tuple(sorted(found, key=lambda each: (each.win_rate_bound, each.player)))


def _closest(
    player: int,
    representatives: IntArray,
    mean: FloatArray,
    variance: FloatArray,
    have_games: BoolArray,
    fingerprints: Fingerprints | None,
    config: RedundancyConfig,
) -> Redundant | None:
    """Return the candidate most certainly similar to the player in results, None if none is similar."""
    common = have_games[player] & have_games[representatives]
    # Games against the other player of the pair have no counterpart.
    common[np.arange(representatives.size), representatives] = False
    difference = np.where(common, mean[player] - mean[representatives], np.nan)
    results = root_mean_squares(difference, variance[player] + variance[representatives])
    behaviour = (
        _unknown(representatives.size)
        if fingerprints is None
        else fingerprint_distances(fingerprints, player, representatives)
    )
    similar = (results.values >= config.least_opponents) & (results.bound <= config.win_rate_distance)
    # Negated, so that NaN (no common measures) counts as similar.
    similar &= ~(behaviour.bound > config.fingerprint_distance)
    if not similar.any():
        return None
    best = int(np.argmin(np.where(similar, results.bound, np.inf)))
    return Redundant(
        player=player,
        representative=int(representatives[best]),
        win_rate_distance=float(results.distance[best]),
        win_rate_bound=float(results.bound[best]),
        opponents=int(results.values[best]),
        fingerprint_distance=float(behaviour.distance[best]),
        fingerprint_bound=float(behaviour.bound[best]),
        measures=int(behaviour.values[best]),
    )


def _unknown(pairs: int) -> Distances:
    """Return distances of unknown pairs: NaN over 0 values."""
    return root_mean_squares(np.empty((pairs, 0)), np.empty((pairs, 0)))


def _require_fit(fingerprints: Fingerprints | None, players: int) -> None:
    if fingerprints is not None and len(fingerprints.mean) != players:
        raise ValueError(
            f"fingerprints have shape {fingerprints.mean.shape}: pass one row for each of {players} players"
        )


def _order(counts: WinCounts, strength: ArrayLike, keep: ArrayLike | None) -> tuple[IntArray, BoolArray]:
    """Return players from the strongest down, and a mask of those that always stay."""
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


def _mean_and_variance(counts: WinCounts) -> tuple[FloatArray, FloatArray]:
    """Return mean scores and their sampling variances.

    A virtual win and a virtual loss are added for the variance, so that a single result has one. Draws count 1/4 in the
    second moment and reduce the variance.
    """
    games = np.maximum(counts.games, 1.0)
    share, square = ((each + 1.0) / (counts.games + 2.0) for each in (counts.points, counts.wins + 0.25 * counts.draws))
    return counts.points / games, (np.minimum(square, share) - np.square(share)) / games
