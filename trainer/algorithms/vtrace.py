"""V-trace, the off-policy actor-critic of IMPALA, as an `Algorithm`.

PPO computes advantages once per rollout and clips the probability ratio. V-trace computes them again in every epoch,
with the current policy and critic, and weighs each decision by a truncated ratio pi / mu of the current policy to the
one that acted:

    rho[t] = min(clip_rho, pi / mu),    c[t] = lambda min(clip_c, pi / mu)
    delta[t] = rho[t] (r[t] + gamma V(s[t+1]) - V(s[t]))
    e[t] = delta[t] + gamma c[t] e[t+1]                            target of the critic: V(s[t]) + e[t]
    A[t] = r[t] + gamma (V(s[t+1]) + lambda e[t+1]) - V(s[t])      loss of the policy: -rho[t] A[t] log pi(a[t])

In the first epoch pi is mu, so that e and A are both the advantages of GAE. Everything else is as in PPO: sequences,
normalisation, entropy bonus, KL stop, and the settings in `[ppo]`, of which `clip_coef` is not used.

Source: Espeholt et al., "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures"
(2018), section 4; with lambda as in remark 2.
"""

from collections.abc import Callable
from dataclasses import replace
from statistics import fmean

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.policies.nn.distributions import ActionLayout
from trainer.config.schema import PPOSettings, TrainerConfig
from trainer.errors import ConfigError
from trainer.ppo.learner import Learner
from trainer.ppo.loss import LossCoefficients, PPOLoss, probability_ratio
from trainer.ppo.ppo import PPO, max_micro_batch
from trainer.ppo.sequences import Targets, split_into_sequences
from trainer.ppo.targets.gae import AgentTransitions
from trainer.process_group import SINGLE_PROCESS, ProcessGroup
from trainer.rollout.buffer import RolloutBuffer


