"""Head-up display around the map: names and score above, rosters at the side, latest events below."""

from PIL import Image

from arena.replay.header import SIDES
from arena.replay.mech.frames import Flag
from arena.replay.render.image.canvas import MAP, Pen
from arena.replay.render.interpolate import Interpolator
from arena.replay.render.palette import BACKGROUND, FAINT, HEAT, INK, LOW, NEUTRAL, PANEL, TEAMS, TEXT, Colour, mix
from arena.replay.render.scene import LOW_HP, Mech, Scene
from arena.replay.render.stats import MechStats, count_up
from arena.replay.render.text import describe, describe_outcome, name_mech, write_clock

TOP, RIGHT, BOTTOM = 74.0, 250.0, 86.0
WIDTH = MAP + RIGHT
EDGE, MIDDLE = 14.0, 74.0
"""Margins at the edges, and on either side of the middle for the clock."""
TICKER_LINES = 4
TITLE, LARGEST_ROW = 24.0, 27.0
"""Row heights in a roster."""

STATES = ((Flag.SHUTDOWN, "shut down"), (Flag.FALLEN, "fallen"), (Flag.LEGGED, "legless"), (Flag.SUPPRESSED, "pinned"))
"""States of a living mech in a roster, most severe first."""


class Hud:
    """Draws everything except the map.

    Attributes:
        size: Size of the whole image, in pixels.
        map_corner: Position of the map.
    """

    def __init__(self, stage: Interpolator, map_size: int) -> None:
        self._stage, self._recording, self._header = stage, stage.recording, stage.recording.header
        self._unit = map_size / MAP
        self._stats_of = (-1, count_up(self._recording, 0))
        self.size = (_even(WIDTH * self._unit), _even((TOP + MAP + BOTTOM) * self._unit))
        self.map_corner = (0, round(TOP * self._unit))
        self._base = self._draw_base()

    def draw(self, scene: Scene) -> Image.Image:
        """Draw everything except the map, which is left empty."""
        picture = self._base.copy()
        pen = Pen(picture, self._unit)
        self._draw_score(pen, scene)
        stats = self._stats(scene.frame)
        for side in range(len(SIDES)):
            self._draw_roster(pen, [mech for mech in scene.mechs if mech.side == side], stats)
        self._draw_ticker(pen, scene.frame)
        return picture

    def draw_banner(self, picture: Image.Image) -> None:
        """Draw the winner across the map."""
        pen, parts = Pen(picture, self._unit), describe_outcome(self._header)
        width = sum(pen.measure(part.text, 26.0) for part in parts)
        pen.box(0.0, TOP + MAP / 2.0 - 34.0, MAP, 68.0, (*INK, 205))
        pen.write_parts((MAP - width) / 2.0, TOP + MAP / 2.0, parts, 26.0, TEXT)

    def _draw_base(self) -> Image.Image:
        """Draw the static parts."""
        picture = Image.new("RGB", self.size, BACKGROUND)
        pen = Pen(picture, self._unit)
        pen.box(MAP, TOP, RIGHT, MAP, PANEL)
        home, away = (pen.shorten(name, 18.0, WIDTH / 2.0 - MIDDLE) for name in self._header.players)
        pen.write(EDGE, 24.0, home, 18.0, TEAMS[0])
        pen.write(WIDTH - EDGE, 24.0, away, 18.0, TEAMS[1], "rm")
        match = f"{self._header.environment}  seed {self._header.seed}"
        pen.write(WIDTH - EDGE, TOP + MAP + BOTTOM - 16.0, match, 10.0, FAINT, "rm")
        return picture

    def _draw_score(self, pen: Pen, scene: Scene) -> None:
        goal = self._recording.battlefield.zone_goal / 100.0
        limit_s = self._header.max_decisions * self._recording.decision_s
        middle, reach = WIDTH / 2.0, WIDTH / 2.0 - MIDDLE - EDGE
        pen.write(middle, 24.0, write_clock(scene.time_s), 22.0, TEXT, "mm")
        pen.write(middle, 50.0, f"of {write_clock(limit_s)}", 11.0, FAINT, "mm")
        for side, direction in enumerate((1.0, -1.0)):
            start = EDGE if side == 0 else WIDTH - EDGE
            pen.bar(start, 44.0, direction * reach, 11.0, scene.zone_s[side] / goal, TEAMS[side])
            holds = scene.holder in (SIDES[side], "contested")
            text = f"{scene.zone_s[side]:.1f} s of {goal:.1f}" + (", scoring" if holds else "")
            pen.write(
                middle - direction * MIDDLE, 63.0, text, 10.0, TEXT if holds else FAINT, "rm" if side == 0 else "lm"
            )

    def _draw_roster(self, pen: Pen, mechs: list[Mech], stats: MechStats) -> None:
        side, half = mechs[0].side, MAP / 2.0
        top = TOP + 6.0 + side * half
        alive = sum(mech.alive for mech in mechs)
        row = min(LARGEST_ROW, (half - TITLE - 12.0) / len(mechs))
        pen.write(MAP + 12.0, top + 12.0, f"{alive} of {len(mechs)}", 12.0, TEAMS[side])
        pen.write(MAP + 194.0, top + 12.0, "kills", 9.5, FAINT, "rm")
        pen.write(MAP + RIGHT - 12.0, top + 12.0, "damage", 9.5, FAINT, "rm")
        for index, mech in enumerate(mechs):
            self._draw_row(pen, mech, stats, top + TITLE + index * row, row)

    def _draw_row(self, pen: Pen, mech: Mech, stats: MechStats, top: float, row: float) -> None:
        size, left, middle = min(11.0, 0.62 * row), MAP + 12.0, top + 0.5 * row
        team = TEAMS[mech.side]
        pen.write(
            left, middle, name_mech(self._header, mech.agent).text, size, team if mech.alive else mix(team, PANEL, 0.6)
        )
        bars, width = left + 64.0, 76.0
        if mech.alive:
            pen.bar(bars, middle - 0.26 * row, width, 0.22 * row, mech.hp, LOW if mech.hp < LOW_HP else TEXT)
            pen.bar(bars, middle + 0.04 * row, width, 0.12 * row, mech.heat, mix(NEUTRAL, HEAT, mech.heat))
            state = next((word for flag, word in STATES if flag in mech.flags), "")
            pen.write(bars, middle + 0.34 * row, state, 0.7 * size, HEAT)
        else:
            pen.write(bars, middle, "destroyed", 0.85 * size, FAINT)
        counts: tuple[tuple[float, str, Colour], ...] = (
            (MAP + 194.0, f"{stats.kills[mech.agent] or ''}", TEXT),
            (MAP + RIGHT - 12.0, f"{stats.dealt[mech.agent] / 10:.0f}", TEXT if mech.alive else FAINT),
        )
        for x, text, colour in counts:
            pen.write(x, middle, text, size, colour, "rm")

    def _draw_ticker(self, pen: Pen, frame: int) -> None:
        for line, event in enumerate(reversed(self._stage.latest(frame, TICKER_LINES))):
            y = TOP + MAP + 16.0 + 18.0 * line
            colour = mix(TEXT, BACKGROUND, 0.2 * line)
            pen.write(EDGE, y, write_clock(event.at * self._recording.decision_s), 11.0, FAINT)
            pen.write_parts(58.0, y, describe(event, self._header), 12.0, colour)

    def _stats(self, frame: int) -> MechStats:
        if self._stats_of[0] != frame:
            self._stats_of = (frame, count_up(self._recording, frame))
        return self._stats_of[1]


def _even(pixels: float) -> int:
    """Round a length such that half of it is even too, as video codecs require even sizes."""
    return 4 * round(pixels / 4.0)
