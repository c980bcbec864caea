"""Effects between mechs: zone, beams, shells, smoke and blasts."""

import math

from arena.replay.mech.events import Intercept, Kill
from arena.replay.render.image.canvas import Canvas, between, dashes, glass, round_box
from arena.replay.render.palette import BLAST, DEEP_TEAMS, ECCM, HOLDERS, NEUTRAL, SMOKE, TEXT, WEAPONS, mix
from arena.replay.render.scene import SMOKE_RADIUS, Beam, Cloud, Scene, Shell

ZONE_ARCS = 24
PUFFS = (
    (0.0, 0.0, 0.75),
    (0.42, 0.1, 0.55),
    (-0.38, 0.2, 0.58),
    (0.1, -0.44, 0.55),
    (-0.12, 0.46, 0.5),
    (0.3, 0.4, 0.4),
)
"""Offsets and radii of a cloud's puffs, relative to its radius."""
BLAST_S, INTERCEPT_S = 1.0, 0.5
BLAST_RADIUS, INTERCEPT_RADIUS = 4.5, 5.5
"""Radii in metres."""


def draw_zone(canvas: Canvas, scene: Scene, radius: float) -> None:
    """Draw the zone: a disc in the holder's colour with a ring of arcs, alternating if contested."""
    pen, box = canvas.pen, round_box(canvas.spot(0.0, 0.0), radius * canvas.scale)
    tints = {"home": DEEP_TEAMS[0], "away": DEEP_TEAMS[1]}
    pen.ellipse(box, fill=glass(tints.get(scene.holder, NEUTRAL), 0.42 if scene.holder in tints else 0.13))
    step = 360.0 / ZONE_ARCS
    for arc in range(ZONE_ARCS):
        colour = HOLDERS[scene.holder][arc % 2]
        pen.arc(box, arc * step, arc * step + 0.72 * step, fill=colour, width=max(1, round(2.4 * canvas.line)))


def draw_beam(canvas: Canvas, beam: Beam, scene: Scene) -> None:
    """Draw a beam from shooter to target; a flamer's widens with distance."""
    shooter, target = scene.mechs[beam.shooter], scene.mechs[beam.target]
    start, end = canvas.spot(shooter.x, shooter.y), canvas.spot(target.x, target.y)
    strength = 1.0 - 0.55 * scene.progress
    pen, line, colour = canvas.pen, canvas.line, WEAPONS.get(beam.weapon, BLAST)
    if beam.weapon == "painter":
        for first, last in dashes(start, end, 8):
            pen.line((first, last), fill=glass(colour, strength), width=max(1, round(1.6 * line)))
    elif beam.weapon == "flamer":
        for share in (0.3, 0.5, 0.7, 0.9):
            pen.ellipse(round_box(between(start, end, share), 6.5 * line * share), fill=glass(colour, 0.55 * strength))
    else:
        pen.line((start, end), fill=glass(colour, 0.4 * strength), width=round(5.0 * line))
        pen.line((start, end), fill=glass(mix(colour, TEXT, 0.5), strength), width=max(1, round(1.6 * line)))


def draw_shell(canvas: Canvas, shell: Shell) -> None:
    """Draw a shell with its trail."""
    here, there = canvas.spot(shell.x, shell.y), canvas.spot(shell.from_x, shell.from_y)
    pen, line, colour = canvas.pen, canvas.line, WEAPONS.get(shell.weapon, BLAST)
    if shell.weapon == "missile":
        for puff in range(1, 6):
            spot = between(here, there, puff / 5.0)
            pen.ellipse(round_box(spot, (1.0 + 0.5 * puff) * line), fill=glass(SMOKE, 0.5 - 0.08 * puff))
        pen.ellipse(round_box(here, 3.6 * line), fill=glass(WEAPONS["flamer"], 0.8))
        pen.ellipse(round_box(here, 2.0 * line), fill=colour)
        return
    width = 2.6 if shell.weapon == "gauss" else 1.8
    pen.line((between(here, there, 0.6), here), fill=glass(colour, 0.55), width=max(1, round(width * line)))
    pen.ellipse(round_box(here, width * line), fill=colour)


def draw_smoke(canvas: Canvas, cloud: Cloud) -> None:
    """Draw a cloud of puffs."""
    for across, up, size in PUFFS:
        spot = canvas.spot(cloud.x + SMOKE_RADIUS * across, cloud.y + SMOKE_RADIUS * up)
        canvas.pen.ellipse(round_box(spot, SMOKE_RADIUS * size * canvas.scale), fill=glass(SMOKE, 0.34 * cloud.density))


def draw_impact(canvas: Canvas, scene: Scene, agent: int) -> None:
    """Draw sparks on a mech that is hit, in proportion to the damage."""
    mech = scene.mechs[agent]
    x, y = canvas.spot(mech.x, mech.y)
    reach = (3.0 + 0.9 * math.sqrt(mech.hurt)) * canvas.line
    for spark in range(6):
        angle = math.radians(60.0 * spark + 37.0 * (scene.frame % 7))
        tip = (x + 1.8 * reach * math.cos(angle), y + 1.8 * reach * math.sin(angle))
        canvas.pen.line(
            (between((x, y), tip, 0.45), tip),
            fill=glass(BLAST, 0.95 * (1.0 - scene.progress)),
            width=max(1, round(1.2 * canvas.line)),
        )


def draw_blasts(canvas: Canvas, scene: Scene) -> None:
    """Draw recently destroyed mechs and intercepted missiles."""
    for age_s, event in scene.recent:
        if isinstance(event, Kill) and age_s < BLAST_S:
            _draw_blast(canvas, scene, event.mech, age_s / BLAST_S)
        elif isinstance(event, Intercept) and age_s < INTERCEPT_S:
            mech, share = scene.mechs[event.mech], age_s / INTERCEPT_S
            box = round_box(canvas.spot(mech.x, mech.y), INTERCEPT_RADIUS * canvas.scale * (0.5 + 0.5 * share))
            canvas.pen.ellipse(box, outline=glass(ECCM, 0.8 * (1.0 - share)), width=max(1, round(1.5 * canvas.line)))


def _draw_blast(canvas: Canvas, scene: Scene, agent: int, share: float) -> None:
    spot = canvas.spot(scene.mechs[agent].x, scene.mechs[agent].y)
    radius, pen = BLAST_RADIUS * canvas.scale, canvas.pen
    fire = mix(BLAST, WEAPONS["flamer"], min(1.0, 1.6 * share))
    pen.ellipse(round_box(spot, radius * (0.35 + 0.35 * share)), fill=glass(fire, 0.85 * (1.0 - share)))
    pen.ellipse(round_box(spot, 0.25 * radius * (1.0 - share)), fill=glass(TEXT, 1.0 - share))
    ring = round_box(spot, radius * (0.3 + 0.9 * math.sqrt(share)))
    pen.ellipse(ring, outline=glass(BLAST, 0.9 * (1.0 - share)), width=max(1, round(2.0 * canvas.line)))
