"""Rollout actor: samples the learner's actions and writes them, their log-probabilities and values into the buffer."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from arena.environments.base import Actions, Observation
from arena.policies import ActorCritic, RecurrentState
from arena.policies.ensemble.ensemble import LiveNetwork
from arena.policies.ensemble.native_step import ActionNoise, NetworkOutputs, ObservationView, StepBuffers
from arena.policies.nn.actor_critic import NetworkOutput
from trainer.compiled import CompiledOrEager, compile_graph
from trainer.config.algorithm import CompileBackend
from trainer.errors import TrainerError
from trainer.opponents.agent_index import AgentRows
from trainer.rollout.buffer import RolloutBuffer


class RolloutActor:
    """Acts for R rows with the learner's weights.

    Noise is drawn, and log-probabilities are computed, for a whole chunk at once: a few large tensor operations are
    faster than one small one per step. The order of calls is `begin_chunk`, then `act` or `act_native` for each step
    of the chunk, then `finish_chunk`.

    On a GPU, torch.compile fuses all that `act` does into a few kernels, because their launches take most of its time.

    Args:
        network: The learner's network. Call `refresh_weights` after every change of its weights.
        rows: R.
        agents_per_env: N, of the environments whose observations are read.
        compile_backend: Backend of torch.compile for `act`.

    Attributes:
        state: Recurrent state of the rows before the next step.
    """

    def __init__(
        self,
        network: ActorCritic,
        rows: int,
        agents_per_env: int = 1,
        compile_backend: CompileBackend = CompileBackend.NONE,
    ) -> None:
        self._network, self._live = network, LiveNetwork(network)
        self._step, self._native_step = self._live.step_for(rows), self._live.native_step_for(rows, agents_per_env)
        self._scale = network.layout.noise_scale(network.log_std.detach())
        self._noise: Float[Tensor, "L R P"] = torch.empty(0)
        self._step_buffers: list[StepBuffers] = []
        self._outputs: list[NetworkOutput] = []
        self._native_outputs: Float[Tensor, "L R _"] = torch.empty(0)
        self._native_states: Sequence[RecurrentState] = ()
        self.state = network.initial_state(rows)
        self._decide = self._plain_decision
        if compile_backend is not CompileBackend.NONE and self._native_step is None:
            compiled = compile_graph(self._plain_decision, compile_backend.value)
            self._decide = CompiledOrEager(compiled, compile_backend.value, self._plain_decision, "decisions")

    @torch.inference_mode()
    def refresh_weights(self) -> None:
        """Act with the network's current weights from now on."""
        self._live.refresh()
        self._scale = self._network.layout.noise_scale(self._network.log_std)

    @torch.inference_mode()
    def begin_chunk(self, buffer: RolloutBuffer, chunk: int, rng: torch.Generator) -> None:
        """Store the recurrent state before a chunk and draw the chunk's action noise."""
        # Before the first step: the update starts the chunk's sequences from this state.
        buffer.hidden[chunk], buffer.cell[chunk] = self.state
        self._noise = self._network.layout.draw_noise((buffer.bptt_horizon, len(self.state.hidden)), rng)
        self._step_buffers = buffer.step_buffers(chunk)
        self._outputs.clear()
        if self._native_step is not None:
            self._native_outputs = self._scale.new_empty(*self._noise.shape[:2], len(self._scale) + 1)
            # Two states take turns: a native step reads one while it writes the other.
            self._native_states = [RecurrentState(*(torch.empty_like(part) for part in self.state)) for _ in range(2)]

    @torch.inference_mode()
    def act(
        self,
        buffer: RolloutBuffer,
        t: int,
        rows: AgentRows,
        observation: Observation,
        episode_start: Bool[Tensor, " E"],
    ) -> Float[Tensor, "R A"]:
        """Store the rows' observation at step t, sample raw actions, and store and return these, too.

        Args:
            buffer: The rollout.
            t: Step.
            rows: Agents of the rows.
            observation: Observation of all agents.
            episode_start: Environments whose observation starts an episode.
        """
        index = t % buffer.bptt_horizon
        noise = ActionNoise(self._noise[index], self._scale)
        step = self._step_buffers[index]
        output = self._decide(rows, observation, episode_start, self.state, noise, step)
        self._outputs.append(output)
        self.state = output.state
        return step.raw

    def _plain_decision(
        self,
        rows: AgentRows,
        observation: Observation,
        episode_start: Bool[Tensor, " E"],
        state: RecurrentState,
        noise: ActionNoise,
        step: StepBuffers,
    ) -> NetworkOutput:
        """Decide in PyTorch; nothing in it waits for the device, and a second call has the same result."""
        layout = self._network.layout
        rows.gather(observation.values, out=step.observation)
        rows.gather_active(observation, out=step.active)
        if layout.mask_size:
            rows.gather(layout.pack_masks(observation), out=step.mask)
        torch.index_select(episode_start, 0, rows.environments, out=step.episode_start)
        output = self._step(step.observation, state, step.episode_start, step.active)
        step.raw.copy_(layout.sample_with_noise(output.parameters, noise.noise, noise.scale, step.mask))
        return output

    @property
    def has_native_step(self) -> bool:
        """Whether `act_native` is available for this network."""
        return self._native_step is not None

    @torch.inference_mode()
    def act_native(self, buffer: RolloutBuffer, t: int, view: ObservationView, actions: Actions) -> None:
        """Store the observation, act and store the raw action in one native call.

        Equal to storing what the rows observe, `act`, and writing the result into `actions`.

        Args:
            buffer: The rollout.
            t: Step.
            view: Observation of the rows' agents.
            actions: Actions of all agents (E * N, ...); those of the rows are overwritten.

        Raises:
            TrainerError: There is no native code for this network.
        """
        if self._native_step is None:
            raise TrainerError("there is no native code for this network: call `act` instead")
        index = t % buffer.bptt_horizon
        outputs = NetworkOutputs(self._native_outputs[index], self._native_states[index % 2])
        noise = ActionNoise(self._noise[index], self._scale)
        self._native_step(view, self.state, noise, self._step_buffers[index], outputs, actions)
        self.state = outputs.state

    @torch.inference_mode()
    def finish_chunk(self, buffer: RolloutBuffer, chunk: int) -> None:
        """Store the values and log-probabilities of a chunk."""
        steps = slice(chunk * buffer.bptt_horizon, (chunk + 1) * buffer.bptt_horizon)
        parameters, value = self._chunk_outputs()
        distribution = self._network.distribution(parameters, buffer.action_mask[steps])
        buffer.log_prob[steps] = distribution.log_prob(buffer.raw_action[steps])
        buffer.value[steps] = value

    def _chunk_outputs(self) -> tuple[Float[Tensor, "L R P"], Float[Tensor, "L R"]]:
        """Distribution parameters and values of the chunk."""
        if self._native_step is not None and not self._outputs:
            return self._native_outputs[..., :-1], self._native_outputs[..., -1]
        parameters, values = zip(*((output.parameters, output.value) for output in self._outputs), strict=True)
        return torch.stack(parameters), torch.stack(values)

    @torch.inference_mode()
    def predict_values(
        self,
        observation: Float[Tensor, "r D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " r"],
        active: Bool[Tensor, " r"],
    ) -> Float[Tensor, " r"]:
        """Return V of some rows' observations without advancing `state`."""
        # A step for the usual rows exists already, and binding another one costs more than running it.
        step = self._step if len(observation) == len(self.state.hidden) else self._live.step_for(len(observation))
        return step(observation, state, episode_start, active).value
