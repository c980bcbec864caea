"""Description of a vector game by its author. Torch-free."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from arena.environments.adapters.calls import game_errors
from arena.environments.adapters.sides import HigherReturn, Scoring
from arena.environments.spec import SIDES
from arena.errors import GameError, InputError


class Autoreset(StrEnum):
    """How the next match of a row starts: Gymnasium's `AutoresetMode`."""

    DISABLED = "disabled"
    """Disabled: the caller resets rows by `reset(seed=SEEDS, options={"reset_mask": ROWS})`, reproducibly by seed."""

    SAME_STEP = "same_step"
    """The step that ends a match returns the first observation of the next one."""

    NEXT_STEP = "next_step"
    """The step after the end resets the row and ignores its actions."""


@dataclass(frozen=True)
class TensorGame:
    """A game that steps E matches of two sides at once.

    Attributes:
        make: Constructor with the parameter `num_envs`, and `device` if the game uses torch tensors and not NumPy
            arrays.
        agents_per_side: (home, away) numbers of agents. Home's come first.
        autoreset: Autoreset mode. None for the game's `metadata["autoreset_mode"]`, or `DISABLED`.
        turn_based: Whether an inactive agent waits for its turn. Otherwise it is out of the game.
        max_decisions: Longest match, in decisions. None for the game's own `max_decisions`, or 1,000.
        scoring: Derives the score if the game does not provide `info["score"]`.
        reproducible: Whether seed and actions determine a match. Always false with autoreset.
        alike_sides: Whether the sides are symmetric, so that players need no rating per side. None derives it: sides of
            equal size that act simultaneously are symmetric. Use True also for turn-based games with a random first
            player, False if one side has an advantage.
        zero_sum: Whether the rewards of a match sum to 0 over all agents. None if unknown.
        chance: Whether the game is stochastic, so that a match depends on its seed. None if unknown.
    """

    make: Callable[..., Any]
    agents_per_side: tuple[int, int] = (1, 1)
    autoreset: Autoreset | None = None
    turn_based: bool = False
    max_decisions: int | None = None
    scoring: Scoring = field(default_factory=HigherReturn)
    reproducible: bool = True
    alike_sides: bool | None = None
    zero_sum: bool | None = None
    chance: bool | None = None

    def __post_init__(self) -> None:
        if len(self.agents_per_side) != SIDES or min(self.agents_per_side) < 1:
            raise InputError(
                f"TensorGame was given agents_per_side={self.agents_per_side}: a match has two sides of at least 1"
            )
        if self.max_decisions is not None and self.max_decisions < 1:
            raise InputError(f"TensorGame was given max_decisions={self.max_decisions}: give at least 1")

    @property
    def num_agents(self) -> int:
        """N, the number of agents of both sides."""
        return sum(self.agents_per_side)

    @property
    def takes_device(self) -> bool:
        """Whether the constructor takes a device, which means that the game uses tensors."""
        return "device" in inspect.signature(self.make).parameters

    def open(self, name: str, *, num_envs: int, device: str) -> Any:  # noqa: ANN401  any game object
        """Create the game.

        Raises:
            ArenaError: The game runs only on the CPU, or lacks a part of the interface.
        """
        if not self.takes_device and device != "cpu":
            raise InputError(f"{name} was asked for on {device}, but its maker takes no `device`: leave it on cpu")
        with game_errors(name, "be made"):
            made = self.make(num_envs=num_envs, **({"device": device} if self.takes_device else {}))
        if missing := [
            each for each in ("observation_space", "action_space", "reset", "step") if not hasattr(made, each)
        ]:
            raise GameError(
                f"{name} makes a {type(made).__name__}, which is not a tensor game (it has no {', '.join(missing)}): "
                "add them (docs/guides/games/tensors.md)"
            )
        return made

    def autoreset_of(self, name: str, made: Any) -> Autoreset:  # noqa: ANN401
        """Return how matches start.

        Raises:
            ArenaError: The game's metadata names an unknown mode.
        """
        if self.autoreset is not None:
            return self.autoreset
        metadata: Mapping[str, Any] = getattr(made, "metadata", None) or {}
        mode = metadata.get("autoreset_mode")
        value = str(getattr(mode, "value", mode) or Autoreset.DISABLED).lower().replace("_", "")
        known = {each.replace("_", ""): each for each in Autoreset}
        if value not in known:
            raise GameError(f"{name} declares autoreset_mode {mode!r}: give a mode of gymnasium.vector.AutoresetMode")
        return known[value]


def as_tensor_game(found: Any) -> TensorGame | None:  # noqa: ANN401  any object
    """Return a `TensorGame`, or a callable with `num_envs` but not `name`, as a vector game; None for others."""
    if isinstance(found, TensorGame):
        return found
    if not callable(found):
        return None
    takes = inspect.signature(found).parameters
    return TensorGame(found) if "num_envs" in takes and "name" not in takes else None
