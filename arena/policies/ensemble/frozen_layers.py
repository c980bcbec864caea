"""The layers of a frozen network as plain matrices, and the protocol of the backends that multiply them."""

import itertools
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies.nn.actor_critic import ActorCritic, NetworkOutput, allocate_weights, make_on_meta
from arena.policies.nn.architecture import Architecture, CoreKind
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.nn.recurrent import FeedforwardCore, LSTMCore
from arena.policies.nn.set_encoder import SetEncoder


@dataclass(frozen=True)
class Affine:
    """x -> weight x + bias."""

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"]


@dataclass(frozen=True)
class TanhLinear(Affine):
    """x -> tanh(weight x + bias)."""


@dataclass(frozen=True)
class NormReluLinear(Affine):
    """x -> max(0, scale z + offset), where z is weight x + bias after LayerNorm without its affine part."""

    scale: Float[Tensor, " out"]
    offset: Float[Tensor, " out"]


@dataclass(frozen=True)
class FrozenLayers:
    """Layers of a network in the order of evaluation.

    Attributes:
        mean: Observation mean per feature.
        inverse_std: Inverse standard deviation per feature; normalised observations are clipped to OBSERVATION_CLIP.
        members: The shared layer of each set encoder.
        hidden: The encoder's layers, then a feed-forward core; layers with LayerNorm and ReLU come first.
        gates: LSTM gates of [features, hidden], H rows each: input, forget, cell, output. None without an LSTM.
        readout: Output heads on the core's output after LayerNorm without its affine part: actor rows, then the value.
    """

    mean: Float[Tensor, " D"]
    inverse_std: Float[Tensor, " D"]
    members: tuple[TanhLinear | NormReluLinear, ...]
    hidden: tuple[TanhLinear | NormReluLinear, ...]
    gates: Affine | None
    readout: Affine

    @classmethod
    def of(cls, network: ActorCritic) -> "FrozenLayers":
        """Return the current layers of a network."""
        core = network.core
        hidden = _encoder(network.encoder)
        if isinstance(core, FeedforwardCore):
            hidden.append(_tanh_linear(core.layer))
        gates = _gates(core) if isinstance(core, LSTMCore) else None
        return cls(
            mean=network.observation_mean,
            inverse_std=network.observation_std.reciprocal(),
            members=tuple(_encoder(each.layer)[0] for each in network.sets if isinstance(each, SetEncoder)),
            hidden=tuple(hidden),
            gates=gates,
            readout=_readout(network),
        )

    @classmethod
    def shapes(cls, architecture: Architecture) -> "FrozenLayers":
        """Return layers of an architecture with undefined values."""
        network = make_on_meta(architecture)
        allocate_weights(network)
        return cls.of(network)


def hidden_widths(architecture: Architecture) -> tuple[int, ...]:
    """Width of every layer between the observation and the LSTM or, without an LSTM, the output heads."""
    core = (architecture.recurrent_size,) if architecture.core is CoreKind.FEEDFORWARD else ()
    return (*architecture.encoder_sizes, *core)


def _encoder(encoder: nn.Sequential) -> list[TanhLinear | NormReluLinear]:
    layers: list[TanhLinear | NormReluLinear] = []
    for module, follower in itertools.pairwise(encoder):
        if isinstance(module, nn.Linear):
            layers.append(
                _norm_relu_linear(module, follower) if isinstance(follower, nn.LayerNorm) else _tanh_linear(module)
            )
    return layers


def _tanh_linear(layer: nn.Linear) -> TanhLinear:
    return TanhLinear(layer.weight.detach(), layer.bias.detach())


def _norm_relu_linear(layer: nn.Linear, norm: nn.LayerNorm) -> NormReluLinear:
    return NormReluLinear(layer.weight.detach(), layer.bias.detach(), norm.weight.detach(), norm.bias.detach())


def _gates(core: LSTMCore) -> Affine:
    weight_ih, weight_hh, bias_ih, bias_hh = (each.detach() for each in core.lstm.all_weights[0])
    return Affine(torch.cat([weight_ih, weight_hh], dim=1), bias_ih + bias_hh)


def _readout(network: ActorCritic) -> Affine:
    """Merge actor, critic and the affine part of the LayerNorm before them into one layer."""
    weight = torch.cat([network.actor.weight, network.critic.weight]).detach()
    bias = torch.cat([network.actor.bias, network.critic.bias]).detach()
    return Affine(weight * network.norm.weight.detach(), bias + weight @ network.norm.bias.detach())


@runtime_checkable
class Step(Protocol):
    """One decision of R rows; see `ActorCritic.step`."""

    def __call__(
        self,
        values: Float[Tensor, "R D"],
        state: RecurrentState,
        episode_start: Bool[Tensor, " R"],
        active: Bool[Tensor, " R"],
    ) -> NetworkOutput:
        """Advance all rows by one decision."""
        ...


@runtime_checkable
class Backend(Protocol):
    """Storage and inference for K networks of one architecture."""

    @property
    def slots(self) -> int:
        """K."""
        ...

    @property
    def size_bytes(self) -> int:
        """Memory of all slots, in bytes."""
        ...

    def reserve(self, slots: int) -> None:
        """Grow to `slots` slots; existing slots keep their networks."""
        ...

    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        ...

    def step_for(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """Return a step for rows in these slots, given on the host. It stays valid when slots get other networks."""
        ...
