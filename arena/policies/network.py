"""The recurrent actor-critic: encoder, LSTM, LayerNorm, one linear layer for all action heads and the value."""

from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.environments.protocol import Actions, Observation
from arena.environments.spec import ActionHead, EnvironmentSpec
from arena.policies.choices import actor_parts, choose
from arena.policies.cores import (
    FeedforwardCore,
    LSTMCore,
    RecurrentState,
    Runs,
    has_readout,
    orthogonal_linear,
    reset_rows,
)
from arena.policies.distributions import ActionDistribution, ActionLayout
from arena.policies.encoder import EncoderKind, make_layers
from arena.policies.protocol import State
from arena.policies.sets import SetEncoder, SetLayout, outside

LOG_STD_RANGE = (-5.0, 2.0)
OBSERVATION_CLIP = 10.0
"""Normalised observations are clipped to +- this many standard deviations."""


class CoreKind(StrEnum):
    """What carries memory from one decision to the next."""

    LSTM = "lstm"
    FEEDFORWARD = "feedforward"


@dataclass(frozen=True)
class Architecture:
    """Everything needed to build the network; it travels in the checkpoint.

    Attributes:
        observation_size: D.
        heads: Action heads, in the environment's order.
        encoder: What its layers end in.
        encoder_sizes: Width of each encoder layer.
        core: Memory, or none.
        recurrent_size: H, width of the core.
        initial_log_std: Log standard deviation of every gaussian dimension at construction.
        sets: Sets that are read whatever their order; all else is read place by place.
    """

    observation_size: int
    heads: tuple[ActionHead, ...]
    encoder: EncoderKind
    encoder_sizes: tuple[int, ...]
    core: CoreKind
    recurrent_size: int
    initial_log_std: float
    sets: tuple[SetLayout, ...]

    @classmethod
    def of(
        cls,
        spec: EnvironmentSpec,
        *,
        encoder: EncoderKind = EncoderKind.TANH,
        encoder_sizes: tuple[int, ...] = (128,),
        core: CoreKind = CoreKind.LSTM,
        recurrent_size: int = 128,
        initial_log_std: float = -0.5,
        member_size: int = 0,
    ) -> "Architecture":
        """The architecture that fits an environment; members of sets become `member_size` features, 0 for no sets."""
        return cls(
            observation_size=spec.observation_size,
            heads=spec.heads,
            encoder=encoder,
            encoder_sizes=encoder_sizes,
            core=core,
            recurrent_size=recurrent_size,
            initial_log_std=initial_log_std,
            sets=SetLayout.all_of(spec, member_size) if member_size else (),
        )


class Readout(NamedTuple):
    """Distribution parameters (..., P), value (...) in normalised units, and the features (..., H) behind both."""

    parameters: Tensor
    value: Tensor
    features: Tensor


class NetworkOutput(NamedTuple):
    """Distribution parameters (..., P), value (...) in normalised units, and the state after the last step."""

    parameters: Tensor
    value: Tensor
    state: RecurrentState


