"""Colours that tell things apart do so for every eye, as far as colours can."""

import re
from importlib.resources import files
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from arena.replay.render import palette

APART = 18.0
"""Least distance of two colours in CIELAB, for every eye. Ten is plain to see where colours lie side by side."""

EYES = {
    "trichromat": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What linear RGB becomes for an eye. Source: Machado, Oliveira and Fernandes 2009, severity 1."""

_TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def lab(colour: str, eye: str) -> NDArray[np.float64]:
    """Return a colour `#rrggbb` in CIELAB as an eye has it."""
    value = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255.0
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(np.array(EYES[eye]) @ linear, 0.0, 1.0) / _WHITE
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16.0 / 116.0)
    return np.array([116.0 * root[1] - 16.0, 500.0 * (root[0] - root[1]), 200.0 * (root[1] - root[2])])


def style(name: str, pattern: str) -> list[tuple[str, str]]:
    """Return the pairs of colours, for light and for dark, that follow a pattern in a style sheet."""
    text = files("league.web").joinpath("static", name).read_text()
    return re.findall(pattern + r"[^}]*?light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)", text)


def palettes() -> dict[str, list[str]]:
    """Colours that stand side by side and mean different things."""
    found = {"mechs": ["#" + bytes(team).hex() for team in palette.TEAMS]}
    for place, theme in enumerate(("light", "dark")):
        found |= {
            f"curves, {theme}": [pair[place] for pair in style("charts.css", r"\.line-\d \{")],
            f"payoff, {theme}": [pair[place] for pair in style("payoff.css", r"\.key \.(?:wins|losses) \{")],
            f"sides, {theme}": [pair[place] for pair in style("replay.css", r"--(?:home|away):")],
        }
    return found


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("name", palettes())
def test_palette_is_distinguishable_with_colour_blindness(name: str, eye: str) -> None:
    colours = [lab(each, eye) for each in palettes()[name]]
    assert len(colours) >= 2
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(colours, 2)) > APART
