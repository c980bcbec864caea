"""The recurrent actor-critic: encoder, LSTM, LayerNorm, then linear layers for all action heads and the value."""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.errors import InputError
from arena.policies.nn.architecture import Architecture, CoreKind
from arena.policies.nn.distributions import ActionDistribution, ActionLayout
from arena.policies.nn.embedding_encoder import EmbeddingEncoder, EmbeddingLayout
from arena.policies.nn.image_encoder import ImageEncoder, ImageLayout
from arena.policies.nn.mlp import make_layers
from arena.policies.nn.packed_runs import PackedRuns, RecurrentState, reset_rows
from arena.policies.nn.pointer_head import head_parameters, head_rows
from arena.policies.nn.recurrent import FeedforwardCore, LSTMCore, orthogonal_linear
from arena.policies.nn.set_encoder import SetEncoder, observed_mask, remaining_slices
from arena.policies.nn.user_module import ModuleCore, ModuleEncoder, ModuleLayout

LOG_STD_RANGE = (-5.0, 2.0)
OBSERVATION_CLIP = 10.0
"""Normalised observations are clipped to +- this many standard deviations."""


class PolicyOutput(NamedTuple):
    """Distribution parameters (..., P), value (...) in normalised units, and the features (..., H) they come from."""

    parameters: Tensor
    value: Tensor
    features: Tensor


class NetworkOutput(NamedTuple):
    """Distribution parameters (..., P), value (...) in normalised units, and the state after the last step."""

    parameters: Tensor
    value: Tensor
    state: RecurrentState


