"""Mechs from above: hulls, wrecks, marks and bars."""

from PIL import ImageDraw

from arena.replay.mech.battlefield import Hull
from arena.replay.mech.frames import Flag
from arena.replay.render.image.canvas import Canvas, Font, Pixel, glass, round_box
from arena.replay.render.image.shapes import MEDIUM, SHAPES, Shape, place
from arena.replay.render.palette import ECCM, ECM, HEAT, INK, LOW, PAINT, SHUTDOWN, TEAMS, TEXT, WRECKAGE, Colour, mix
from arena.replay.render.scene import LOW_HP, Mech

WARM = 0.5
"""Share of the heat capacity from which a mech glows."""
BAR_WIDTH, BAR_HEIGHT = 22.0, 3.0
"""Size of the bar over a mech, in thin lines."""
FALLEN_LENGTH = 0.65
GLOW_RINGS = 6


class MechPainter:
    """Draws one mech on a canvas."""

    def __init__(self, canvas: Canvas, mech: Mech, hull: Hull) -> None:
        self._mech, self._line = mech, canvas.line
        self._pen: ImageDraw.ImageDraw = canvas.pen
        self._centre = canvas.spot(mech.x, mech.y)
        self._radius = hull.width / 200.0 * canvas.mech_scale
        self._shape: Shape = SHAPES.get(mech.role, MEDIUM)

    def draw_wreck(self) -> None:
        """Draw a destroyed mech: a burnt-out hull, or a scorch mark if it is no obstacle."""
        stands = Flag.WRECK in self._mech.flags
        tint = mix(WRECKAGE, TEAMS[self._mech.side], 0.45)
        if stands:
            outline = place(self._shape.hull, self._centre, self._radius, self._mech.angle)
            self._pen.polygon(outline, fill=WRECKAGE, outline=INK, width=self._width(1.5))
        else:
            self._pen.ellipse(round_box(self._centre, 0.8 * self._radius), fill=glass(INK, 0.3))
        for slope in (1.0, -1.0):
            self._pen.line(self._cross(0.5 if stands else 0.35, slope), fill=tint, width=self._width(1.5))

    def draw_body(self) -> None:
        """Draw a living mech: shadow, glow and hull in the team's colour."""
        drop = self._line * (1.5 + self._mech.z)
        under = (self._centre[0] + drop, self._centre[1] + drop)
        self._pen.polygon(self._placed(self._shape.hull, under), fill=glass(INK, 0.4))
        self._draw_glow()
        colour = self._colour()
        for barrel in self._shape.barrels:
            self._pen.line(self._placed(barrel), fill=INK, width=self._width(max(1.5, 0.2 * self._radius / self._line)))
        self._pen.polygon(self._placed(self._shape.hull), fill=colour, outline=INK, width=self._width(1.2))
        for plate in self._shape.plates:
            self._pen.polygon(self._placed(plate), fill=mix(colour, TEXT, 0.3))
        cockpit = self._placed((self._shape.cockpit,))[0]
        self._pen.ellipse(round_box(cockpit, 0.22 * self._radius), fill=mix(colour, INK, 0.75))

    def draw_marks(self) -> None:
        """Draw status marks: painted, ECM and ECCM."""
        for flag, colour in ((Flag.ECM, ECM), (Flag.ECCM, ECCM)):
            if flag in self._mech.flags:
                self._draw_broken_ring(1.75, colour)
        if Flag.PAINTED in self._mech.flags:
            self._draw_brackets(1.6, PAINT)

    def draw_bar(self, font: Font) -> None:
        """Draw the bar of hit points and the class's letter."""
        line, (x, y) = self._line, self._centre
        width, height = BAR_WIDTH * line, BAR_HEIGHT * line
        left, top = x - width / 2.0, y - 1.35 * self._radius - 3.0 * height
        self._pen.rectangle((left - line, top - line, left + width + line, top + height + line), fill=glass(INK, 0.85))
        colour = LOW if self._mech.hp < LOW_HP else TEXT
        self._pen.rectangle((left, top, left + max(width * self._mech.hp, line), top + height), fill=colour)
        self._pen.text(
            (left - 3.0 * line, top + height / 2.0),
            self._mech.label,
            fill=TEAMS[self._mech.side],
            font=font,
            anchor="rm",
            stroke_width=self._width(1.0),
            stroke_fill=INK,
        )

    def _placed(self, outline: tuple[Pixel, ...], centre: Pixel | None = None) -> list[Pixel]:
        length = FALLEN_LENGTH if Flag.FALLEN in self._mech.flags else 1.0
        flat = tuple((x * length, y) for x, y in outline)
        return place(flat, centre or self._centre, self._radius, self._mech.angle)

    def _colour(self) -> Colour:
        team = TEAMS[self._mech.side]
        if Flag.SHUTDOWN in self._mech.flags:
            return mix(team, SHUTDOWN, 0.8)
        return mix(team, INK, 0.4) if Flag.FALLEN in self._mech.flags else team

    def _draw_glow(self) -> None:
        """Draw heat as a red glow."""
        strength = min(max((self._mech.heat - WARM) / (1.0 - WARM), 0.0), 1.2)
        for ring in range(GLOW_RINGS) if strength > 0.0 else ():
            radius = self._radius * (1.0 + 0.9 * (GLOW_RINGS - ring) / GLOW_RINGS)
            self._pen.ellipse(round_box(self._centre, radius), fill=glass(HEAT, 0.17 * strength))

    def _draw_broken_ring(self, share: float, colour: Colour) -> None:
        box = round_box(self._centre, share * self._radius)
        for start in range(0, 360, 60):
            self._pen.arc(box, start, start + 38, fill=glass(colour, 0.9), width=self._width(1.6))

    def _draw_brackets(self, share: float, colour: Colour) -> None:
        (x, y), reach, arm = self._centre, share * self._radius, 0.55 * self._radius
        for right in (-1.0, 1.0):
            for down in (-1.0, 1.0):
                corner = (x + right * reach, y + down * reach)
                ends = (corner[0] - right * arm, corner[1]), corner, (corner[0], corner[1] - down * arm)
                self._pen.line(ends, fill=colour, width=self._width(1.6))

    def _cross(self, share: float, slope: float) -> list[Pixel]:
        (x, y), reach = self._centre, share * self._radius
        return [(x - reach, y - slope * reach), (x + reach, y + slope * reach)]

    def _width(self, lines: float) -> int:
        return max(1, round(lines * self._line))
