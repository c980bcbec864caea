"""Analysis of a preset's depth: search, equilibrium play and ablations."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from arena.arrays import FloatArray
from arena.depth.double_oracle import Budget, Pool, open_pool, sample_mixture, search
from arena.depth.matches import Ledger, NamedPolicy, Player, TacticMatches
from arena.environments.mech.config.scenario import PRESETS
from arena.play.series import score_interval
from arena.policies.mech.tactics import Tactic, ablations, opening_of
from arena.seeding import derive

CONSIDERABLE = 0.1
"""Weight in the Nash mixture from which a tactic counts."""

LIEUTENANT = "lieutenant"


@dataclass(frozen=True)
class PlayStatistics:
    """How matches go.

    Attributes:
        matches: Number of matches.
        draws: Share of draws.
        decisions: 10 %, 50 % and 90 % quantile of the length.
        home_score: Mean score of the home side, and its 95 % interval.
        reasons: Number of matches by reason of the end.
        damage: Share of the damage by weapon.
        shut_down: Share of the time that living mechs were shut down.
        fallen: Share of the time that they lay on the ground.
    """

    matches: int
    draws: float
    decisions: tuple[float, float, float]
    home_score: tuple[float, float, float]
    reasons: dict[str, int]
    damage: dict[str, float]
    shut_down: float
    fallen: float

    @classmethod
    def of(cls, ledger: Ledger) -> "PlayStatistics":
        """Summarise the matches of a ledger."""
        count = len(ledger.results)
        home = statistics.mean(result.score for result in ledger.results)
        low, median, high = np.quantile([result.decisions for result in ledger.results], (0.1, 0.5, 0.9)).tolist()
        return cls(
            matches=count,
            draws=statistics.mean(result.score == 0.5 for result in ledger.results),
            decisions=(low, median, high),
            home_score=(home, *score_interval(home, count // 2)),  # both matches of a seed count as one
            reasons=ledger.reasons,
            damage=ledger.damage_shares,
            shut_down=ledger.shut_down / max(ledger.alive, 1.0),
            fallen=ledger.fallen / max(ledger.alive, 1.0),
        )


@dataclass(frozen=True)
class Ablation:
    """The Nash mixture without a mechanic against the whole one.

    Attributes:
        mechanic: Name of the mechanic.
        used: Weight of the tactics in the mixture that use it.
        score: Mean score without it.
        low: Lower end of its 95 % interval.
        high: Upper end.
    """

    mechanic: str
    used: float
    score: float
    low: float
    high: float


@dataclass(frozen=True)
class Depth:
    """Depth of a preset.

    Attributes:
        preset: Name of the preset.
        pool: Players and results of the double oracle.
        nash: (P,) Nash mixture.
        mixture_play: Matches of the mixture against itself.
        lieutenant_play: Matches of the lieutenant against itself.
        ablations: Worth of every mechanic.
    """

    preset: str
    pool: Pool
    nash: FloatArray
    mixture_play: PlayStatistics
    lieutenant_play: PlayStatistics
    ablations: tuple[Ablation, ...]

    @property
    def considerable(self) -> int:
        """Number of players with a considerable weight."""
        return int((self.nash > CONSIDERABLE).sum())

    def to_dict(self) -> dict[str, Any]:
        """Return the analysis as JSON values."""
        names = [str(player) for player in self.pool.players]
        return {
            "environment": self.preset,
            "players": names,
            "scores": self.pool.win_rate.tolist(),
            "games": self.pool.games.tolist(),
            "nash": self.nash.tolist(),
            "tactics_above_10_percent": self.considerable,
            "cyclic_share": self.pool.cyclic,
            "rounds": [
                {"challenger": str(each.challenger), "score": each.score, "admitted": each.admitted}
                for each in self.pool.rounds
            ],
            "mixture": vars(self.mixture_play),
            "lieutenant": vars(self.lieutenant_play),
            "ablations": [vars(each) for each in self.ablations],
        }


class DepthAnalysis:
    """Measures the depth of a preset.

    Args:
        preset: Name of the preset.
        players: Baselines and snapshots that join the opening tactics; the lieutenant is among them.
        budget: Size of the search.
        seed: Seed of everything.
    """

    def __init__(self, preset: str, players: Sequence[NamedPolicy], budget: Budget, seed: int) -> None:
        self._preset, self._named, self._budget, self._seed = preset, players, budget, seed
        self._matches = TacticMatches(preset)

    @property
    def steps(self) -> int:
        """Most steps that are reported as progress."""
        return 1 + self._budget.rounds + 1 + len(ablations(PRESETS[self._preset]))

    def run(self, saved: dict[str, Any] | None, save: Callable[[Pool], None], on_step: Callable[[int], None]) -> Depth:
        """Search, then measure the equilibrium.

        Args:
            saved: `Pool.to_dict` of an earlier run with the same arguments, which continues.
            save: Called with the pool after every round.
            on_step: Called with the number of finished steps.
        """
        if saved is None:
            players: list[Player] = [*self._named, *opening_of(PRESETS[self._preset])]
            pool = open_pool(players, self._matches, self._budget.matches, self._seed)
            save(pool)
        else:
            pool = Pool.from_dict(saved, self._named)
        on_step(1 + len(pool.rounds))

        def finish_round() -> None:
            save(pool)
            on_step(1)

        search(pool, self._matches, self._budget, self._seed, finish_round)
        on_step(self._budget.rounds - len(pool.rounds))
        nash = pool.nash
        mixture, lieutenant = self._mixture_play(pool, nash), self._lieutenant_play()
        on_step(1)
        worth = []
        for mechanic, parameters in ablations(PRESETS[self._preset]).items():
            worth.append(self._ablate(pool, nash, mechanic, parameters))
            on_step(1)
        return Depth(self._preset, pool, nash, mixture, lieutenant, tuple(worth))

    @property
    def _count(self) -> int:
        """Number of pairs of matches in each measurement of the equilibrium."""
        return 4 * self._budget.matches

    def _mixture_play(self, pool: Pool, nash: FloatArray) -> PlayStatistics:
        ledger, seed = Ledger(), derive(self._seed, "mixture")
        first, second = (sample_mixture(pool.players, nash, self._count, derive(seed, side)) for side in (0, 1))
        pairs = [pair for pair in zip(first, second, strict=True) for _ in (0, 1)]
        self._matches.scores(pairs, seed, ledger)
        return PlayStatistics.of(ledger)

    def _lieutenant_play(self) -> PlayStatistics:
        ledger = Ledger()
        player = next(each for each in self._named if each.name == LIEUTENANT)
        self._matches.scores([(player, player)] * 2 * self._count, derive(self._seed, LIEUTENANT), ledger)
        return PlayStatistics.of(ledger)

    def _ablate(self, pool: Pool, nash: FloatArray, mechanic: str, parameters: Any) -> Ablation:  # noqa: ANN401
        """Play the mixture without a mechanic against the whole one."""
        without: list[Player] = [
            replace(each, **parameters) if isinstance(each, Tactic) else each for each in pool.players
        ]
        changed = np.array(
            [one is not other and one != other for one, other in zip(without, pool.players, strict=True)]
        )
        used = float(nash[changed].sum())
        if not used:
            return Ablation(mechanic, 0.0, 0.5, 0.5, 0.5)
        seed = derive(self._seed, "ablation", mechanic)
        first = sample_mixture(without, nash, self._count, derive(seed, 0))
        second = sample_mixture(pool.players, nash, self._count, derive(seed, 1))
        pairs = [pair for pair in zip(first, second, strict=True) for _ in (0, 1)]
        score = float(self._matches.scores(pairs, seed).mean())
        return Ablation(mechanic, used, score, *score_interval(score, len(pairs)))
