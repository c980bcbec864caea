"""Rollout buffer: preallocated tensors of one rollout, written in place."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.ensemble.native_step import StepBuffers

FLOAT_FIELDS = (
    "observation",
    "raw_action",
    "log_prob",
    "value",
    "reward",
    "final_value",
    "hidden",
    "cell",
    "last_value",
)
"""Fields that the update reads as numbers, which must be finite."""


@dataclass(frozen=True)
class RolloutBuffer:
    """T steps of R rows. Row e * n + i is agent i of the learner's side in environment e.

    Attributes:
        observation: Observation, before normalisation.
        action_mask: Packed action masks.
        raw_action: Raw action, in the layout of `ActionLayout`.
        log_prob: Log-probability of each head's action under the policy that sampled it.
        value: V of the observation, in the critic's units.
        reward: Reward of the action, unscaled.
        active: Whether the agent acted; other entries carry no loss and no statistics.
        episode_start: The observation is the first of an episode: the state was reset before it.
        terminated: The game ended with the action; also for an agent that is out of it when a limit ends the episode.
        truncated: A limit ended the episode with the action.
        final_value: V of the episode's final observation where `truncated`; 0 elsewhere, and everywhere in an
            environment whose limit decides the match.
        hidden: Hidden state before the first step of each of C chunks, before any reset there.
        cell: Cell state, likewise.
        last_value: V of the observation after the last step.
        last_active: Whether the agent acts in that observation.
    """

    observation: Float[Tensor, "T R D"]
    action_mask: Bool[Tensor, "T R M"]
    raw_action: Float[Tensor, "T R A"]
    log_prob: Float[Tensor, "T R heads"]
    value: Float[Tensor, "T R"]
    reward: Float[Tensor, "T R"]
    active: Bool[Tensor, "T R"]
    episode_start: Bool[Tensor, "T R"]
    terminated: Bool[Tensor, "T R"]
    truncated: Bool[Tensor, "T R"]
    final_value: Float[Tensor, "T R"]
    hidden: Float[Tensor, "C R H"]
    cell: Float[Tensor, "C R H"]
    last_value: Float[Tensor, " R"]
    last_active: Bool[Tensor, " R"]

    @classmethod
    def allocate(cls, network: ActorCritic, *, steps: int, rows: int, bptt_horizon: int) -> "RolloutBuffer":
        """Allocate a buffer for `network`; T is `steps`, R is `rows`, C is `steps // bptt_horizon`."""
        layout, device = network.layout, network.observation_mean.device

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device)

        def flags(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.bool, device=device)

        return cls(
            observation=numbers(steps, rows, network.architecture.observation_size),
            action_mask=flags(steps, rows, layout.mask_size),
            raw_action=numbers(steps, rows, layout.raw_size),
            log_prob=numbers(steps, rows, len(layout.heads)),
            value=numbers(steps, rows),
            reward=numbers(steps, rows),
            active=flags(steps, rows),
            episode_start=flags(steps, rows),
            terminated=flags(steps, rows),
            truncated=flags(steps, rows),
            final_value=numbers(steps, rows),
            hidden=numbers(steps // bptt_horizon, rows, network.core.state_size),
            cell=numbers(steps // bptt_horizon, rows, network.core.state_size),
            last_value=numbers(rows),
            last_active=flags(rows),
        )

    @property
    def bptt_horizon(self) -> int:
        """L, steps of a chunk."""
        return self.reward.shape[0] // self.hidden.shape[0]

    def select_rows(self, rows: slice) -> "RolloutBuffer":
        """View of consecutive rows, without a copy."""
        fields = {name: tensor[rows] if tensor.ndim == 1 else tensor[:, rows] for name, tensor in vars(self).items()}
        return RolloutBuffer(**fields)

    def step_buffers(self, chunk: int) -> list[StepBuffers]:
        """Views of the fields that the actor writes, one per step of a chunk."""
        steps = slice(chunk * self.bptt_horizon, (chunk + 1) * self.bptt_horizon)
        fields = (self.observation, self.action_mask, self.raw_action, self.active, self.episode_start)
        return [StepBuffers(*views) for views in zip(*(field[steps].unbind() for field in fields), strict=True)]

    @property
    def nonfinite_fields(self) -> list[str]:
        """Names of the fields that hold NaN or infinity."""
        # One sum per field and one transfer: NaN and infinity survive a sum, and the device is synchronised once.
        sums = torch.stack([getattr(self, name).sum() for name in FLOAT_FIELDS])
        finite: list[bool] = torch.isfinite(sums).tolist()
        return [name for name, is_finite in zip(FLOAT_FIELDS, finite, strict=True) if not is_finite]