class ActorCritic(nn.Module):
    """Policy and value network of one player, including its observation statistics.

    Rows of a batch are independent of each other. Recurrent state is an argument and a result, never stored.

    Raises:
        ArenaError: The architecture is inconsistent, or needs a module that cannot be imported.
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
        self.head_rows = head_rows(architecture.heads, architecture.sets)
        actor_rows = max(part.rows.stop for part in self.head_rows.values())
        self.actor = orthogonal_linear(architecture.recurrent_size, actor_rows, gain=0.01)
        self.critic = orthogonal_linear(architecture.recurrent_size, 1, gain=1.0)
        self.raw_log_std = nn.Parameter(torch.full((self.layout.log_std_size,), architecture.initial_log_std))
        self.register_buffer("observation_mean", torch.zeros(architecture.observation_size))
        self.register_buffer("observation_std", torch.ones(architecture.observation_size))
        self.apply_declared_scales()

    def _read_blocks(self, architecture: Architecture) -> tuple[int, ...]:
        """Create the encoders of sets, images and choices; return the layer sizes of the encoder behind them."""
        separate_blocks: tuple[ImageLayout | EmbeddingLayout, ...] = (*architecture.images, *architecture.embeddings)
        self._rest = remaining_slices(architecture.observation_size, (*architecture.sets, *separate_blocks))
        self.sets = nn.ModuleList(SetEncoder(architecture.encoder, layout) for layout in architecture.sets)
        self.images = nn.ModuleList(ImageEncoder(layout) for layout in architecture.images)
        self.embeddings = nn.ModuleList(EmbeddingEncoder(layout) for layout in architecture.embeddings)
        width = sum(columns.stop - columns.start for columns in self._rest) + sum(
            layout.features for layout in separate_blocks
        )
        return (width + sum(layout.summary_size for layout in architecture.sets), *architecture.encoder_sizes)

    def apply_declared_scales(self) -> None:
        """Set the statistics of slices with a fixed scale to mean 0 and that scale."""
        for columns, scale in self.architecture.fixed_scales:
            self.observation_mean[columns], self.observation_std[columns] = 0.0, scale

    @property
    def log_std(self) -> Float[Tensor, " G"]:
        """Log standard deviation of every gaussian dimension, within LOG_STD_RANGE."""
        return self.raw_log_std.clamp(*LOG_STD_RANGE)

    @torch.no_grad()
    def clamp_log_std(self) -> None:
        """Clamp the parameter itself to LOG_STD_RANGE; call this after every optimiser step.

        Outside the range the clamp in `log_std` passes no gradient, so the parameter would be stuck there.
        """
        self.raw_log_std.clamp_(*LOG_STD_RANGE)

    def initial_state(self, rows: int) -> RecurrentState:
        """Return an all-zero state on the network's device."""
        zeros = self.observation_mean.new_zeros(rows, self.core.state_size)
        return RecurrentState(zeros, zeros)

    def step(
        self,
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        """Advance R rows by one decision; reset the state where an episode starts, keep it where a row is inactive."""
        before = reset_rows(state, episode_start)
        encoded, members = self._encode(values)
        output, after = self.core.step(encoded, before)
        rows = active.unsqueeze(-1)
        current = RecurrentState(*(torch.where(rows, new, old) for new, old in zip(after, before, strict=True)))
        parameters, value, _ = self._heads(output, members)
        return NetworkOutput(parameters, value, current)

    def sequence(
        self, values: Float[Tensor, "N D"], state: RecurrentState, runs: PackedRuns, *, half: bool = False
    ) -> PolicyOutput:
        """Evaluate N decisions of packed runs that begin at `state`.

        With `half`, encoder and core multiply in bfloat16 if the device supports it. Accumulation and the output heads
        stay in single precision, as does recurrent state on a CPU. On a GPU the state is bfloat16 between steps.
        """
        encoded, members = self.encode_sequence(values, half=half)
        return self.read_out(self.run_core(encoded, state, runs, half=half), members)

    def encode_sequence(self, values: Float[Tensor, "N D"], *, half: bool) -> tuple[Tensor, list[Tensor]]:
        """Return the core's input features, and the encoded members of every set: the first part of `sequence`."""
        with self._autocast(half):
            return self._encode(values)

    def run_core(
        self, encoded: Float[Tensor, "N F"], state: RecurrentState, runs: PackedRuns, *, half: bool
    ) -> Float[Tensor, "N H"]:
        """Return the core's output at N decisions of packed runs: the second part of `sequence`."""
        with self._autocast(half):
            return self.core.sequence(encoded, state, runs)

    def read_out(self, output: Float[Tensor, "N H"], members: list[Tensor]) -> PolicyOutput:
        """Return the outputs of all heads in single precision: the last part of `sequence`."""
        return self._heads(output.float(), [each.float() for each in members])

    def _autocast(self, half: bool) -> AbstractContextManager[object]:
        return torch.autocast(self.observation_mean.device.type, torch.bfloat16) if half else nullcontext()

    def hidden_states(
        self, values: Float[Tensor, "N D"], state: RecurrentState, runs: PackedRuns
    ) -> Float[Tensor, "N S"]:
        """Return the hidden state after every decision of packed runs; the core's output if it has no state."""
        return self.core.hidden_states(self.encode(values), state, runs)

    def encode(self, values: Float[Tensor, "N D"]) -> Float[Tensor, "N F"]:
        """Return the core's input features."""
        return self._encode(values)[0]

    def distribution(self, parameters: Float[Tensor, "... P"], mask: Bool[Tensor, "... M"]) -> ActionDistribution:
        """Return the action distribution with these parameters."""
        return ActionDistribution(self.layout, parameters, self.log_std, mask)

    def normalise(self, values: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Normalise observations by the running statistics and clip them to +- OBSERVATION_CLIP."""
        centred = values - self.observation_mean
        return centred.div_(self.observation_std).clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)

    def numeric_mask(self, values: Float[Tensor, "N D"]) -> Bool[Tensor, "N D"]:
        """Mask of the observation entries that are quantities: neither absent set members nor categories."""
        numeric_mask = observed_mask(values, self.architecture.sets)
        for columns in self.architecture.categorical_slices:
            numeric_mask[..., columns] = False
        return numeric_mask

    def _encode(self, values: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the features for the core, and the encoded members of every set."""
        normalised = self.normalise(values)
        if self.architecture.module is not None:
            return self.encoder(self._for_module(values, normalised)), []
        encoded = [encode(values, normalised) for encode in self.sets]
        if encoded or not self.architecture.is_stackable:
            alone = [normalised[..., columns] for columns in self._rest]
            seen = [encode(normalised) for encode in self.images] + [encode(values) for encode in self.embeddings]
            normalised = torch.cat([*alone, *seen, *(summary for _, summary in encoded)], dim=-1)
        return self.encoder(normalised), [members for members, _ in encoded]

    def _for_module(self, values: Tensor, normalised: Tensor) -> Tensor:
        """Return the observation for a user module: categories unscaled, absent set members 0."""
        scaled = normalised.where(observed_mask(values, self.architecture.sets), 0.0)
        for columns in self.architecture.categorical_slices:
            scaled[..., columns] = values[..., columns]
        return scaled

    def _heads(self, output: Tensor, members: list[Tensor]) -> PolicyOutput:
        features = self.norm(output)
        # One matrix product for actor and critic, because two narrow ones take longer.
        weight = torch.cat([self.actor.weight, self.critic.weight])
        columns = F.linear(features, weight, torch.cat([self.actor.bias, self.critic.bias]))
        rows, value = columns[..., :-1], columns[..., -1]
        parameters = head_parameters(self.head_rows.values(), rows, members) if members else rows
        return PolicyOutput(parameters, value, features)


def make_on_meta(architecture: Architecture) -> ActorCritic:
    """Build a network on the meta device, without allocating weights; user modules are built on the CPU."""
    if architecture.module is None:
        with torch.device("meta"):
            return ActorCritic(architecture)
    with torch.random.fork_rng(devices=[]):
        return ActorCritic(architecture)


def allocate_weights(skeleton: ActorCritic) -> None:
    """Allocate the weights of a meta network on the CPU; their values are undefined."""
    # Not `to_empty`: torch implements it and most operations on meta tensors in Python, which imports sympy or
    # torch._dynamo. That costs more than a second and 70 MB per process.
    memory = {name: torch.empty(each.shape, dtype=each.dtype) for name, each in skeleton.state_dict().items()}
    skeleton.load_state_dict(memory, assign=True)


def state_size(architecture: Architecture) -> int:
    """Width of the hidden state, and of the cell, of such a network."""
    match architecture.core:
        case CoreKind.LSTM:
            return architecture.recurrent_size
        case CoreKind.FEEDFORWARD:
            return 0
        case CoreKind.MODULE:
            return make_on_meta(architecture).core.state_size


def _make_core(architecture: Architecture, inputs: int) -> LSTMCore | FeedforwardCore:
    match architecture.core:
        case CoreKind.LSTM:
            return LSTMCore(inputs, architecture.recurrent_size)
        case CoreKind.FEEDFORWARD:
            return FeedforwardCore(inputs, architecture.recurrent_size)
        case CoreKind.MODULE:
            raise InputError('network.core is "module", but network.module is empty: name one, or use another core')


def _with_module(
    architecture: Architecture, layout: ModuleLayout
) -> tuple[nn.Sequential, LSTMCore | FeedforwardCore | ModuleCore]:
    """Create encoder and core for a module that replaces the encoder, or both."""
    if architecture.core is CoreKind.MODULE:
        return nn.Sequential(), ModuleCore(layout, architecture.recurrent_size)
    features = architecture.encoder_sizes[-1]
    return nn.Sequential(ModuleEncoder(layout, features)), _make_core(architecture, features)
