"""Random numbers of a match."""

from arena.seeding import derive

ZONE, MAP, SIDEWAYS, DEPTH, HEADING, FIRE, SMOKE, LEG, AMS, WRECK = range(10)
AHEAD_NOISE, LEFT_NOISE, HP_NOISE, HEAT_NOISE, SPREAD = range(10, 15)


def uniform(seed: int, purpose: int, tick: int, key: int) -> float:
    """The number in [0, 1) that a match holds for a purpose, a tick and a mech or pair."""
    return (derive(seed, purpose, tick, key) >> 39) / 2**24


def either_way(seed: int, purpose: int, tick: int, key: int) -> float:
    """The same, spread over [-1, 1)."""
    return 2.0 * uniform(seed, purpose, tick, key) - 1.0


def pair(viewer: int, other: int) -> int:
    """Key of what one mech draws about another, from their streams."""
    return 64 * viewer + other
