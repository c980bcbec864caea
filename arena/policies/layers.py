"""A frozen network as plain matrices, for whoever multiplies them differently."""

import itertools
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from arena.policies.cores import FeedforwardCore, LSTMCore, RecurrentState
from arena.policies.network import ActorCritic, Architecture, CoreKind, NetworkOutput
from arena.policies.sets import SetEncoder


@dataclass(frozen=True)
class Affine:
    """x -> weight x + bias."""

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"]


@dataclass(frozen=True)
class Squashed(Affine):
    """x -> tanh(weight x + bias)."""


@dataclass(frozen=True)
class Rectified(Affine):
    """x -> max(0, scale z + offset), where z is weight x + bias, centred and scaled to unit variance."""

    scale: Float[Tensor, " out"]
    offset: Float[Tensor, " out"]


@dataclass(frozen=True)
class FrozenLayers:
    """What a network computes, in this order.

    Attributes:
        mean: Of the observation, per feature.
        inverse_std: Of the observation, per feature; normalised observations are clipped to OBSERVATION_CLIP.
        members: What the members of each set go through.
        hidden: The encoder's layers, and the core of a network without memory; rectified ones come first.
        gates: Of [features, hidden]: enter, forget, new, leave, H rows each; None without memory.
        readout: Of the core's output, centred and scaled to unit variance: rows of the actor, then the value.
    """

    mean: Float[Tensor, " D"]
    inverse_std: Float[Tensor, " D"]
    members: tuple[Squashed | Rectified, ...]
    hidden: tuple[Squashed | Rectified, ...]
    gates: Affine | None
    readout: Affine

    @classmethod
    def of(cls, network: ActorCritic) -> "FrozenLayers":
        """The layers that `network` has now."""
        core = network.core
        hidden = _encoder(network.encoder)
        if isinstance(core, FeedforwardCore):
            hidden.append(_squashed(core.layer))
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
        """Layers of that architecture without memory for their numbers."""
        with torch.device("meta"):
            return cls.of(ActorCritic(architecture))


def hidden_widths(architecture: Architecture) -> tuple[int, ...]:
    """Width of every layer between the observation and the LSTM or, without memory, the readout."""
    core = (architecture.recurrent_size,) if architecture.core is CoreKind.FEEDFORWARD else ()
    return (*architecture.encoder_sizes, *core)


def _encoder(encoder: nn.Sequential) -> list[Squashed | Rectified]:
    layers: list[Squashed | Rectified] = []
    for module, follower in itertools.pairwise(encoder):
        if isinstance(module, nn.Linear):
            layers.append(_rectified(module, follower) if isinstance(follower, nn.LayerNorm) else _squashed(module))
    return layers


def _squashed(layer: nn.Linear) -> Squashed:
    return Squashed(layer.weight.detach(), layer.bias.detach())


def _rectified(layer: nn.Linear, norm: nn.LayerNorm) -> Rectified:
    return Rectified(layer.weight.detach(), layer.bias.detach(), norm.weight.detach(), norm.bias.detach())


def _gates(core: LSTMCore) -> Affine:
    weight_ih, weight_hh, bias_ih, bias_hh = (each.detach() for each in core.lstm.all_weights[0])
    return Affine(torch.cat([weight_ih, weight_hh], dim=1), bias_ih + bias_hh)


def _readout(network: ActorCritic) -> Affine:
    """Actor and critic as one layer, which takes over the scale and the offset of the LayerNorm before it."""
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
        """Advance the rows."""
        ...


@runtime_checkable
class Networks(Protocol):
    """Slots for networks of one architecture."""

    @property
    def slots(self) -> int:
        """K."""
        ...

    @property
    def size_bytes(self) -> int:
        """Memory of all slots."""
        ...

    def reserve(self, slots: int) -> None:
        """Have that many slots, more than before; those that there were keep their networks."""
        ...

    def put(self, slot: int, network: ActorCritic) -> None:
        """Copy a network's weights into a slot."""
        ...

    def arrange(self, slot_of_row: Int[Tensor, " R"]) -> Step:
        """The step of rows that sit in these slots, given on the host. It stays good when slots get other networks."""
        ...
