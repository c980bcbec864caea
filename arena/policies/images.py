"""Images in an observation, read by convolutions."""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from arena.environments.spec import Channels, EnvironmentSpec, ImageBlock

KERNEL, STRIDE, PADDING = 3, 2, 1
"""Every convolution looks at 3 x 3 places, and leaves half of them on either side."""

LARGEST_LEFT = 6
"""Convolutions go on until no side of what they leave is longer."""

MOST_DOUBLINGS = 2
"""Each has twice the channels of the one before, at most so many times."""


@dataclass(frozen=True)
class ImageLayout:
    """Where an image lies in the flat observation, and how it is read.

    Attributes:
        start: Its first place.
        height: Rows.
        width: Columns.
        depth: Channels.
        channels_first: Whether they are the first axis; otherwise they are the last.
        limit: Largest magnitude of an entry: what entries are divided by.
        channels: Of every convolution, the first to the last.
    """

    start: int
    height: int
    width: int
    depth: int
    channels_first: bool
    limit: float
    channels: tuple[int, ...]

    @classmethod
    def all_of(cls, spec: EnvironmentSpec, channels: int) -> tuple["ImageLayout", ...]:
        """Every image that an environment declares, with so many channels in the first convolution."""
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
    def places(self) -> list[slice]:
        """What it takes up of the observation."""
        return [slice(self.start, self.start + self.height * self.width * self.depth)]

    @property
    def features(self) -> int:
        """How many features its convolutions leave."""
        height, width = _sides_after((self.height, self.width), len(self.channels))
        return self.channels[-1] * height * width

    def picture(self, scaled: Float[Tensor, "R D"]) -> Float[Tensor, "R depth height width"]:
        """The image of every row, channels first."""
        flat = scaled[:, self.places[0]]
        if self.channels_first:
            return flat.reshape(len(flat), self.depth, self.height, self.width)
        return flat.reshape(len(flat), self.height, self.width, self.depth).permute(0, 3, 1, 2)


class ImageEncoder(nn.Module):
    """Convolutions with ReLU, and what they leave side by side."""

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
        """Features of the image in every row of scaled observations."""
        return torch.flatten(self.layers(self._layout.picture(scaled)), 1)


def _channels(sides: tuple[int, int], first: int) -> tuple[int, ...]:
    """Channels of convolutions until what they leave is small."""
    channels: list[int] = []
    while not channels or max(_sides_after(sides, len(channels))) > LARGEST_LEFT:
        channels.append(first * 2 ** min(len(channels), MOST_DOUBLINGS))
    return tuple(channels)


def _sides_after(sides: tuple[int, int], convolutions: int) -> tuple[int, int]:
    height, width = sides
    for _ in range(convolutions):
        height, width = -(-height // STRIDE), -(-width // STRIDE)
    return height, width
