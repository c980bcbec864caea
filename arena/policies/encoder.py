"""What makes features of an observation before the core sees them."""

import itertools
from enum import StrEnum

from torch import nn

from arena.policies.cores import orthogonal_linear
from arena.policies.tanh import Tanh


class EncoderKind(StrEnum):
    """What follows the linear part of every layer of the encoder."""

    TANH = "tanh"
    RELU_NORM = "relu_norm"
    """LayerNorm, then ReLU: however large an input, half of the features still pass gradient."""


def make_layers(kind: EncoderKind, sizes: tuple[int, ...]) -> nn.Sequential:
    """Layers from each width to the next."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers.append(orthogonal_linear(inputs, outputs, gain=2.0**0.5))
        match kind:
            case EncoderKind.TANH:
                layers.append(Tanh())
            case EncoderKind.RELU_NORM:
                layers += [nn.LayerNorm(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)