class ActorCritic(nn.Module):
    """Policy and value of one player, with the observation statistics that it was trained under.

    Rows of a batch never look at each other. Recurrent state goes in and comes out.
    """

    observation_mean: Tensor
    observation_std: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.layout = ActionLayout(architecture.heads)
        self._rest = outside(architecture.observation_size, architecture.sets)
        self.sets = nn.ModuleList(SetEncoder(architecture.encoder, layout) for layout in architecture.sets)
        alone = sum(place.stop - place.start for place in self._rest)
        sizes = (alone + sum(layout.summary_size for layout in architecture.sets), *architecture.encoder_sizes)
        self.encoder = make_layers(architecture.encoder, sizes)
        core = LSTMCore if architecture.core is CoreKind.LSTM else FeedforwardCore
        self.core = core(sizes[-1], architecture.recurrent_size)
        self.norm = nn.LayerNorm(architecture.recurrent_size)
        self.actor_parts = actor_parts(architecture.heads, architecture.sets)
        actor_rows = max(part.rows.stop for part in self.actor_parts.values())
        self.actor = orthogonal_linear(architecture.recurrent_size, actor_rows, gain=0.01)
        self.critic = orthogonal_linear(architecture.recurrent_size, 1, gain=1.0)
        self.raw_log_std = nn.Parameter(torch.full((self.layout.log_std_size,), architecture.initial_log_std))
        self.register_buffer("observation_mean", torch.zeros(architecture.observation_size))
        self.register_buffer("observation_std", torch.ones(architecture.observation_size))

    @property
    def log_std(self) -> Float[Tensor, " G"]:
        """Log standard deviation of every gaussian dimension, within LOG_STD_RANGE."""
        return self.raw_log_std.clamp(*LOG_STD_RANGE)

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros, on the network's device."""
        zeros = self.observation_mean.new_zeros(rows, self.core.state_size)
        return RecurrentState(zeros, zeros)

    def step(
        self,
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        """One decision of R rows: those at an episode's start begin from zero, inactive ones leave the state alone."""
        before = reset_rows(state, episode_start)
        encoded, members = self._encode(values)
        output, after = self.core.step(encoded, before)
        rows = active.unsqueeze(-1)
        kept = RecurrentState(*(torch.where(rows, new, old) for new, old in zip(after, before, strict=True)))
        parameters, value, _ = self._read_out(output, members)
        return NetworkOutput(parameters, value, kept)

    def sequence(
        self, values: Float[Tensor, "N D"], state: RecurrentState, runs: Runs, *, half: bool = False
    ) -> Readout:
        """All decisions of runs that begin at `state`, in one call.

        With `half`, encoder and core multiply in bfloat16 as far as the device can. Sums, recurrent state and what is
        read out stay in single precision.
        """
        with torch.autocast(values.device.type, torch.bfloat16) if half else nullcontext():
            encoded, members = self._encode(values)
            output = self.core.sequence(encoded, state, runs)
        return self._read_out(output.float(), [each.float() for each in members])

    def remember(self, values: Float[Tensor, "N D"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N H"]:
        """The core's output alone after all decisions of runs that begin at `state`: with memory, its hidden state."""
        encoded, _ = self._encode(values)
        return self.core.sequence(encoded, state, runs)

    def distribution(self, parameters: Float[Tensor, "... P"], mask: Bool[Tensor, "... M"]) -> ActionDistribution:
        """The action distribution that `parameters` stand for."""
        return ActionDistribution(self.layout, parameters, self.log_std, mask)

    def normalise(self, values: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Observations as the encoder takes them."""
        centred = values - self.observation_mean
        return centred.div_(self.observation_std).clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def _encode(self, values: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Features of the whole, and of the members of every set."""
        normalised = self.normalise(values)
        encoded = [encode(values, normalised) for encode in self.sets]
        if encoded:
            alone = [normalised[..., place] for place in self._rest]
            normalised = torch.cat([*alone, *(summary for _, summary in encoded)], dim=-1)
        return self.encoder(normalised), [members for members, _ in encoded]

    def _read_out(self, output: Tensor, members: list[Tensor]) -> Readout:
        features, rows, value = self._outputs(output)
        parameters = choose(self.actor_parts.values(), rows, members) if members else rows
        return Readout(parameters, value, features)

    def _outputs(self, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Normalised features of the core's output, and what actor and critic make of them."""
        actor, critic, norm = self.actor, self.critic, self.norm
        if output.device.type == "cpu" and output.dtype is torch.float32 and has_readout(output.shape[-1]):
            from arena.policies.readout import read_out  # here: see `cores`

            weights = (norm.weight, norm.bias, actor.weight, actor.bias, critic.weight, critic.bias)
            return read_out(output, *weights)
        features = norm(output)
        weight, bias = torch.cat([actor.weight, critic.weight]), torch.cat([actor.bias, critic.bias])
        rows, value = F.linear(features, weight, bias).tensor_split([len(actor.weight)], dim=-1)
        return features, rows, value.squeeze(-1)


class NetworkPolicy:
    """A frozen network as a player.

    Attributes:
        network: In evaluation mode.
        environment: Name of the environment it plays.
        signature: Signature of the environment it was trained in.
    """

    def __init__(self, network: ActorCritic, environment: str, signature: str) -> None:
        self.network = network.eval()
        self.environment = environment
        self.signature = signature

    def initial_state(self, rows: int) -> RecurrentState:
        """Zeros."""
        return self.network.initial_state(rows)

    @torch.inference_mode()
    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Sample actions; see `Policy.act`."""
        output = self.network.step(observation.values, RecurrentState(*state), episode_start, observation.active)
        layout = self.network.layout
        mask = layout.pack_masks(observation)
        raw = self.network.distribution(output.parameters, mask).sample(rng)
        return layout.to_actions(raw), output.state
