"""What one rollout holds: preallocated once, written in place, every field at one shape."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.deciding import Decision

LEARNED_FROM = ("observation", "raw", "log_prob", "value", "reward", "final_value", "hidden", "cell", "last_value")
"""Numbers of a rollout that must be finite."""


@dataclass(frozen=True)
class Rollout:
    """T decisions of R learning agents. Row e * n + i is agent i of the learner's side in environment e.

    Attributes:
        observation: What the agent perceived, before normalisation.
        mask: Packed action masks.
        raw: Raw action, as `ActionLayout` lays it out.
        log_prob: Log-probability of each head's action when it was drawn.
        value: V of the observation, in the critic's units.
        reward: Reward of the action, as the environment gave it.
        active: Whether the agent acted; other entries carry no loss and no statistics.
        episode_start: The observation opens an episode: the state was reset before it.
        terminated: The game ended with the action; also for an agent that is out of it when a limit ends the episode.
        truncated: A limit ended the episode with the action.
        final_value: V of the episode's final observation where `truncated`; 0 elsewhere. Where the limit decides the
            match nobody reads it.
        hidden: State before the first decision of each of C chunks, before any reset there.
        cell: The same.
        last_value: V of the observation after the last decision.
        last_active: Whether the agent acts in it.
    """

    observation: Float[Tensor, "T R D"]
    mask: Bool[Tensor, "T R M"]
    raw: Float[Tensor, "T R A"]
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
    def allocate(cls, network: ActorCritic, *, steps: int, rows: int, chunk: int) -> "Rollout":
        """Memory for rollouts of `network`; T is `steps`, L is `chunk`."""
        layout, device = network.layout, network.observation_mean.device

        def numbers(*shape: int) -> Tensor:
            return torch.zeros(shape, device=device)

        def flags(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.bool, device=device)

        return cls(
            observation=numbers(steps, rows, network.architecture.observation_size),
            mask=flags(steps, rows, layout.mask_size),
            raw=numbers(steps, rows, layout.raw_size),
            log_prob=numbers(steps, rows, len(layout.heads)),
            value=numbers(steps, rows),
            reward=numbers(steps, rows),
            active=flags(steps, rows),
            episode_start=flags(steps, rows),
            terminated=flags(steps, rows),
            truncated=flags(steps, rows),
            final_value=numbers(steps, rows),
            hidden=numbers(steps // chunk, rows, network.core.state_size),
            cell=numbers(steps // chunk, rows, network.core.state_size),
            last_value=numbers(rows),
            last_active=flags(rows),
        )

    @property
    def chunk(self) -> int:
        """L, decisions of a chunk."""
        return self.reward.shape[0] // self.hidden.shape[0]

    def rows(self, part: slice) -> "Rollout":
        """The same memory, seen by some neighbouring rows alone."""
        fields = {name: tensor[part] if tensor.ndim == 1 else tensor[:, part] for name, tensor in vars(self).items()}
        return Rollout(**fields)

    def decisions(self, chunk: int) -> list[Decision]:
        """Where every decision of a chunk is kept."""
        place = slice(chunk * self.chunk, (chunk + 1) * self.chunk)
        fields = (getattr(self, name)[place].unbind() for name in Decision._fields)
        return [Decision(*each) for each in zip(*fields, strict=True)]

    @property
    def not_finite(self) -> list[str]:
        """Fields that are learned from and hold NaN or infinity: a sum shows them all, and a device is asked once."""
        sums = torch.stack([getattr(self, name).sum() for name in LEARNED_FROM])
        finite: list[bool] = torch.isfinite(sums).tolist()
        return [name for name, each in zip(LEARNED_FROM, finite, strict=True) if not each]
