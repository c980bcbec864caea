"""Convolutional encoder for images in an observation."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments.spec import Channels, EnvironmentSpec, ImageBlock

KERNEL, STRIDE, PADDING = 3, 2, 1
"""Every convolution has a 3 x 3 kernel and halves both sides."""

MAX_OUTPUT_SIDE = 6
"""Convolutions are added until neither side of their output is longer."""

MAX_DOUBLINGS = 2
"""Channels double from one convolution to the next, at most this many times."""


@dataclass(frozen=True)
class ImageLayout:
    """Layout of an image in the flat observation. The field names are part of the checkpoint format.

    Attributes:
        start: First index.
        height: Rows.
        width: Columns.
        depth: Channels of the image.
        channels_first: Whether channels are the first axis; otherwise they are the last.
        limit: Largest magnitude of an entry, by which entries are divided.
        channels: Output channels of every convolution.
    """

    start: int
    height: int
    width: int
    depth: int
    channels_first: bool
    limit: float
    channels: tuple[int, ...]

    @classmethod
    def from_spec(cls, spec: EnvironmentSpec, channels: int) -> tuple["ImageLayout", ...]:
        """Return the layout of every image that an environment declares, given the first convolution's channels."""
        return tuple(
            cls(
                start=spec.layout[block.name].start,
                height=block.sides[0],
                width=block.sides[1],
                depth=block.depth,
                channels_first=block.channels is Channels.FIRST,
                limit=block.limit,
                channels=_channels(block.sides, channels),
            )
            for block in spec.observation
            if isinstance(block, ImageBlock)
        )

    @property
    def slices(self) -> list[slice]:
        """Slices of the observation that the image occupies."""
        return [slice(self.start, self.start + self.height * self.width * self.depth)]

    @property
    def features(self) -> int:
        """Number of features after the last convolution."""
        height, width = _sides_after((self.height, self.width), len(self.channels))
        return self.channels[-1] * height * width

    def image_of(self, scaled: Float[Tensor, "R D"]) -> Float[Tensor, "R depth height width"]:
        """Return the image of every row, channels first."""
        flat = scaled[:, self.slices[0]]
        if self.channels_first:
            return flat.reshape(len(flat), self.depth, self.height, self.width)
        return flat.reshape(len(flat), self.height, self.width, self.depth).permute(0, 3, 1, 2)


class ImageEncoder(nn.Module):
    """Convolutions with ReLU, flattened at the end."""

    def __init__(self, layout: ImageLayout) -> None:
        super().__init__()
        self._layout = layout
        layers: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise((layout.depth, *layout.channels)):
            convolution = nn.Conv2d(inputs, outputs, KERNEL, STRIDE, PADDING)
            nn.init.orthogonal_(convolution.weight, 2.0**0.5)
            nn.init.zeros_(convolution.get_parameter("bias"))
            layers += [convolution, nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers)

    def forward(self, scaled: Float[Tensor, "R D"]) -> Float[Tensor, "R features"]:
        """Return the features of the image in every row of scaled observations."""
        return torch.flatten(self.layers(self._layout.image_of(scaled)), 1)


def _channels(sides: tuple[int, int], first: int) -> tuple[int, ...]:
    """Output channels of as many convolutions as it takes to reach MAX_OUTPUT_SIDE."""
    channels: list[int] = []
    while not channels or max(_sides_after(sides, len(channels))) > MAX_OUTPUT_SIDE:
        channels.append(first * 2 ** min(len(channels), MAX_DOUBLINGS))
    return tuple(channels)


def _sides_after(sides: tuple[int, int], convolutions: int) -> tuple[int, int]:
    height, width = sides
    for _ in range(convolutions):
        height, width = -(-height // STRIDE), -(-width // STRIDE)
    return height, width
