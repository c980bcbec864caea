"""Conversion of Gymnax and JaxMARL spaces to Gymnasium's, by their attributes."""

from typing import Any

import numpy as np
from gymnasium import spaces

from arena.errors import GameError


def to_gymnasium(space: Any) -> spaces.Space[Any]:  # noqa: ANN401  a space of Gymnax or of JaxMARL
    """Return the Gymnasium space of a Discrete, MultiDiscrete or Box space.

    Raises:
        ArenaError: It is of another type.
    """
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "num_categories"):
        return spaces.MultiDiscrete(np.asarray(space.num_categories))
    if hasattr(space, "low") and hasattr(space, "high"):
        shape = tuple(space.shape)
        low, high = (np.broadcast_to(np.asarray(bound, np.float32), shape) for bound in (space.low, space.high))
        return spaces.Box(low, high, shape, np.float32)
    raise GameError(f"a {type(space).__name__} space is of no known kind: give Discrete, MultiDiscrete or Box")
