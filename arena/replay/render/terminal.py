"""A mech match in a terminal: two pixels per character, mechs as letters with an arrow for the heading."""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from arena.replay.header import SIDES
from arena.replay.mech.frames import Flag
from arena.replay.render.interpolate import Interpolator
from arena.replay.render.palette import DEEP_TEAMS, FAINT, HEAT, INK, LOW, NEUTRAL, TEAMS, TEXT, TROUGH, Colour, mix
from arena.replay.render.pixels import PixelMap
from arena.replay.render.scene import LOW_HP, Mech, Scene
from arena.replay.render.stats import count_up
from arena.replay.render.text import Part, describe, name_mech, write_clock

ARROWS = "→↗↑↖←↙↓↘"
UPPER_HALF, FULL, EMPTY = "▀", "█", "░"
SCORE_LINES, TICKER_LINES, ROSTER_WIDTH, GAP = 3, 4, 36, 2
LEAST_MAP = 16
NAME, SCORE_BAR, HP_BAR, HEAT_BAR = 24, 16, 8, 4
"""Widths in characters; the name's is a maximum."""

Cell = tuple[str, Colour, Colour]
"""A character with its foreground and background colour."""


class TerminalView:
    """Shows the scenes of one recording in a terminal of `width` columns and `height` lines."""

    def __init__(self, stage: Interpolator, width: int, height: int) -> None:
        self._stage, self._recording, self._header = stage, stage.recording, stage.recording.header
        lines = height - SCORE_LINES - TICKER_LINES - 1
        self._with_roster = width >= LEAST_MAP + GAP + ROSTER_WIDTH and lines >= self._header.agents + 2
        columns = width - (GAP + ROSTER_WIDTH if self._with_roster else 0)
        self._map = PixelMap(self._recording.battlefield, max(LEAST_MAP, min(columns, 2 * lines) // 2 * 2))

    def show(self, moment: float) -> RenderableType:
        """Return the scene at a moment, counted in frames."""
        scene = self._stage.at(moment)
        field = Table.grid(padding=(0, GAP, 0, 0))
        field.add_row(self._draw_map(scene), *([self._draw_rosters(scene)] if self._with_roster else []))
        return Group(*self._draw_score(scene), field, *self._draw_ticker(scene.frame))

    def _draw_score(self, scene: Scene) -> list[Text]:
        goal = self._recording.battlefield.zone_goal / 100.0
        limit_s = self._header.max_decisions * self._recording.decision_s
        times = f"{write_clock(scene.time_s)} of {write_clock(limit_s)}"
        clock = Text(f"{times}  {self._header.environment}  ", no_wrap=True, overflow="crop")
        clock.append_text(write_parts((Part(f"zone: {scene.holder}", _side_of(scene.holder)),)))
        return [clock, *(self._draw_side(side, scene.zone_s[side], goal) for side in range(len(SIDES)))]

    def _draw_side(self, side: int, zone_s: float, goal: float) -> Text:
        names = self._header.players
        width = min(NAME, max(map(len, names)))
        filled = round(SCORE_BAR * min(1.0, zone_s / goal))
        line = Text(f"{names[side][-width:]:{width}} ", _style(TEAMS[side]), no_wrap=True, overflow="crop")
        line.append(FULL * filled + EMPTY * (SCORE_BAR - filled), _style(TEAMS[side]))
        return line.append(f" {zone_s:.1f} of {goal:.1f} s")

    def _draw_map(self, scene: Scene) -> Text:
        pixels = self._map.paint(scene)
        cells = self._place_mechs(scene, pixels)
        text = Text(no_wrap=True, end="")
        for row in range(self._map.size // 2):
            for column in range(self._map.size):
                upper, lower = (_coarse(pixels[2 * row + half, column]) for half in (0, 1))
                letter, ink, paper = cells.get((row, column), (UPPER_HALF, upper, lower))
                text.append(letter, _style(ink, paper))
            text.append("\n")
        return text

    def _place_mechs(self, scene: Scene, pixels: NDArray[np.uint8]) -> dict[tuple[int, int], Cell]:
        cells: dict[tuple[int, int], Cell] = {}
        for mech in sorted(scene.mechs, key=lambda mech: mech.alive):
            row, column = self._map.locate(mech.x, mech.y)
            if not mech.alive:
                if Flag.WRECK in mech.flags:
                    cells[row // 2, column] = ("x", mix(TEAMS[mech.side], INK, 0.3), INK)
                continue
            turn = round(mech.angle / (math.pi / 4.0)) % len(ARROWS)
            beside = min(max(column + (-1 if turn in (3, 4, 5) else 1), 0), self._map.size - 1)
            paper = _coarse(pixels[row, beside])
            cells[row // 2, beside] = (ARROWS[turn], TEAMS[mech.side], paper)
            cells[row // 2, column] = (mech.label, TEXT, _paper(mech))
        return cells

    def _draw_rosters(self, scene: Scene) -> Table:
        counts = count_up(self._recording, scene.frame)
        roster = Table.grid(padding=(0, 1, 0, 0))
        for heading in ("", "hp", "heat", "kills", "damage"):
            roster.add_column(heading, justify="right" if heading in ("kills", "damage") else "left", no_wrap=True)
        roster.add_row(*(Text(heading, _style(FAINT)) for heading in ("", "hp", "heat", "kills", "damage")))
        for mech in scene.mechs:
            colour = TEAMS[mech.side] if mech.alive else mix(TEAMS[mech.side], INK, 0.6)
            bars = (
                _draw_bar(mech.hp, HP_BAR, LOW if mech.hp < LOW_HP else TEXT),
                _draw_bar(mech.heat, HEAT_BAR, mix(NEUTRAL, HEAT, mech.heat)),
            )
            roster.add_row(
                Text(name_mech(self._header, mech.agent).text, _style(colour)),
                *(bars if mech.alive else (Text("lost", _style(colour)), Text())),
                str(counts.kills[mech.agent] or ""),
                f"{counts.dealt[mech.agent] / 10:.0f}",
            )
        return roster

    def _draw_ticker(self, frame: int) -> list[Text]:
        lines = [
            Text(f"{write_clock(event.at * self._recording.decision_s):>5}  ", _style(FAINT)).append_text(
                write_parts(describe(event, self._header))
            )
            for event in reversed(self._stage.latest(frame, TICKER_LINES))
        ]
        return lines + [Text()] * (TICKER_LINES - len(lines))


def write_parts(parts: tuple[Part, ...]) -> Text:
    """Return a sentence in the colours of the sides."""
    text = Text()
    for part in parts:
        text.append(part.text, _style(TEXT if part.side is None else TEAMS[part.side]))
    return text


def _draw_bar(share: float, length: int, colour: Colour) -> Text:
    filled = math.ceil(min(max(share, 0.0), 1.0) * length)
    return Text(FULL * filled, _style(colour)).append(EMPTY * (length - filled), _style(TROUGH))


def _paper(mech: Mech) -> Colour:
    """Return the background of a mech's letter: its team's colour, redder with heat."""
    return mix(DEEP_TEAMS[mech.side], HEAT, min(max(mech.heat - 0.5, 0.0), 0.5))


def _side_of(holder: str) -> int | None:
    return SIDES.index(holder) if holder in SIDES else None


def _coarse(pixel: NDArray[np.uint8]) -> Colour:
    """Quantise a pixel's colour, so that fewer colour changes are sent to the terminal."""
    red, green, blue = (pixel & 0xF8).tolist()
    return (red, green, blue)


@functools.lru_cache(maxsize=65536)
def _style(ink: Colour, paper: Colour | None = None) -> Style:
    return Style(color=Color.from_rgb(*ink), bgcolor=None if paper is None else Color.from_rgb(*paper), bold=True)
