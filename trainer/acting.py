"""The learner's own decisions, written into a rollout as they are made."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.protocol import Actions
from arena.policies import ActorCritic, RecurrentState
from arena.policies.deciding import Decision, Draw, Look, Said
from arena.policies.network import NetworkOutput
from arena.policies.stacked import LiveNetwork
from trainer.errors import TrainerError
from trainer.rollout import Rollout


class Acting:
    """R rows that act with the learner's weights; chance is drawn, and log-probabilities are taken, chunk by chunk.

    Args:
        network: The learner. Call `refresh` after every change of its weights.
        rows: R.
        agents: N of the environments that `decide` looks at.
    """

    def __init__(self, network: ActorCritic, rows: int, agents: int = 1) -> None:
        self._network, self._live = network, LiveNetwork(network)
        self._step, self._decide = self._live.step_of(rows), self._live.decide_of(rows, agents)
        self._scale = network.layout.noise_scale(network.log_std.detach())
        self._chance: Float[Tensor, "L R P"] = torch.empty(0)
        self._decisions: list[Decision] = []
        self._outputs: list[NetworkOutput] = []
        self._readout: Float[Tensor, "L R _"] = torch.empty(0)
        self._states: Sequence[RecurrentState] = ()
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
        self._chance = self._network.layout.draw_noise((rollout.chunk, len(self.state.hidden)), rng)
        self._decisions = rollout.decisions(chunk)
        self._outputs.clear()
        if self._decide is not None:
            self._readout = self._scale.new_empty(*self._chance.shape[:2], len(self._scale) + 1)
            self._states = [RecurrentState(*(torch.empty_like(part) for part in self.state)) for _ in range(2)]

    @torch.inference_mode()
    def act(self, rollout: Rollout, t: int) -> Float[Tensor, "R A"]:
        """Decide on what the rollout says that everybody perceives at t, and store raw actions there."""
        place = t % rollout.chunk
        decision, noise = self._decisions[place], self._chance[place]
        output = self._step(decision.observation, self.state, decision.episode_start, decision.active)
        self._outputs.append(output)
        self.state = output.state
        return decision.raw.copy_(self._network.layout.choose(output.parameters, noise, self._scale, decision.mask))

    @property
    def in_one_piece(self) -> bool:
        """Whether `decide` runs here; otherwise somebody has to perceive, `act`, and write what comes of it."""
        return self._decide is not None

    @torch.inference_mode()
    def decide(self, rollout: Rollout, t: int, look: Look, actions: Actions) -> None:
        """Perceive, decide and act at t in native code: it is stored, and written among the actions of all agents."""
        if self._decide is None:
            raise TrainerError("there is no native code for this network here: call `act`")
        place = t % rollout.chunk
        said = Said(self._readout[place], self._states[place % 2])
        self._decide(look, self.state, Draw(self._chance[place], self._scale), self._decisions[place], said, actions)
        self.state = said.state

    @torch.inference_mode()
    def close_chunk(self, rollout: Rollout, chunk: int) -> None:
        """Store values and log-probabilities of a chunk's decisions."""
        decisions = slice(chunk * rollout.chunk, (chunk + 1) * rollout.chunk)
        parameters, value = self._spoken()
        distribution = self._network.distribution(parameters, rollout.mask[decisions])
        rollout.log_prob[decisions] = distribution.log_prob(rollout.raw[decisions])
        rollout.value[decisions] = value

    def _spoken(self) -> tuple[Float[Tensor, "L R P"], Float[Tensor, "L R"]]:
        """Parameters and values of a chunk's decisions."""
        if self._decide is not None and not self._outputs:
            return self._readout[..., :-1], self._readout[..., -1]
        parameters, values = zip(*((output.parameters, output.value) for output in self._outputs), strict=True)
        return torch.stack(parameters), torch.stack(values)

    @torch.inference_mode()
    def values(
        self,
        observation: Float[Tensor, "r D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " r"],
        active: Bool[Tensor, " r"],
    ) -> Float[Tensor, " r"]:
        """V of some rows; nobody's state advances."""
        step = self._step if len(observation) == len(self.state.hidden) else self._live.step_of(len(observation))
        return step(observation, state, episode_start, active).value
