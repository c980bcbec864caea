"""Targets of an update: advantages, returns and old values of a rollout, in normalised units.

1. Denormalise the critic's values, and fill in the expected returns of dead agents (`dead_agent_value.py`).
2. Scale rewards by the running standard deviation of returns (`normalization.py`).
3. Estimate advantages by GAE, and returns, over the transitions of each agent (`gae.py`).
4. Update the value normaliser with the returns, and apply PopArt to the critic's output layer.
5. Normalise advantages over the valid decisions, of all agents together or per role.

All statistics are over the valid decisions of all ranks. `gae.py` says which decisions are valid. All others get the
advantage 0 in `normalization.py`, and `Sequences.with_loss` leaves them out of the loss.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments import EnvironmentSpec
from trainer.config.schema import TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.loss import explained_variance
from trainer.ppo.sequences import Targets
from trainer.ppo.targets.dead_agent_value import DeadAgentValue
from trainer.ppo.targets.gae import AgentTransitions, agent_transitions, masked_gae
from trainer.ppo.targets.normalization import (
    ReturnBasedRewardScaler,
    RunningMoments,
    ValueNormalizer,
    normalise_advantages,
    normalise_advantages_by_role,
)
from trainer.process_group import SINGLE_PROCESS, ProcessGroup
from trainer.rollout.buffer import RolloutBuffer


class TargetBuilder:
    """Advantages and returns of rollouts, with the running statistics that normalise them.

    Args:
        config: Settings of the run.
        spec: Specification of the environment.
        rows: R, rows of a rollout: learning agents of this rank.
        ranks: The process group; statistics are over the decisions of all ranks.

    Attributes:
        rewards: Scales rewards.
        values: Normalises returns, in whose units the critic predicts.
        dead_agent_value: Expected return of agents that are out of the game.

    Raises:
        ConfigError: Advantages are normalised per role, but the two sides have different roles.
    """

    def __init__(
        self, config: TrainerConfig, spec: EnvironmentSpec, rows: int, ranks: ProcessGroup = SINGLE_PROCESS
    ) -> None:
        self._settings, self._scales, self._spec, self._ranks = config.ppo, config.normalization, spec, ranks
        self._device = torch.device(config.run.device)
        decay = decay_of_window(self._scales.return_window)
        self.rewards = ReturnBasedRewardScaler(
            rows, config.ppo.gamma, self._scales.reward_clip, self._device, ranks, decay=decay
        )
        self.values = ValueNormalizer(self._device, ranks, decay=decay)
        self.dead_agent_value = DeadAgentValue(max(spec.agents_per_side), self._device, ranks)
        per_role = self._scales.norm_adv_per_role_min_samples > 0
        self._role = _role_of_row(spec, rows).to(self._device) if per_role else None
        self._longest_wait = torch.zeros((), dtype=torch.int64, device=self._device)

    def scaled_transitions(self, rollout: RolloutBuffer) -> AgentTransitions:
        """Add a rollout to the reward scale; return its transitions with scaled rewards and values."""
        transitions = self.transitions(rollout)
        if self._spec.turn_based:
            # The same on all ranks, so that each excludes the same positions.
            self._longest_wait = torch.stack(self._ranks.all_gather(transitions.longest_wait)).max()
        divisor = self.rewards.divisor
        self.rewards.update(transitions.reward, transitions.known, transitions.valid, transitions.episode_end)
        # The unit of scaled rewards has changed. Every statistic in that unit has to follow.
        factor = divisor / self.rewards.divisor
        self.values.rescale(factor)
        self.dead_agent_value.rescale(factor)
        return replace(
            transitions,
            reward=self.rewards.scale(transitions.reward),
            value=transitions.value * factor,
            next_value=transitions.next_value * factor,
        )

    def build(
        self,
        transitions: AgentTransitions,
        rollout: RolloutBuffer,
        critic: nn.Linear,
        advantage_penalty: Tensor | None = None,
    ) -> tuple[Targets, dict[str, float | None]]:
        """Compute the targets of a rollout, and add it to the statistics.

        Args:
            transitions: Result of `scaled_transitions`.
            rollout: T decisions of R agents.
            critic: Output layer of the critic, which PopArt rescales in place.
            advantage_penalty: Term to add to normalised advantages (T, R), such as the magnet's; None without one.

        Returns:
            The targets, and metrics from before normalisation.
        """
        advantage = masked_gae(transitions, gamma=self._settings.gamma, lam=self._settings.gae_lambda)
        value, valid = transitions.value, transitions.valid
        returns = advantage + value
        if not self._spec.turn_based:
            self.dead_agent_value.update(
                transitions.restore(value), transitions.restore(returns), rollout.active, rollout.episode_start
            )
        chosen = valid.flatten().nonzero().squeeze(1)
        samples = torch.stack([advantage, returns, value, transitions.reward]).flatten(1).index_select(1, chosen)
        rescaling = self.values.update(samples[1])
        rescaling.rescale_layer(critic)
        metrics = _scale_metrics(samples)
        restored = transitions.restore(valid)
        targets = Targets(
            advantage=self.normalise_advantages(transitions.restore(advantage), restored, advantage_penalty),
            returns=transitions.restore(self.values.normalise(returns)),
            # In the critic's new units. Otherwise the clip of the value loss would compare numbers of two units.
            old_value=rescaling.rescale_values(rollout.value),
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
        """Return the divisor of rewards, and the mean and standard deviation of the critic's units."""
        returns = self.values.moments
        scales = torch.stack([self.rewards.divisor, returns.mean, returns.variance.sqrt()]).tolist()
        return dict(zip(("scales/reward_divisor", "scales/critic_mean", "scales/critic_std"), scales, strict=True))

    def tensors(self) -> dict[str, Tensor]:
        """Return all statistics by name, for a saved state."""
        return {
            **self.rewards.moments.tensors("rewards."),
            **self.values.moments.tensors("values."),
            **self.dead_agent_value.tensors(),
            "longest_wait": self._longest_wait,
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the result of `tensors`.

        Raises:
            KeyError: A tensor is missing.
        """
        self.rewards.moments = RunningMoments.from_tensors(tensors, "rewards.", self._device)
        self.values.moments = RunningMoments.from_tensors(tensors, "values.", self._device)
        self.dead_agent_value.restore(tensors)
        self._longest_wait = tensors["longest_wait"].to(self._device)

    def normalise_advantages(self, advantages: Tensor, valid: Tensor, penalty: Tensor | None) -> Tensor:
        """Normalise advantages (T, R) over the valid decisions of all agents, or per role; then add the penalty."""
        floor = self._scales.advantage_std_floor
        if self._role is None:
            normalised = normalise_advantages(advantages, valid, floor, self._ranks)
        else:
            min_samples = self._scales.norm_adv_per_role_min_samples
            normalised = normalise_advantages_by_role(advantages, valid, self._role, floor, min_samples, self._ranks)
        return normalised if penalty is None else normalised + penalty


def _role_of_row(spec: EnvironmentSpec, rows: int) -> Tensor:
    """Return the role of each row (R,), by its index within a side."""
    home, away = (spec.roles[spec.side(side)] for side in (False, True))
    if home != away and not (spec.unlike_sides is None and _differ_in_names_only(home, away)):
        raise ConfigError(
            f"normalization.norm_adv_per_role_min_samples needs sides of the same roles, and those of {spec.name} "
            f"differ ({', '.join(home)}; {', '.join(away)}): set it to 0"
        )
    roles = [home.index(role) for role in home]
    return torch.tensor(roles).repeat(rows // len(roles))


def _differ_in_names_only(home: Sequence[str], away: Sequence[str]) -> bool:
    """Whether two teams have the same roles at the same indices, under different names such as red and blue."""
    # A name on both sides could have a different index on each, so that an index would mix two roles.
    return not set(home) & set(away) and [home.index(each) for each in home] == [away.index(each) for each in away]


def _scale_metrics(samples: Float[Tensor, "4 n"]) -> dict[str, float | None]:
    """Return means and standard deviations of advantages, returns, values and rewards from before normalisation."""
    if not samples.numel():
        return {"losses/explained_variance": None}
    stds, means = torch.std_mean(samples, dim=1, correction=0)
    explained = explained_variance(samples[2], samples[1]).reshape(1)
    *scales, variance = torch.cat([torch.stack([means, stds], dim=1).flatten(), explained]).tolist()
    names = [f"scales/{name}_{kind}" for name in ("advantage", "return", "value", "reward") for kind in ("mean", "std")]
    defined = None if math.isnan(variance) else variance
    return {"losses/explained_variance": defined, **dict(zip(names, scales, strict=True))}


def decay_of_window(window: int) -> float:
    """Return the decay per update of statistics over about `window` updates; 1 (no decay) if `window` is 0."""
    return 1.0 - 1.0 / window if window else 1.0
