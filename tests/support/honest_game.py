"""A game that keeps every rule of environments, and ways to change what it does."""

from dataclasses import replace

import torch

from arena.environments import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock
from arena.environments.base import Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.errors import InvalidActionError

AGENTS, OPTIONS, LIMIT = 4, 3, 6
MORTAL, DIES_AFTER = 1, 2
"""Agent 1 acts in two decisions."""


class Honest(SeededBatch):
    """Two against two, who choose and earn by what dice make of it; one dies early.

    A match lasts 3 or 6 decisions by its seed; the sixth is cut off. A decision pays the home side what its options
    and dice are worth more than away's, and costs away as much.
    """

    def __init__(self, name, *, num_envs, device, seed):
        super().__init__(self.declare(name), num_envs=num_envs, device=device, seed=seed)
        self.decision, self.points = self._zeros(torch.int64), self._zeros(torch.float64)

    def declare(self, name):
        return EnvironmentSpec(
            name=name,
            agents_per_side=(2, 2),
            roles=("scout", "tank") * 2,
            observation=(ObservationBlock("clock", (1,), 0.0, 1.0), ObservationBlock("dice", (2,), -1.0, 1.0)),
            heads=(
                ActionHead("option", HeadKind.CATEGORICAL, OPTIONS, masked=True),
                ActionHead("switch", HeadKind.BERNOULLI, 2, masked=False),
                ActionHead("push", HeadKind.GAUSSIAN, 1, masked=False),
            ),
            max_decisions=LIMIT,
            turn_based=False,
            reproducible=True,
            limit_decides=False,
            reasons=("end", "limit"),
            rules={},
            zero_sum=True,
            chance=True,
        )

    def reset(self, seeds=None):
        self._open_all(seeds)
        self.clear(torch.ones(self.num_envs, dtype=torch.bool))
        return self.observe()

    def clear(self, rows):
        self.decision.masked_fill_(rows, 0)
        self.points.masked_fill_(rows, 0.0)

    def dice(self):
        """(E, N, 2) in [-1, 1]."""
        number = 2 * torch.arange(AGENTS).view(1, -1, 1) + torch.arange(2)
        mixed = (self.seeds.view(-1, 1, 1) + 40_503 * number + 9_973 * self.clock()) * 2_654_435_761
        return ((mixed >> 16) % 1001) / 500.0 - 1.0

    def clock(self):
        return self.decision.view(-1, 1, 1)

    def active(self):
        return (torch.arange(AGENTS) != MORTAL) | (self.decision.unsqueeze(1) < DIES_AFTER)

    def mask(self):
        return torch.cat([torch.ones(self.num_envs, AGENTS, 1), self.dice() > 0.0], dim=-1).bool()

    def observe(self):
        active = self.active()
        values = torch.cat([self.clock().expand(-1, AGENTS, -1) / LIMIT, self.dice()], dim=-1).float()
        return Observation(values * active.unsqueeze(-1), {"option": self.mask() & active.unsqueeze(-1)}, active)

    def require_legal(self, actions):
        option, mask, active = actions["option"], self.mask(), self.active()
        known = (option >= 0) & (option < OPTIONS)
        legal = known & mask.gather(-1, option.clamp(0, OPTIONS - 1).unsqueeze(-1)).squeeze(-1)
        if bool((active & ~legal).any()):
            raise InvalidActionError("an option was chosen that the mask forbids")

    def worth(self, actions):
        """(E,) what home earns more than away."""
        active = self.active()
        each = actions["option"] + self.dice().sum(dim=-1) + actions["push"].squeeze(-1).clamp(-1.0, 1.0)
        each = each + actions["switch"].double().sum(dim=-1)
        return (each * active)[:, :2].sum(dim=1) - (each * active)[:, 2:].sum(dim=1)

    def length(self):
        return 3 + 3 * (self.seeds % 2)

    def scores(self):
        return 0.5 + 0.5 * self.points.sign()

    def step(self, actions):
        self._require_fit(actions)
        self.require_legal(actions)
        worth = self.worth(actions)
        self.points += worth
        self.decision += 1
        over, final, decisions = self.decision >= self.length(), self.observe(), self.decision.clone()
        cut = over & (self.decision >= LIMIT)
        score = torch.where(over, self.scores(), 0.5).double()
        self.reopen(over)
        return StepResult(
            observation=self.observe(),
            reward=torch.stack([worth, worth, -worth, -worth], dim=1).float(),
            terminated=over & ~cut,
            truncated=cut,
            final_observation=final,
            outcome=Outcome(score, cut.long(), decisions),
        )

    def reopen(self, over):
        if bool(over.any()):
            self._open_episodes(over)
            self.clear(over)


def brought(kind):
    """How the league makes a game of the reader's own."""

    def make(name, *, num_envs, device, seed):
        return kind(name, num_envs=num_envs, device=device, seed=seed)

    return make


def changing_steps(change):
    """A game of which every step is changed; `change` takes the environment and the step."""

    class Changed(Honest):
        def step(self, actions):
            return change(self, super().step(actions))

    return brought(Changed)


def changing_sight(change):
    """A game of which every observation is changed; `change` takes the environment, values, masks and active."""

    class Changed(Honest):
        def observe(self):
            seen = super().observe()
            values, mask, active = change(self, seen.values.clone(), seen.masks["option"].clone(), seen.active.clone())
            return Observation(values, {} if mask is None else {"option": mask}, active)

    return brought(Changed)


def changing_spec(**fields):
    class Changed(Honest):
        def declare(self, name):
            return replace(super().declare(name), **fields)

    return brought(Changed)


def with_outcome(step, **fields):
    return replace(step, outcome=replace(step.outcome, **fields))


def at(tensor, place, value):
    changed = tensor.clone()
    changed[place] = value
    return changed
