"""Default behaviour metrics: frequencies of actions among the legal ones.

An environment can define its own metrics instead (see `MeasuredEnvironment`).
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.base import (
    Actions,
    Environment,
    Measure,
    MeasuredEnvironment,
    Meter,
    Observation,
    StepResult,
    supports,
)
from arena.environments.spec import SIDES, ActionHead, EnvironmentSpec, HeadKind

MOST_MEASURES = 64
"""Most metrics of one environment."""


class RatioAccumulator:
    """Accumulates numerators and denominators of B ratios, for both sides of E matches.

    Args:
        spec: Environment spec.
        num_envs: E.
        measures: B.
        device: Device of the sums.
    """

    def __init__(self, spec: EnvironmentSpec, num_envs: int, measures: int, device: torch.device) -> None:
        self._sides = [spec.side(away=away) for away in (False, True)]
        self._parts = torch.zeros(num_envs, SIDES, measures, dtype=torch.float64, device=device)
        self._wholes = torch.zeros_like(self._parts)

    def add(self, parts: Float[Tensor, "E N B"], wholes: Float[Tensor, "E N B"]) -> None:
        """Add every agent's numerators and denominators of a decision."""
        for side, agents in enumerate(self._sides):
            self._parts[:, side] += parts[:, agents].sum(dim=1)
            self._wholes[:, side] += wholes[:, agents].sum(dim=1)

    def take(self, ended: Bool[Tensor, " E"]) -> Float[Tensor, "E 2 B"]:
        """Return and reset the ratios of matches that ended; NaN for a zero denominator and for other matches."""
        rows = ended[:, None, None]
        ratios = torch.where(rows & (self._wholes > 0.0), self._parts / self._wholes, torch.nan)
        self._parts.masked_fill_(rows, 0.0)
        self._wholes.masked_fill_(rows, 0.0)
        return ratios


class ActionFrequencies:
    """Measures action frequencies, head by head.

    Categorical heads: how often each option is chosen if legal. Bernoulli heads: how often each switch is on if legal.
    Gaussian heads: the mean action where it matters. Heads are included in order up to `MOST_MEASURES` metrics. A game
    with more options needs metrics of its own.
    """

    def __init__(self, env: Environment) -> None:
        self._heads = _heads_that_fit(env.spec)
        self.measures = tuple(measure for head in self._heads for measure in _measures_of(head))
        self._ratios = RatioAccumulator(env.spec, env.num_envs, len(self.measures), env.device)

    def opened(self, observation: Observation) -> None:
        """See `Meter.opened`."""
        self._seen = observation

    def stepped(self, actions: Actions, step: StepResult) -> Float[Tensor, "E 2 B"]:
        """See `Meter.stepped`."""
        if self._heads:
            parts, wholes = zip(*(self._of_head(head, actions[head.name]) for head in self._heads), strict=True)
            self._ratios.add(torch.cat(parts, dim=-1), torch.cat(wholes, dim=-1))
        self._seen = step.observation
        return self._ratios.take(step.over)

    def _of_head(self, head: ActionHead, action: Tensor) -> tuple[Float[Tensor, "E N K"], Float[Tensor, "E N K"]]:
        """Return the actions of one decision and the legal ones."""
        acting = self._seen.active.unsqueeze(-1)
        allowed = acting & self._seen.masks[head.name] if head.masked else acting
        if head.kind is HeadKind.CATEGORICAL:
            action = torch.nn.functional.one_hot(action.clamp(0, head.size - 1), head.size)
        return torch.where(allowed, action.double(), 0.0), allowed.double().expand(action.shape)


def meter_of(env: Environment) -> Meter:
    """Return the environment's meter, from its next `reset` on."""
    return env.measure() if supports(env, MeasuredEnvironment) else ActionFrequencies(env)


def _heads_that_fit(spec: EnvironmentSpec) -> list[ActionHead]:
    fitting: list[ActionHead] = []
    for head in spec.heads:
        if sum(each.size for each in fitting) + head.size <= MOST_MEASURES:
            fitting.append(head)
    return fitting


def _measures_of(head: ActionHead) -> list[Measure]:
    low = -1.0 if head.kind is HeadKind.GAUSSIAN else 0.0
    return [Measure(f"{head.name}/{number}", low, 1.0) for number in range(head.size)]
