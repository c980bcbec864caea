"""The encoder: a multi-layer perceptron between observation and core."""

import itertools
from enum import StrEnum

import torch
from torch import Tensor, nn

from arena.policies.nn.recurrent import orthogonal_linear


class EncoderKind(StrEnum):
    """Activation after every linear layer of the encoder."""

    TANH = "tanh"
    RELU_NORM = "relu_norm"
    """LayerNorm, then ReLU. Unlike tanh it does not saturate on large inputs."""


def make_layers(kind: EncoderKind, sizes: tuple[int, ...]) -> nn.Sequential:
    """Return the layers that map each width in `sizes` to the next."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers.append(orthogonal_linear(inputs, outputs, gain=2.0**0.5))
        match kind:
            case EncoderKind.TANH:
                layers.append(FloatTanh())
            case EncoderKind.RELU_NORM:
                layers += [nn.LayerNorm(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class FloatTanh(nn.Module):
    """Tanh in single precision; on a CPU torch takes more than twice as long over one of bfloat16."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply tanh elementwise."""
        return torch.tanh(x.float())
