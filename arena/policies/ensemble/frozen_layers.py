"""The layers of a frozen network as plain matrices, which the backends multiply."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from arena.policies.nn.actor_critic import ActorCritic, NetworkOutput, allocate_weights, make_on_meta
from arena.policies.nn.architecture import Architecture, CoreKind
from arena.policies.nn.packed_runs import RecurrentState
from arena.policies.nn.recurrent import FeedforwardCore, LSTMCore
from arena.policies.nn.set_encoder import SetEncoder

Step = Callable[[Float[Tensor, "R D"], RecurrentState, Bool[Tensor, " R"], Bool[Tensor, " R"]], NetworkOutput]
"""One decision of R rows: observations, state, episode starts and active rows; see `ActorCritic.step`."""


@dataclass(frozen=True)
class FrozenLayer:
    """Affine map z = weight x + bias, with the parameters of its activation.

    Attributes:
        weight: One row per output.
        bias: One number per output.
        norm: Scale and offset of LayerNorm before ReLU: max(0, scale LayerNorm(z) + offset). None for tanh(z), and for
            layers without an activation.
    """

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"]
    norm: tuple[Float[Tensor, " out"], Float[Tensor, " out"]] | None = None


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
    members: tuple[FrozenLayer, ...]
    hidden: tuple[FrozenLayer, ...]
    gates: FrozenLayer | None
    readout: FrozenLayer

    @classmethod
    @torch.no_grad()
    def of(cls, network: ActorCritic) -> "FrozenLayers":
        """Return the current layers of a network."""
        core, members = network.core, [each.layer for each in network.sets if isinstance(each, SetEncoder)]
        hidden, gates = _layers(network.encoder), None
        if isinstance(core, FeedforwardCore):
            hidden.append(FrozenLayer(core.layer.weight, core.layer.bias))
        if isinstance(core, LSTMCore):
            weight_ih, weight_hh, bias_ih, bias_hh = core.lstm.all_weights[0]
            gates = FrozenLayer(torch.cat([weight_ih, weight_hh], dim=1), bias_ih + bias_hh)
        return cls(
            mean=network.observation_mean,
            inverse_std=network.observation_std.reciprocal(),
            members=tuple(_layers(each)[0] for each in members),
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


def _layers(encoder: nn.Sequential) -> list[FrozenLayer]:
    return [
        FrozenLayer(
            module.weight,
            module.bias,
            (follower.weight, follower.bias) if isinstance(follower, nn.LayerNorm) else None,
        )
        for module, follower in itertools.pairwise(encoder)
        if isinstance(module, nn.Linear)
    ]


def _readout(network: ActorCritic) -> FrozenLayer:
    """Merge actor, critic and the affine part of the LayerNorm before them into one layer."""
    weight = torch.cat([network.actor.weight, network.critic.weight])
    bias = torch.cat([network.actor.bias, network.critic.bias])
    return FrozenLayer(weight * network.norm.weight, bias + weight @ network.norm.bias)
