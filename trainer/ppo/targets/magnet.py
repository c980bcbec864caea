"""A pull towards the mean of a learner's own weights, against running in circles: magnetic mirror descent.

Where strength is mixing, the best answer to present weights is never they themselves: a policy that follows its
advantages alone runs around the equilibrium. What is far from a slowly moving mean is therefore made to pay for that.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from arena.policies import ActorCritic
from arena.policies.ensemble.ensemble import LiveNetwork
from trainer.ppo.loss import LOG_RATIO_LIMIT, approx_kl, masked_mean
from trainer.rollout.buffer import RolloutBuffer


class Magnet:
    """What a policy's distance from another one takes off its advantages.

        A'(s, a) = A(s, a) - c (ln pi(a | s) - ln rho(a | s))

    with pi the policy that acted and rho the magnet. In expectation over the actions of pi the second term's gradient
    is that of -c KL(pi || rho), state by state: it is not passed back to earlier decisions, as a penalty in the reward
    would be. It comes behind the normalisation of advantages, as the entropy bonus does.

    The magnet remembers by itself what it has seen of running episodes; where an episode starts, it begins from zero.

    Args:
        coefficient: c, > 0.
        rows: Agents whose decisions a rollout holds.
        network: Of the architecture that acts.

    Source: Sokota et al., "A unified approach to reinforcement learning, quantal response equilibria, and two-player
    zero-sum games" (2023), with a magnet that moves.
    """

    def __init__(self, coefficient: float, rows: int, network: ActorCritic) -> None:
        self._coefficient = coefficient
        self._state = network.initial_state(rows)

    def pull(self, magnet: ActorCritic, rollout: RolloutBuffer) -> tuple[Float[Tensor, "T R"], float]:
        """What is added to normalised advantages, and how far policy and magnet are apart.

        Args:
            magnet: rho, in evaluation mode.
            rollout: Follows the one before.

        Returns:
            The addend, 0 where nobody acted, and an estimate of KL(pi || rho), the mean over all decisions.
        """
        log_ratio = self._log_ratio(magnet, rollout)
        distance = masked_mean(approx_kl(-log_ratio).flatten(), rollout.active.flatten())
        return -self._coefficient * log_ratio, float(distance)

    @torch.inference_mode()
    def _log_ratio(self, magnet: ActorCritic, rollout: RolloutBuffer) -> Float[Tensor, "T R"]:
        """Ln pi - ln rho of the actions that were taken, within the limits of log-ratios; 0 where nobody acted."""
        step, state, parameters = LiveNetwork(magnet).step_for(len(rollout.last_value)), self._state, []
        for seen, starts, active in zip(rollout.observation, rollout.episode_start, rollout.active, strict=True):
            output = step(seen, state, starts, active)
            state = output.state
            parameters.append(output.parameters)
        self._state = state
        log_prob = magnet.distribution(torch.stack(parameters), rollout.mask).log_prob(rollout.raw_action)
        counts = magnet.layout.head_has_choice(rollout.mask) & rollout.active.unsqueeze(-1)
        joint = (rollout.log_prob - log_prob).masked_fill(~counts, 0.0).sum(dim=-1)
        return joint.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
