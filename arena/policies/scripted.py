"""Scripted policies that work in every environment."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.environments.registry import declare
from arena.environments.spec import ActionHead, HeadKind
from arena.policies.protocol import State


class RandomPolicy:
    """Acts uniformly at random among the legal actions."""

    def __init__(self, heads: Sequence[ActionHead]) -> None:
        self.heads = tuple(heads)

    def initial_state(self, rows: int) -> State:
        """Return an empty state."""
        return ()

    def act(
        self,
        observation: Observation,
        state: State,
        episode_start: Bool[Tensor, " R"],
        rng: torch.Generator,
    ) -> tuple[Actions, State]:
        """Sample every head uniformly; see `Policy.act`."""
        return draw_actions(self.heads, observation, rng), state


def make_baseline(environment: str, baseline: str) -> RandomPolicy:
    """Return the `random` player of any environment."""
    return RandomPolicy(declare(environment).heads)


def draw_actions(heads: Sequence[ActionHead], observation: Observation, rng: torch.Generator) -> Actions:
    """Sample every head uniformly from the legal actions, with the leading axes of the observation."""
    return {head.name: _draw(head, observation, rng) for head in heads}


def _draw(head: ActionHead, observation: Observation, rng: torch.Generator) -> Tensor:
    chance = torch.rand(*observation.active.shape, head.size, generator=rng, device=observation.values.device)
    mask = observation.masks[head.name] if head.masked else torch.ones_like(chance, dtype=torch.bool)
    match head.kind:
        case HeadKind.GAUSSIAN:
            return 2.0 * chance - 1.0
        case HeadKind.BERNOULLI:
            return (chance < 0.5) & mask
        case HeadKind.CATEGORICAL:
            return chance.where(mask, -1.0).argmax(dim=-1)
