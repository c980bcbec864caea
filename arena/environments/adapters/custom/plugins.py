"""Games registered by installed packages."""

from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

GROUP = "echelon_league.environments"
"""Entry point group of games: a name without a colon, and `module:attribute`."""


@lru_cache(maxsize=1)
def plugins() -> dict[str, EntryPoint]:
    """Return all registered games by name."""
    return {point.name: point for point in entry_points(group=GROUP) if ":" not in point.name}
