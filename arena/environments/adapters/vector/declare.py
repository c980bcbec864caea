"""Environment spec of a vector game, derived from an instance."""

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

import torch
from gymnasium import spaces

from arena.environments.adapters.calls import RESET, game_errors, unpack
from arena.environments.adapters.sides import DEFAULT_DECISIONS, REASONS
from arena.environments.adapters.spaces.actions import bounds_of, factors_of, heads_for
from arena.environments.adapters.spaces.flatten import ACTION_MASK, flatten_space
from arena.environments.adapters.vector.game import Autoreset, TensorGame
from arena.environments.spec import EnvironmentSpec, ObservationBlock
from arena.errors import GameError


@dataclass(frozen=True)
class Declared:
    """A vector game with its environment spec.

    Attributes:
        game: The game.
        spec: Its environment spec.
        autoreset: Its autoreset mode.
        paths: Key of each part of an observation, in the order of the spec's blocks. None for a single part.
        space: Action space of one agent.
        tensors: Whether the game takes torch tensors rather than NumPy arrays.
    """

    game: TensorGame
    spec: EnvironmentSpec
    autoreset: Autoreset
    paths: tuple[str | None, ...]
    space: spaces.Space[Any]
    tensors: bool


def inspect_game(name: str, game: TensorGame) -> Declared:
    """Open a game with one match and derive its environment spec.

    Raises:
        ArenaError: It is not a vector game, or its spaces have no fixed size.
    """
    made = game.open(name, num_envs=1, device="cpu")
    autoreset = game.autoreset_of(name, made)
    parts = dict(_parts(name, made.observation_space))
    if isinstance(made.action_space, spaces.Dict | spaces.Tuple):
        raise GameError(
            f"{name} acts in a {type(made.action_space).__name__} space: make it Discrete, MultiDiscrete, MultiBinary "
            "or a bounded Box of one agent"
        )
    factors = factors_of(made.action_space, "of either side")
    return Declared(
        game=game,
        spec=EnvironmentSpec(
            name=name,
            agents_per_side=game.agents_per_side,
            roles=("player",) * game.num_agents,
            observation=(*parts.values(), ObservationBlock("away", (1,), 0.0, 1.0)),
            heads=heads_for({"player": factors}, masked=_masks_actions(name, game, made, autoreset)),
            max_decisions=_longest(name, game, made),
            # agents in a row that waits for its reset have no turn: rewards and ends still belong to their last one
            turn_based=game.turn_based or autoreset is Autoreset.NEXT_STEP,
            reproducible=game.reproducible and autoreset is Autoreset.DISABLED,
            limit_decides=False,
            reasons=REASONS,
            rules={"scoring": dict(game.scoring.rule), "actions": bounds_of(made.action_space)},
            alike_sides=_alike_sides(game),
            zero_sum=game.zero_sum,
            chance=game.chance,
        ),
        autoreset=autoreset,
        paths=tuple(parts),
        space=made.action_space,
        tensors=game.takes_device,
    )


def split(name: str, result: Any) -> tuple[Any, Mapping[str, Any]]:  # noqa: ANN401  result of `reset`
    """Return observations and info of a reset; the info is empty if the game omits it.

    Raises:
        ArenaError: The result has more parts, or the info is not a dictionary.
    """
    if not isinstance(result, tuple):
        return result, {}
    seen, info = unpack(name, "reset", result, RESET)
    return seen, info_of(name, "reset", info)


def info_of(name: str, call: str, info: Any) -> Mapping[str, Any]:  # noqa: ANN401  any value
    """Return the info of a call.

    Raises:
        ArenaError: It is not a dictionary.
    """
    if not isinstance(info, Mapping):
        raise GameError(
            f"{name} returns a {type(info).__name__} as info from {call}: return one dictionary for all matches, also "
            "an empty one"
        )
    return info


def _alike_sides(game: TensorGame) -> bool | None:
    """Return whether the sides are symmetric; None if turn order decides.

    All agents have the same spaces, so sides of equal size in a simultaneous game are symmetric.
    """
    if game.alike_sides is not None:
        return game.alike_sides
    return True if not game.turn_based and len(set(game.agents_per_side)) == 1 else None


def _longest(name: str, game: TensorGame, made: Any) -> int:  # noqa: ANN401  any game object
    """Return the longest match, in decisions."""
    limit = game.max_decisions or getattr(made, "max_decisions", DEFAULT_DECISIONS)
    if isinstance(limit, bool) or not isinstance(limit, SupportsIndex) or operator.index(limit) < 1:
        raise GameError(f"{name} declares max_decisions {limit!r}: give a whole number of at least 1")
    return operator.index(limit)


def _masks_actions(name: str, game: TensorGame, made: Any, autoreset: Autoreset) -> bool:  # noqa: ANN401
    """Return whether the game provides an action mask."""
    if isinstance(made.observation_space, spaces.Dict) and ACTION_MASK in made.observation_space.spaces:
        return True
    seeds = torch.zeros(1, dtype=torch.int64)
    with game_errors(name, "be reset"):
        by_row = seeds if game.takes_device else seeds.numpy()
        result = made.reset(seed=by_row if autoreset is Autoreset.DISABLED else 0)
    _, info = split(name, result)
    return ACTION_MASK in info


def _parts(name: str, space: spaces.Space[Any]) -> Iterator[tuple[str | None, ObservationBlock]]:
    """Yield the observation blocks, including images and sets, with the key of each."""
    inside = space.items() if isinstance(space, spaces.Dict) else [("observation", space)]
    for called, inner in inside:
        if called != ACTION_MASK and not isinstance(inner, spaces.Box | spaces.MultiBinary):
            raise GameError(
                f"{name} shows {called} as a {type(inner).__name__} space: give a Box or a MultiBinary space of one "
                "agent, or a Dict of these; choices are shown one-hot"
            )
    for part in flatten_space(space, name):
        yield part.path[0] if part.path else None, part.block
