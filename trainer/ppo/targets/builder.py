"""Targets of an update: advantages, returns and old values of a rollout, in normalised units.

1. Undo the normalisation of the critic's values, and fill in those of agents that are out of the game.
2. Scale rewards by the running deviation of returns.
3. Estimate advantages (GAE) and returns over the decisions of each agent.
4. Update the value normaliser by the returns, and correct the critic's last layer so that its predictions stay.
5. Normalise advantages over the valid decisions, of all agents together or role by role.

All statistics are over the valid decisions of all ranks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from arena.environments import EnvironmentSpec
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.loss import explained_variance
from trainer.ppo.sequences import Targets
from trainer.ppo.targets.dead_agent_value import DeadAgentValue
from trainer.ppo.targets.gae import AgentTransitions, agent_transitions, estimate
from trainer.ppo.targets.normalization import (
    ReturnBasedRewardScaler,
    RunningMoments,
    ValueNormalizer,
    normalise_advantages,
    normalise_by_role,
)
from trainer.process_group import SINGLE_PROCESS, ProcessGroup
from trainer.rollout.buffer import RolloutBuffer


class TargetBuilder:
    """Computes the targets of updates, and keeps the running statistics that they are normalised by.

    Args:
        config: Settings of the run.
        spec: Specification of the environment.
        rows: R, rows of a rollout: agents of this rank that learn.
        ranks: The process group whose decisions the statistics are over.

    Attributes:
        rewards: Scales rewards.
        values: Normalises the critic's values and returns.
        dead_agent_value: Expected return of agents that are out of the game.

    Raises:
        ConfigError: Advantages are normalised by role, but the sides have different roles.
    """

    def __init__(
        self, config: TrainerConfig, spec: EnvironmentSpec, rows: int, ranks: ProcessGroup = SINGLE_PROCESS
    ) -> None:
        self._settings, self._scales, self._spec, self._ranks = config.ppo, config.normalization, spec, ranks
        self._device = torch.device(config.run.device)
        keep = kept_share(self._scales.return_window)
        self.rewards = ReturnBasedRewardScaler(
            rows, config.ppo.gamma, self._scales.reward_clip, self._device, ranks, keep=keep
        )
        self.values = ValueNormalizer(self._device, ranks, keep=keep)
        self.dead_agent_value = DeadAgentValue(max(spec.agents_per_side), self._device, ranks)
        by_role = self._scales.norm_adv_per_role_min_samples > 0
        self._role = _role_of_row(spec, rows).to(self._device) if by_role else None
        self._longest_wait = torch.zeros((), dtype=torch.int64, device=self._device)

    def build(
        self, rollout: RolloutBuffer, critic: nn.Linear, advantage_penalty: Tensor | None = None
    ) -> tuple[Targets, dict[str, float | None]]:
        """Compute the targets of a rollout, and update the statistics by it.

        Args:
            rollout: T decisions of R agents.
            critic: Last layer of the critic, which is corrected to the new scale of returns.
            advantage_penalty: Added to normalised advantages (T, R); None for nothing.

        Returns:
            The targets, and metrics of the scales before normalisation.
        """
        return self.build_from(self.scaled_transitions(rollout), rollout, critic, advantage_penalty)

    def scaled_transitions(self, rollout: RolloutBuffer) -> AgentTransitions:
        """Update the reward scale by a rollout; return its transitions with scaled rewards and values."""
        transitions = self.transitions(rollout)
        if self._spec.turn_based:
            self._longest_wait = torch.stack(self._ranks.all_gather(transitions.longest_wait)).max()
        divisor = self.rewards.deviation
        self.rewards.update(transitions.reward, transitions.known, transitions.valid, transitions.episode_end)
        factor = divisor / self.rewards.deviation
        self.values = self.values.rescaled(factor)
        self.dead_agent_value.rescale(factor)
        return replace(
            transitions,
            reward=self.rewards.scale(transitions.reward),
            value=transitions.value * factor,
            next_value=transitions.next_value * factor,
        )

    def build_from(
        self,
        transitions: AgentTransitions,
        rollout: RolloutBuffer,
        critic: nn.Linear,
        advantage_penalty: Tensor | None = None,
    ) -> tuple[Targets, dict[str, float | None]]:
        """Compute the targets of the transitions of `scaled_transitions`; see `build`."""
        advantage = estimate(transitions, gamma=self._settings.gamma, lam=self._settings.gae_lambda)
        value, valid = transitions.value, transitions.valid
        returns = advantage + value
        if not self._spec.turn_based:
            self.dead_agent_value.update(
                transitions.restore(value), transitions.restore(returns), rollout.active, rollout.episode_start
            )
        change = self.values.update(returns[valid])
        change.correct(critic)
        metrics = _scale_metrics(advantage[valid], returns[valid], value[valid], transitions.reward[valid])
        restored = transitions.restore(valid)
        normalised = self.normalise_advantages(transitions.restore(advantage), restored)
        targets = Targets(
            advantage=normalised if advantage_penalty is None else normalised + advantage_penalty,
            value=transitions.restore(self.values.normalise(returns)),
            old_value=change.convert(rollout.value),
            valid=restored,
        )
        return targets, metrics

    def transitions(self, rollout: RolloutBuffer) -> AgentTransitions:
        """Return the transitions of each agent, with values in units of scaled rewards."""
        value, final_value, last_value = (
            self.values.denormalise(each) for each in (rollout.value, rollout.final_value, rollout.last_value)
        )
        if not self._spec.turn_based:
            value = self.dead_agent_value.fill(value, rollout.active)
            last_value = self.dead_agent_value.fill(last_value, rollout.last_active)
        return agent_transitions(
            rollout.reward,
            value,
            final_value,
            rollout.terminated,
            rollout.truncated,
            rollout.active,
            last_value,
            rollout.last_active,
            turn_based=self._spec.turn_based,
            limit_decides=self._spec.limit_decides,
            longest_wait=self._longest_wait,
        )

    def metrics(self) -> dict[str, float]:
        """Return the divisor of rewards, and the mean and deviation that the critic's units are 0 and 1 at."""
        returns = self.values.moments
        return {
            "scales/reward_divisor": self.rewards.deviation,
            "scales/critic_mean": float(returns.mean),
            "scales/critic_std": float(returns.variance.sqrt()),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return all statistics by name, for a saved state."""
        named = {f"rewards.{key}": value for key, value in self.rewards.moments.tensors().items()}
        named |= {f"values.{key}": value for key, value in self.values.moments.tensors().items()}
        named |= {f"owed.{key}": value for key, value in self.dead_agent_value.tensors().items()}
        return named | {"longest_wait": self._longest_wait}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the statistics that `tensors` returned.

        Raises:
            KeyError: One is missing.
        """
        self.rewards.moments = RunningMoments.of(tensors_below(tensors, "rewards."), self._device)
        self.values.moments = RunningMoments.of(tensors_below(tensors, "values."), self._device)
        self.dead_agent_value.restore(tensors_below(tensors, "owed."))
        self._longest_wait = tensors["longest_wait"].to(self._device)

    def normalise_advantages(self, advantages: Tensor, valid: Tensor) -> Tensor:
        """Normalise advantages (T, R) over the valid decisions of all agents, or of each role."""
        floor = self._scales.advantage_std_floor
        if self._role is None:
            return normalise_advantages(advantages, valid, floor, self._ranks)
        minimum = self._scales.norm_adv_per_role_min_samples
        return normalise_by_role(advantages, valid, self._role, floor, minimum, self._ranks)


def _role_of_row(spec: EnvironmentSpec, rows: int) -> Tensor:
    """Return the index of the role of each row (R,), whichever side it plays."""
    home, away = (spec.roles[spec.side(side)] for side in (False, True))
    if home != away and not (spec.unlike_sides is None and _named_apart(home, away)):
        raise ConfigError(
            f"normalization.norm_adv_per_role_min_samples needs sides of the same roles, and those of {spec.name} "
            f"differ ({', '.join(home)}; {', '.join(away)}): set it to 0"
        )
    numbers = [home.index(role) for role in home]
    return torch.tensor(numbers).repeat(rows // len(numbers))


def _named_apart(home: Sequence[str], away: Sequence[str]) -> bool:
    """Whether two teams have the same roles at the same indices under names of their own, such as red and blue."""
    # a name on both sides may stand at another index of each, so that indices would mix two roles
    return not set(home) & set(away) and [home.index(each) for each in home] == [away.index(each) for each in away]


def _scale_metrics(advantage: Tensor, returns: Tensor, value: Tensor, reward: Tensor) -> dict[str, float | None]:
    """Return means and deviations before normalisation."""
    metrics: dict[str, float | None] = {"losses/explained_variance": explained_variance(value, returns)}
    for name, samples in {"advantage": advantage, "return": returns, "value": value, "reward": reward}.items():
        if samples.numel():
            deviation, mean = torch.std_mean(samples, correction=0)
            metrics |= {f"scales/{name}_mean": float(mean), f"scales/{name}_std": float(deviation)}
    return metrics


def kept_share(window: int) -> float:
    """Return the weight that an update leaves to earlier samples, for statistics over about `window` updates."""
    return 1.0 - 1.0 / window if window else 1.0


def tensors_below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
