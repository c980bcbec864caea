"""Magnetic mirror descent: a penalty on the distance between the policy and a moving average of its own weights.

In non-transitive games a policy is never its own best response, so a policy that follows its advantages alone cycles
around the equilibrium. The penalty pulls it towards its average, the magnet.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.ensemble.ensemble import LiveNetwork
from trainer.ppo.loss import LOG_RATIO_LIMIT, approx_kl, masked_mean
from trainer.rollout.buffer import RolloutBuffer


class Magnet:
    """Magnetic mirror descent with a moving magnet, as a penalty on advantages.

        A'(s, a) = A(s, a) - c (ln pi(a | s) - ln rho(a | s))

    Here pi is the policy that acted, and rho the magnet. In expectation over the actions of pi, the gradient of the
    second term is that of -c KL(pi || rho) in each state. Unlike a penalty on the reward, it does not propagate to
    earlier decisions. It is added after advantages are normalised, like the entropy bonus.

    The magnet keeps its own recurrent state from rollout to rollout, and resets it where an episode starts.

    Args:
        coefficient: c, > 0.
        rows: R, rows of a rollout.
        network: A network of the architecture that acts.

    Source: Sokota et al., "A Unified Approach to Reinforcement Learning, Quantal Response Equilibria, and Two-Player
    Zero-Sum Games" (2023).
    """

    def __init__(self, coefficient: float, rows: int, network: ActorCritic) -> None:
        self._coefficient = coefficient
        self._state = network.initial_state(rows)

    def advantage_penalty(self, magnet: ActorCritic, rollout: RolloutBuffer) -> tuple[Float[Tensor, "T R"], float]:
        """Return the term to add to normalised advantages, 0 at inactive steps, and the mean of KL(pi || rho).

        Args:
            magnet: rho, in evaluation mode.
            rollout: The rollout that follows the one of the previous call.
        """
        log_ratio = self._log_ratio(magnet, rollout)
        kl = masked_mean(approx_kl(-log_ratio).flatten(), rollout.active.flatten())
        return -self._coefficient * log_ratio, float(kl)

    @torch.inference_mode()
    def _log_ratio(self, magnet: ActorCritic, rollout: RolloutBuffer) -> Float[Tensor, "T R"]:
        """Return ln pi - ln rho of the actions in the rollout, clamped like all log-ratios; 0 at inactive steps."""
        step, state, parameters = LiveNetwork(magnet).step_for(len(rollout.last_value)), self._state, []
        for observation, starts, active in zip(rollout.observation, rollout.episode_start, rollout.active, strict=True):
            output = step(observation, state, starts, active)
            state = output.state
            parameters.append(output.parameters)
        self._state = state
        log_prob = magnet.distribution(torch.stack(parameters), rollout.action_mask).log_prob(rollout.raw_action)
        has_choice = magnet.layout.head_has_choice(rollout.action_mask) & rollout.active.unsqueeze(-1)
        joint = (rollout.log_prob - log_prob).masked_fill(~has_choice, 0.0).sum(dim=-1)
        return joint.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
