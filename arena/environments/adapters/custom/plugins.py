"""Games that installed packages bring under a name."""

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "echelon_league.environments"
"""Entry points that are games: a name without a colon, and `module:attribute`."""


@lru_cache(maxsize=1)
def plugins() -> dict[str, EntryPoint]:
    """Every one of them, by name."""
    return {point.name: point for point in entry_points(group=GROUP) if ":" not in point.name}
