"""The recurrent actor-critic: encoder, LSTM, LayerNorm, one linear layer for all action heads and the value."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.environments.protocol import Actions, Observation
from arena.environments.spec import ActionHead, EnvironmentSpec
from arena.errors import ArenaError
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
from arena.policies.embeddings import EmbeddingEncoder, EmbeddingLayout
from arena.policies.encoder import EncoderKind, make_layers
from arena.policies.images import ImageEncoder, ImageLayout
from arena.policies.modules import InputKind, ModuleCore, ModuleEncoder, ModuleLayout
from arena.policies.protocol import State
from arena.policies.sets import SetEncoder, SetLayout, known, outside

LOG_STD_RANGE = (-5.0, 2.0)
OBSERVATION_CLIP = 10.0
"""Normalised observations are clipped to +- this many standard deviations."""


class CoreKind(StrEnum):
    """What carries memory from one decision to the next."""

    LSTM = "lstm"
    FEEDFORWARD = "feedforward"
    MODULE = "module"
    """The user's module, which then has the encoder's place too."""


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
        images: Images that are read by convolutions.
        embeddings: Choices that are read by what they name.
        module: The user's module that reads all of the observation; sets then only say what is normalised alike.
    """

    observation_size: int
    heads: tuple[ActionHead, ...]
    encoder: EncoderKind
    encoder_sizes: tuple[int, ...]
    core: CoreKind
    recurrent_size: int
    initial_log_std: float
    sets: tuple[SetLayout, ...]
    images: tuple[ImageLayout, ...] = ()
    embeddings: tuple[EmbeddingLayout, ...] = ()
    module: ModuleLayout | None = None

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
        image_channels: int = 16,
        embedding_size: int = 16,
        module: str = "",
    ) -> "Architecture":
        """The architecture that fits an environment.

        Args:
            spec: What the environment declares.
            encoder: As the attribute; so are the next four.
            encoder_sizes: Their last is how many features a module in the encoder's place gives.
            core: Memory.
            recurrent_size: How many features a module in the core's place gives.
            initial_log_std: Spread at the start.
            member_size: Features of a member of a set; 0 reads places.
            image_channels: Channels of the first convolution over an image; 0 reads places.
            embedding_size: Features of what a choice names.
            module: `MODULE:CLASS` of the user's; empty for none.

        Raises:
            ArenaError: A set is declared wrongly.
        """
        fitted = cls(
            observation_size=spec.observation_size,
            heads=spec.heads,
            encoder=encoder,
            encoder_sizes=encoder_sizes,
            core=core,
            recurrent_size=recurrent_size,
            initial_log_std=initial_log_std,
            sets=SetLayout.all_of(spec, member_size) if member_size else (),
            images=ImageLayout.all_of(spec, image_channels) if image_channels else (),
            embeddings=EmbeddingLayout.all_of(spec, embedding_size),
        )
        if not module:
            return fitted
        sets = tuple(replace(layout, heads=()) for layout in SetLayout.all_of(spec, width=0))
        return replace(fitted, sets=sets, images=(), embeddings=(), module=ModuleLayout.of(spec, module))

    @property
    def is_layered(self) -> bool:
        """Whether it is made of nothing but layers over features: several of them can be multiplied together."""
        return not (self.images or self.embeddings or self.module)

    @property
    def is_plain(self) -> bool:
        """Whether it reads all of an observation place by place, too."""
        return self.is_layered and not self.sets

    @property
    def scales(self) -> tuple[tuple[slice, float], ...]:
        """Places that are divided by a number for good and have no statistics."""
        if self.module is not None:
            return tuple((each.place, each.limit) for each in self.module.inputs if each.kind is not InputKind.NUMBERS)
        images = [(place, each.limit) for each in self.images for place in each.places]
        return (*images, *((place, 1.0) for each in self.embeddings for place in each.places))

    @property
    def choices(self) -> tuple[slice, ...]:
        """Places that name things, and are no quantities."""
        if self.module is not None:
            return tuple(each.place for each in self.module.inputs if each.kind is InputKind.CHOICES)
        return tuple(place for each in self.embeddings for place in each.places)


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

    Raises:
        ArenaError: The architecture contradicts itself, or needs a module that is not there.
    """

    observation_mean: Tensor
    observation_std: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.layout = ActionLayout(architecture.heads)
        self.core: LSTMCore | FeedforwardCore | ModuleCore
        if architecture.module is None:
            sizes = self._read_blocks(architecture)
            self.encoder = make_layers(architecture.encoder, sizes)
            self.core = _make_core(architecture, sizes[-1])
        else:
            self.encoder, self.core = _with_module(architecture, architecture.module)
        self.norm = nn.LayerNorm(architecture.recurrent_size)
        self.actor_parts = actor_parts(architecture.heads, architecture.sets)
        actor_rows = max(part.rows.stop for part in self.actor_parts.values())
        self.actor = orthogonal_linear(architecture.recurrent_size, actor_rows, gain=0.01)
        self.critic = orthogonal_linear(architecture.recurrent_size, 1, gain=1.0)
        self.raw_log_std = nn.Parameter(torch.full((self.layout.log_std_size,), architecture.initial_log_std))
        self.register_buffer("observation_mean", torch.zeros(architecture.observation_size))
        self.register_buffer("observation_std", torch.ones(architecture.observation_size))
        self.scale_as_declared()

    def _read_blocks(self, architecture: Architecture) -> tuple[int, ...]:
        """Make what reads sets, images and choices; the widths of the encoder behind it."""
        apart: tuple[ImageLayout | EmbeddingLayout, ...] = (*architecture.images, *architecture.embeddings)
        self._rest = outside(architecture.observation_size, (*architecture.sets, *apart))
        self.sets = nn.ModuleList(SetEncoder(architecture.encoder, layout) for layout in architecture.sets)
        self.images = nn.ModuleList(ImageEncoder(layout) for layout in architecture.images)
        self.embeddings = nn.ModuleList(EmbeddingEncoder(layout) for layout in architecture.embeddings)
        width = sum(place.stop - place.start for place in self._rest) + sum(layout.features for layout in apart)
        return (width + sum(layout.summary_size for layout in architecture.sets), *architecture.encoder_sizes)

    def scale_as_declared(self) -> None:
        """Give what has no statistics the scale that the environment declares."""
        for place, scale in self.architecture.scales:
            self.observation_mean[place], self.observation_std[place] = 0.0, scale

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

    def remember(self, values: Float[Tensor, "N D"], state: RecurrentState, runs: Runs) -> Float[Tensor, "N S"]:
        """The hidden state after all decisions of runs that begin at `state`; without memory, the core's output."""
        return self.core.remember(self.encode(values), state, runs)

    def encode(self, values: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        """What the core gets of observations."""
        return self._encode(values)[0]

    def distribution(self, parameters: Float[Tensor, "... P"], mask: Bool[Tensor, "... M"]) -> ActionDistribution:
        """The action distribution that `parameters` stand for."""
        return ActionDistribution(self.layout, parameters, self.log_std, mask)

    def normalise(self, values: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Observations as the encoder takes them."""
        centred = values - self.observation_mean
        return centred.div_(self.observation_std).clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def meant(self, values: Float[Tensor, "N D"]) -> Bool[Tensor, "N D"]:
        """What of observations is a quantity with a meaning: neither the empty places of sets nor choices."""
        meant = known(values, self.architecture.sets)
        for place in self.architecture.choices:
            meant[..., place] = False
        return meant

    def _encode(self, values: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Features of the whole, and of the members of every set."""
        normalised = self.normalise(values)
        if self.architecture.module is not None:
            return self.encoder(self._for_module(values, normalised)), []
        encoded = [encode(values, normalised) for encode in self.sets]
        if encoded or not self.architecture.is_layered:
            alone = [normalised[..., place] for place in self._rest]
            seen = [encode(normalised) for encode in self.images] + [encode(values) for encode in self.embeddings]
            normalised = torch.cat([*alone, *seen, *(summary for _, summary in encoded)], dim=-1)
        return self.encoder(normalised), [members for members, _ in encoded]

    def _for_module(self, values: Tensor, normalised: Tensor) -> Tensor:
        """What a module's inputs are read from: choices as they are, and 0 in empty places of sets."""
        scaled = normalised.where(known(values, self.architecture.sets), 0.0)
        for place in self.architecture.choices:
            scaled[..., place] = values[..., place]
        return scaled

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


def make_skeleton(architecture: Architecture) -> ActorCritic:
    """A network without memory for its weights; only what code of the user's makes has some."""
    if architecture.module is None:
        with torch.device("meta"):
            return ActorCritic(architecture)
    with torch.random.fork_rng(devices=[]):
        return ActorCritic(architecture)


def state_size(architecture: Architecture) -> int:
    """How many numbers either part of the recurrent state of such a network has."""
    match architecture.core:
        case CoreKind.LSTM:
            return architecture.recurrent_size
        case CoreKind.FEEDFORWARD:
            return 0
        case CoreKind.MODULE:
            return make_skeleton(architecture).core.state_size


def _make_core(architecture: Architecture, inputs: int) -> LSTMCore | FeedforwardCore:
    match architecture.core:
        case CoreKind.LSTM:
            return LSTMCore(inputs, architecture.recurrent_size)
        case CoreKind.FEEDFORWARD:
            return FeedforwardCore(inputs, architecture.recurrent_size)
        case CoreKind.MODULE:
            raise ArenaError('network.core is "module", but no network.module is named: name one, or take another core')


def _with_module(
    architecture: Architecture, layout: ModuleLayout
) -> tuple[nn.Sequential, LSTMCore | FeedforwardCore | ModuleCore]:
    """Encoder and core where a module has the place of one or of both."""
    if architecture.core is CoreKind.MODULE:
        return nn.Sequential(), ModuleCore(layout, architecture.recurrent_size)
    features = architecture.encoder_sizes[-1]
    return nn.Sequential(ModuleEncoder(layout, features)), _make_core(architecture, features)


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

    def act(
        self, observation: Observation, state: State, episode_start: Bool[Tensor, " R"], rng: torch.Generator
    ) -> tuple[Actions, State]:
        """Sample actions; see `Policy.act`."""
        return act_by(
            lambda parameters, mask: self.network.distribution(parameters, mask).sample(rng),
            self.network,
            observation,
            state,
            episode_start,
        )


@torch.inference_mode()
def act_by(
    choose: Callable[[Tensor, Tensor], Tensor],
    network: ActorCritic,
    observation: Observation,
    state: State,
    episode_start: Bool[Tensor, " R"],
) -> tuple[Actions, State]:
    """Act for R rows by what a network says of them; see `Policy.act`.

    Args:
        choose: From distribution parameters (R, P) and packed masks (R, M) to raw actions (R, A).
        network: In evaluation mode.
        observation: What the rows perceive.
        state: Their memory.
        episode_start: Rows whose observation opens an episode.
    """
    output = network.step(observation.values, RecurrentState(*state), episode_start, observation.active)
    raw = choose(output.parameters, network.layout.pack_masks(observation))
    return network.layout.to_actions(raw), output.state
