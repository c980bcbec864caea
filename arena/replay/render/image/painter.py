"""One moment of a match as an image: the map and the head-up display."""

from PIL import Image

from arena.replay.render.image.canvas import Canvas, load_font
from arena.replay.render.image.effects import draw_beam, draw_blasts, draw_impact, draw_shell, draw_smoke, draw_zone
from arena.replay.render.image.ground import draw_ground
from arena.replay.render.image.hud import Hud
from arena.replay.render.image.mechs import MechPainter
from arena.replay.render.interpolate import Interpolator
from arena.replay.render.scene import Scene

OVERSAMPLING = 2
"""Supersampling factor for antialiasing."""

LABEL = 8.5
"""Height of labels on the map, in thin lines."""


class Painter:
    """Draws the scenes of one recording; the map is a square of `map_size` pixels.

    Attributes:
        size: Width and height of every image, both even.
    """

    def __init__(self, stage: Interpolator, map_size: int) -> None:
        self._stage, self._field = stage, stage.recording.battlefield
        self._hud = Hud(stage, OVERSAMPLING * map_size)
        self._ground = draw_ground(self._field, OVERSAMPLING * map_size)
        width, height = self._hud.size
        self.size = (width // OVERSAMPLING, height // OVERSAMPLING)

    def draw(self, moment: float) -> Image.Image:
        """Draw the image of a moment, counted in frames."""
        scene = self._stage.at(moment)
        picture = self._hud.draw(scene)
        picture.paste(self._draw_map(scene), self._hud.map_corner)
        if moment >= self._stage.last:
            self._hud.draw_banner(picture)
        return picture.reduce(OVERSAMPLING)

    def _draw_map(self, scene: Scene) -> Image.Image:
        canvas = Canvas(self._ground.copy(), float(self._field.side))
        draw_zone(canvas, scene, self._field.zone_radius / 100.0)
        self._draw_mechs(canvas, scene)
        for beam in scene.beams:
            draw_beam(canvas, beam, scene)
        for shell in scene.shells:
            draw_shell(canvas, shell)
        for mech in scene.mechs:
            if mech.hurt > 0.0:
                draw_impact(canvas, scene, mech.agent)
        for cloud in scene.clouds:
            draw_smoke(canvas, cloud)
        draw_blasts(canvas, scene)
        return canvas.image

    def _draw_mechs(self, canvas: Canvas, scene: Scene) -> None:
        hulls = self._stage.recording.hulls
        painters = [(mech, MechPainter(canvas, mech, hulls[mech.role])) for mech in scene.mechs]
        for mech, painter in painters:
            if not mech.alive:
                painter.draw_wreck()
        living = sorted((pair for pair in painters if pair[0].alive), key=lambda pair: pair[0].z)
        for _, painter in living:
            painter.draw_body()
            painter.draw_marks()
        for _, painter in living:
            painter.draw_bar(load_font(round(LABEL * canvas.line)))
