"""Colours. Home is blue and away orange, which are distinguishable with any colour vision (Okabe and Ito 2008)."""

from arena.replay.mech.events import Holder

Colour = tuple[int, int, int]

HOME: Colour = (86, 170, 245)
AWAY: Colour = (245, 152, 38)
TEAMS = (HOME, AWAY)
DEEP_TEAMS: tuple[Colour, Colour] = ((28, 74, 122), (122, 66, 8))
"""Team colours for large areas."""
NEUTRAL: Colour = (168, 172, 178)

HOLDERS: dict[Holder, tuple[Colour, Colour]] = {
    "home": (HOME, HOME),
    "away": (AWAY, AWAY),
    "contested": (HOME, AWAY),
    "nobody": (NEUTRAL, NEUTRAL),
}
"""Pairs of colours that alternate around the zone."""

BACKGROUND: Colour = (20, 22, 26)
PANEL: Colour = (30, 33, 39)
TROUGH: Colour = (48, 52, 60)
TEXT: Colour = (226, 229, 233)
FAINT: Colour = (138, 144, 154)
INK: Colour = (12, 13, 16)
WRECKAGE: Colour = (38, 36, 36)
SHUTDOWN: Colour = (110, 114, 122)

HEAT: Colour = (255, 72, 40)
LOW: Colour = (255, 214, 90)
PAINT: Colour = (232, 92, 214)
ECM: Colour = (176, 122, 255)
ECCM: Colour = (72, 214, 170)
SMOKE: Colour = (190, 194, 200)
BLAST: Colour = (255, 240, 190)

WEAPONS: dict[str, Colour] = {
    "laser": (255, 74, 98),
    "flamer": (255, 148, 46),
    "missile": (255, 244, 220),
    "gauss": (150, 240, 255),
    "autocannon": (255, 226, 110),
    "painter": PAINT,
}

LOW_GROUND: Colour = (66, 70, 66)
HIGH_GROUND: Colour = (176, 170, 154)
HIGHEST = 9.0
"""Height in metres of the brightest ground."""
MATERIALS: dict[str, Colour] = {
    "water": (34, 78, 88),
    "lava": (150, 36, 22),
    "debris": (92, 80, 66),
    "foliage": (50, 84, 54),
    "glass": (150, 190, 196),
}


def mix(first: Colour, second: Colour, share: float) -> Colour:
    """Mix two colours with a `share` of the second, clipped to [0, 1]."""
    part = min(max(share, 0.0), 1.0)
    red, green, blue = (round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return (red, green, blue)
