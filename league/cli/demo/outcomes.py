"""Outcomes of simulated matches: hidden strengths, and a cycle of lineages as in rock-paper-scissors."""

from collections.abc import Sequence

import numpy as np

from arena.seeding import match_seed
from league import wire

_DRAWS = 0.04
_ADVANTAGES = (0.0, 70.0, -70.0)
"""Elo points that a lineage gains against the one that is 0, 1 or 2 places before it."""

_MEASURES = ("shots_per_min", "engagement_range_m", "in_zone", "hit_rate")


class Outcomes:
    """Draws results by the hidden strengths of players.

    Args:
        rng: Source of all randomness.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._strengths: dict[int, float] = {}
        self._lineages: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of players."""
        return len(self._strengths)

    def set_strength(self, player_id: int, elo: float, lineage: int = 0) -> None:
        """Set the strength of a player in Elo points, and the index of its lineage."""
        self._strengths[player_id], self._lineages[player_id] = elo, lineage

    def draw(self, lease: wire.Lease, learner_step: int) -> list[wire.Result]:
        """Return a result for each match of a lease."""
        return [self._result(lease, sequence, learner_step) for sequence in range(lease.budget)]

    def _result(self, lease: wire.Lease, sequence: int, learner_step: int) -> wire.Result:
        home, away = lease.home.player_id, lease.away.player_id
        is_training = lease.learner_side is not None
        score = float(self._rng.random() < self._expected_score(home, away))
        return wire.Result(
            lease_id=lease.lease_id,
            sequence=sequence,
            score=0.5 if self._rng.random() < _DRAWS else score,
            decisions=int(self._rng.integers(120, 600)),
            reason=str(self._rng.choice(["zone", "destroyed", "time"])),
            seed=match_seed(lease.seed, sequence),
            learner_step=learner_step if is_training else None,
            behaviour=None if is_training else self._behaviour(home, away),
        )

    def _expected_score(self, home: int, away: int) -> float:
        lead = self._strengths[home] - self._strengths[away]
        lead += _ADVANTAGES[(self._lineages[home] - self._lineages[away]) % len(_ADVANTAGES)]
        return float(1.0 / (1.0 + 10.0 ** (-lead / 400.0)))

    def _behaviour(self, home: int, away: int) -> wire.Behaviour:
        return wire.Behaviour(measures=list(_MEASURES), home=self._measured(home), away=self._measured(away))

    def _measured(self, player_id: int) -> Sequence[float | None]:
        lineage, strength = self._lineages[player_id], self._strengths[player_id]
        means = (20.0 + 8.0 * lineage, 260.0 - 60.0 * lineage, 0.35 + 0.1 * lineage, 0.3 + strength / 4000.0)
        return [float(value) for value in self._rng.normal(means, (4.0, 40.0, 0.1, 0.06))]