def vtrace(
    transitions: AgentTransitions,
    ratio: Float[Tensor, "T R"],
    *,
    gamma: float,
    lam: float,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> tuple[Float[Tensor, "T R"], Float[Tensor, "T R"]]:
    """Return the errors e and the advantages A of transitions; both are 0 where a transition is not settled.

    Args:
        transitions: Rewards, and values under the current critic, in the same units.
        ratio: pi / mu of each action; 1 where no action was taken.
        gamma: Discount, in [0, 1].
        lam: Lambda, in [0, 1]; IMPALA has 1.
        clip_rho: Truncation of the ratio in delta: which policy the values converge to.
        clip_c: Truncation of the ratio in e: how fast they converge.
    """
    value, settled = transitions.value, transitions.settled
    goes_on = settled & ~transitions.episode_end
    bootstrap = transitions.next_value.masked_fill(transitions.terminated, 0.0)
    td_error = (transitions.reward + gamma * bootstrap - value).masked_fill(~settled, 0.0)
    carry = gamma * lam * goes_on
    errors, ahead = torch.zeros_like(value), torch.zeros_like(value)
    following = torch.zeros_like(value[0])
    for t in reversed(range(len(value))):
        ahead[t] = carry[t] * following
        following = ratio[t].clamp(max=clip_rho) * td_error[t] + ratio[t].clamp(max=clip_c) * ahead[t]
        errors[t] = following
    return errors, td_error + ahead


class VTraceLoss(PPOLoss):
    """Loss of V-trace: as PPO's, with a policy gradient in place of the clipped surrogate."""

    def __init__(self, clip_rho: float, settings: PPOSettings, layout: ActionLayout, device: torch.device) -> None:
        super().__init__(settings, layout, device)
        self._clip_rho = clip_rho

    def policy_loss(
        self, log_ratio: Float[Tensor, " n"], ratio: Float[Tensor, " n"], advantage: Float[Tensor, " n"]
    ) -> Float[Tensor, " n"]:
        """-rho A log pi, up to a constant: log pi enters as the log-ratio, whose gradient is the same."""
        return -ratio.detach().clamp(max=self._clip_rho) * advantage * log_ratio


class VTrace(Learner):
    """Actor-critic with V-trace corrections.

    Args:
        config: Settings; `ppo.update_epochs` is how often a rollout is learned from.
        spec: Specification of the environment.
        ranks: The process group.
        clip_rho: See `vtrace`; at least 1.
        clip_c: See `vtrace`; from 1 to `clip_rho`.

    Raises:
        ConfigError: A truncation level is out of its range.
    """

    def __init__(
        self,
        config: TrainerConfig,
        spec: EnvironmentSpec,
        ranks: ProcessGroup = SINGLE_PROCESS,
        *,
        clip_rho: float = 1.0,
        clip_c: float = 1.0,
    ) -> None:
        if not 1.0 <= clip_c <= clip_rho:
            raise ConfigError(
                f"algorithm.options has clip_rho {clip_rho} and clip_c {clip_c}: set 1 <= clip_c <= clip_rho, such as "
                "1.0 for both"
            )
        self.clip_rho, self.clip_c = clip_rho, clip_c
        super().__init__(config, spec, ranks)

    def make_ppo(self) -> PPO:
        """Create the optimisation of one epoch."""
        settings = self.config.ppo.model_copy(update={"update_epochs": 1})
        loss = VTraceLoss(self.clip_rho, settings, self.network.layout, self.network.observation_mean.device)
        return PPO(self.network, settings, self.config.optimizer, self._update_rng, self._ranks, loss)

    def update(
        self, rollout: RolloutBuffer, coefficients: LossCoefficients, should_stop: Callable[[], bool]
    ) -> dict[str, float | None]:
        """Update the weights by one rollout of finite numbers; return metrics, averaged over epochs."""
        penalty, magnet_metrics = self.magnet_penalty(rollout)
        transitions = self.target_builder.scaled_transitions(rollout)
        targets, metrics = self.target_builder.build(transitions, rollout, self.network.critic, penalty)
        epochs: list[dict[str, float | None]] = []
        for epoch in range(self.config.ppo.update_epochs):
            if epoch:
                targets = self._corrected_targets(rollout, transitions, targets, penalty)
            epochs.append(self.ppo.update(rollout, targets, coefficients, should_stop))
            # The policy has moved too far already, and another epoch would start from there.
            if epochs[-1]["losses/kl_stop"]:
                break
        return metrics | magnet_metrics | _average(epochs)

    def _corrected_targets(
        self, rollout: RolloutBuffer, transitions: AgentTransitions, targets: Targets, penalty: Tensor | None
    ) -> Targets:
        """Compute advantages and returns again, with the current policy and critic."""
        ratio, value = self._evaluate(rollout, targets)
        value = torch.where(transitions.valid, value.gather(0, transitions.order), transitions.value)
        # The successor's value is the current critic's as well. The last one was predicted after the rollout.
        following = torch.cat([value[1:], transitions.next_value[-1:]])
        current = replace(
            transitions,
            value=value,
            next_value=torch.where(transitions.episode_end, transitions.next_value, following),
        )
        errors, advantage = vtrace(
            current,
            ratio.gather(0, transitions.order),
            gamma=self.config.ppo.gamma,
            lam=self.config.ppo.gae_lambda,
            clip_rho=self.clip_rho,
            clip_c=self.clip_c,
        )
        builder = self.target_builder
        return replace(
            targets,
            advantage=builder.normalise_advantages(transitions.restore(advantage), targets.valid, penalty),
            returns=transitions.restore(builder.values.normalise(value + errors)),
        )

    @torch.no_grad()
    def _evaluate(self, rollout: RolloutBuffer, targets: Targets) -> tuple[Float[Tensor, "T R"], Float[Tensor, "T R"]]:
        """Return pi / mu and V of the current weights, in units of scaled rewards, at the decisions that carry loss.

        Elsewhere they are 1 and the value that was predicted when the agent acted.
        """
        ratio, value = torch.ones_like(targets.old_value), targets.old_value.clone()
        sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
        limit = max_micro_batch(self.config.ppo, value.device)
        for part in sequences.split(min(len(sequences), -(-len(sequences.flat_index) // limit))):
            found = self.ppo.evaluate(rollout, targets, part)
            ratio.view(-1)[found.index] = probability_ratio(found.joint_log_ratio)
            value.view(-1)[found.index] = found.value
        return ratio, self.target_builder.values.denormalise(value)


def _average(epochs: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Average metrics over epochs, except for the number of rejected steps, which adds up over the run."""
    names = dict.fromkeys(name for each in epochs for name in each)
    values = {name: [value for each in epochs if (value := each.get(name)) is not None] for name in names}
    return {name: fmean(found) if found else None for name, found in values.items()} | {
        "losses/rejected_steps": epochs[-1]["losses/rejected_steps"]
    }
