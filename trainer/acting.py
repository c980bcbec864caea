"""The learner's own decisions, written into a rollout as they are made."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.policies import ActorCritic, RecurrentState
from arena.policies.network import NetworkOutput
from arena.policies.stacked import LiveNetwork
from trainer.rollout import Decision, Rollout


class Acting:
    """R rows that act with the learner's weights; chance is drawn, and log-probabilities are taken, chunk by chunk.

    Args:
        network: The learner. Call `refresh` after every change of its weights.
        rows: R.
    """

    def __init__(self, network: ActorCritic, rows: int) -> None:
        self._network, self._live = network, LiveNetwork(network)
        self._step = self._live.step_of(rows)
        self._scale = network.layout.noise_scale(network.log_std.detach())
        self._chance: Sequence[Float[Tensor, "R P"]] = ()
        self._decisions: list[Decision] = []
        self._outputs: list[NetworkOutput] = []
        self.state = network.initial_state(rows)

    @torch.inference_mode()
    def refresh(self) -> None:
        """Take over what has become of the weights."""
        self._live.refresh()
        self._scale = self._network.layout.noise_scale(self._network.log_std)

    @torch.inference_mode()
    def open_chunk(self, rollout: Rollout, chunk: int, rng: torch.Generator) -> None:
        """Store the state before a chunk and draw its chance."""
        rollout.hidden[chunk], rollout.cell[chunk] = self.state
        self._chance = self._network.layout.draw_noise((rollout.chunk, len(self.state.hidden)), rng).unbind()
        self._decisions = rollout.decisions(chunk)
        self._outputs.clear()

    @torch.inference_mode()
    def act(self, rollout: Rollout, t: int) -> Float[Tensor, "R A"]:
        """Decide on what the rollout says that everybody perceives at t, and store raw actions there."""
        place = t % rollout.chunk
        decision, noise = self._decisions[place], self._chance[place]
        output = self._step(decision.observation, self.state, decision.episode_start, decision.active)
        self._outputs.append(output)
        self.state = output.state
        return decision.raw.copy_(self._network.layout.choose(output.parameters, noise, self._scale, decision.mask))

    @torch.inference_mode()
    def close_chunk(self, rollout: Rollout, chunk: int) -> None:
        """Store values and log-probabilities of a chunk's decisions."""
        decisions = slice(chunk * rollout.chunk, (chunk + 1) * rollout.chunk)
        parameters = torch.stack([output.parameters for output in self._outputs])
        distribution = self._network.distribution(parameters, rollout.mask[decisions])
        rollout.log_prob[decisions] = distribution.log_prob(rollout.raw[decisions])
        torch.stack([output.value for output in self._outputs], out=rollout.value[decisions])

    @torch.inference_mode()
    def values(
        self,
        observation: Float[Tensor, "r D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " r"],
        active: Bool[Tensor, " r"],
    ) -> Float[Tensor, " r"]:
        """V of some rows, NaN where the observation is not finite; nobody's state advances."""
        step = self._step if len(observation) == len(self.state.hidden) else self._live.step_of(len(observation))
        strange = ~torch.isfinite(observation.sum(dim=1))  # native code would make a finite number of it
        return step(observation, state, episode_start, active).value.masked_fill(strange, torch.nan)
