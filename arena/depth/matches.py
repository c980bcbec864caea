"""Matches between tactics and policies, all pairs in one batch, with the statistics of the play."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from arena.arrays import FloatArray
from arena.environments.base import Actions, Environment, Observation, StepResult
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.config.weapons import WEAPONS
from arena.environments.mech.env import MechEnvironment, make_mech
from arena.play.runner import MatchResult, play_pairs_in
from arena.policies.mech.tactician import Tactician
from arena.policies.mech.tactics import Tactic, parameters_of
from arena.policies.protocol import Policy
from arena.seeding import derive

ROWS = 1024
"""Most matches to play at once."""


@dataclass(frozen=True, eq=False)
class NamedPolicy:
    """A baseline or a trained snapshot."""

    name: str
    policy: Policy

    def __str__(self) -> str:
        """Return the name."""
        return self.name


Player = Tactic | NamedPolicy


@dataclass
class Ledger:
    """Totals over many matches.

    Attributes:
        results: Results from the view of home.
        damage: (W,) hit points of the hits of each weapon.
        alive: Decisions of living mechs.
        shut_down: Those of them that were shut down.
        fallen: Those of them that lay on the ground.
    """

    results: list[MatchResult] = field(default_factory=list)
    damage: FloatArray = field(default_factory=lambda: np.zeros(len(WEAPONS)))
    alive: float = 0.0
    shut_down: float = 0.0
    fallen: float = 0.0

    @property
    def damage_shares(self) -> dict[str, float]:
        """Share of the damage by weapon, of weapons that hurt."""
        total = max(float(self.damage.sum()), 1.0)
        return {
            weapon.name: float(amount) / total
            for weapon, amount in zip(WEAPONS, self.damage, strict=True)
            if amount > 0.0
        }

    @property
    def reasons(self) -> dict[str, int]:
        """Number of matches by reason of the end."""
        return dict(Counter(result.reason for result in self.results).most_common())


class TacticMatches:
    """Plays matches of a preset.

    Args:
        preset: Name of the preset.

    Attributes:
        parameters: Parameters of the tactics that matter in it.
    """

    def __init__(self, preset: str) -> None:
        self._preset = preset
        self.parameters = parameters_of(PRESETS[preset])

    def scores(self, pairs: Sequence[tuple[Player, Player]], seed: int, ledger: Ledger | None = None) -> FloatArray:
        """Play one match per pair and return the scores of the first player.

        Matches 2k and 2k + 1 share a seed. The first player is at home in even matches, so give every pair twice.
        """
        found = []
        for start in range(0, len(pairs), ROWS):
            part = pairs[start : start + ROWS]
            seeds = [derive(seed, "match", (start + index) // 2) for index in range(len(part))]
            ordered = [pair if index % 2 == 0 else (pair[1], pair[0]) for index, pair in enumerate(part)]
            results = self._play(ordered, seeds, derive(seed, "policies", start), ledger)
            found += [result.score if index % 2 == 0 else 1.0 - result.score for index, result in enumerate(results)]
        return np.array(found)

    def _play(
        self, pairs: Sequence[tuple[Player, Player]], seeds: Sequence[int], seed: int, ledger: Ledger | None
    ) -> list[MatchResult]:
        env = make_mech(self._preset, num_envs=len(pairs), device="cpu", seed=0)
        sides = [_policies(env, [pair[side] for pair in pairs]) for side in (0, 1)]
        watcher = _LedgerCallback(env, Ledger() if ledger is None else ledger)
        rng = torch.Generator().manual_seed(seed)
        results = play_pairs_in(env, list(zip(*sides, strict=True)), seeds, rng, watcher=watcher)
        watcher.ledger.results += results
        return results


def _policies(env: MechEnvironment, players: Sequence[Player]) -> list[Policy]:
    """Return the policy of every match; all tactics are one policy, so that they act in one call."""
    tactician = Tactician(env.config, [player for player in players if isinstance(player, Tactic)])
    return [tactician if isinstance(player, Tactic) else player.policy for player in players]


class _LedgerCallback:
    """Adds the first match of every row to a ledger."""

    def __init__(self, env: MechEnvironment, ledger: Ledger) -> None:
        self._env, self.ledger = env, ledger

    def opened(self, env: Environment, observation: Observation) -> None:
        """Start with all rows."""
        self._playing = torch.ones(env.num_envs, dtype=torch.bool)
        self._env.on_decided.append(self._add_decision)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Leave out rows whose match has ended."""
        self._playing = self._playing & ~step.over

    def _add_decision(self) -> None:
        """Add a decision, before matches that ended are reopened."""
        arrays, rows, ledger = self._env.arrays, self._playing, self.ledger
        acted = arrays["acted"] & rows.unsqueeze(-1)
        ledger.damage += arrays["raw_damage"][rows].sum(dim=(0, 1)).double().numpy()
        ledger.alive += float(acted.sum())
        ledger.shut_down += float((acted & (arrays["heat"] > self._env.hulls["heat_capacity"])).sum())
        ledger.fallen += float((acted & (arrays["fallen_ticks"] > 0)).sum())
