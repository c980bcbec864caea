"""Ways to play the mech arena in tests: doing nothing, doing anything, and starting close together."""

import torch

from arena.environments.base import Actions, Observation, StepResult
from arena.environments.mech.env import MechEnvironment
from arena.environments.spec import EnvironmentSpec, HeadKind


def idle(spec: EnvironmentSpec, num_envs: int = 1) -> dict[str, torch.Tensor]:
    """Everybody stands still and says nothing."""
    kinds = {HeadKind.GAUSSIAN: torch.float32, HeadKind.BERNOULLI: torch.bool, HeadKind.CATEGORICAL: torch.int64}
    shape = (num_envs, spec.num_agents)
    return {
        head.name: torch.zeros(
            shape if head.kind is HeadKind.CATEGORICAL else (*shape, head.size), dtype=kinds[head.kind]
        )
        for head in spec.heads
    }


class RandomOrders:
    """Random actions that row k gets whatever the batch around it: from its own stream, by its seed.

    Triggers are pulled with the probabilities of `pulls`: primary, vent, secondary, tertiary, special.
    """

    def __init__(
        self, spec: EnvironmentSpec, seeds: list[int], pulls: tuple[float, ...] = (0.6, 0.3, 0.6, 0.6, 0.05)
    ) -> None:
        self.spec, self.pulls = spec, torch.tensor(pulls)
        self.streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def draw(self) -> dict[str, torch.Tensor]:
        """Actions of one decision."""
        rows = [self._draw_row(stream) for stream in self.streams]
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    def _draw_row(self, stream: torch.Generator) -> dict[str, torch.Tensor]:
        agents, row = self.spec.num_agents, {}
        for head in self.spec.heads:
            if head.kind is HeadKind.CATEGORICAL:
                row[head.name] = torch.randint(head.size, (agents,), generator=stream)
            elif head.kind is HeadKind.GAUSSIAN:
                row[head.name] = torch.rand(agents, head.size, generator=stream) * 2.0 - 1.0
            else:
                row[head.name] = torch.rand(agents, head.size, generator=stream) < self.pulls
        return row


def brawl(env: MechEnvironment, *shares: float) -> None:
    """Move everybody to a share of their distance from the centre, on the ceiling: they fall to the ground.

    Rows take the shares in turn.
    """
    position = env.arrays["position"]
    for row in range(env.num_envs):
        position[row, :, :2] *= shares[row % len(shares)]
    position[..., 2] = 12.0


def swapped(tensor: torch.Tensor) -> torch.Tensor:
    """The agents' axis with home and away in each other's places."""
    return tensor.roll(tensor.shape[1] // 2, dims=1)


def swap_sides(actions: Actions) -> dict[str, torch.Tensor]:
    """Home does what away did, and the other way round."""
    return {name: swapped(action) for name, action in actions.items()}


def perceived(observation: Observation) -> list[torch.Tensor]:
    """All of an observation's tensors."""
    return [observation.values, *observation.masks.values(), observation.active]


def everything(step: StepResult) -> list[torch.Tensor]:
    """All of a step's tensors."""
    outcome = step.outcome
    return [
        *perceived(step.observation),
        *perceived(step.final_observation),
        *(step.reward, step.terminated, step.truncated),
        *(outcome.score, outcome.reason, outcome.decisions),
    ]
