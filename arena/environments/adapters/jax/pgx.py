"""Games of the pgx interface: `init(key)`, `step(state, action, key)` and a state that names the current player."""

import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from arena.environments.adapters.jax.batch import vector_game
from arena.environments.adapters.jax.functional import FunctionalGame, State, Transition, View, side_by_side
from arena.environments.adapters.vector.game import TensorGame
from arena.environments.spec import SIDES
from arena.errors import GameError

MAX_DECISIONS: Mapping[str, int] = MappingProxyType(
    {"connect_four": 42, "tic_tac_toe": 9, "kuhn_poker": 3, "leduc_holdem": 8, "hex": 122}
)
"""Longest match of games that pgx does not limit itself, by id."""


def from_pgx(env: Any, **declared: Any) -> TensorGame:  # noqa: ANN401  any environment object
    """Return a pgx game as a vector game.

    Two players take turns; pgx samples the first player, so the sides are symmetric. A game of one player is played
    side by side: each side has its own copy of the same episode, and the higher return wins.

    Args:
        env: A `pgx.Env`, or any object of the same interface.
        **declared: Fields of `TensorGame` that are to differ, such as `max_decisions`.

    Raises:
        ArenaError: It has more than two players, or observations of several arrays.
    """
    if env.num_players > SIDES:
        raise GameError(f"{env.id} has {env.num_players} players: a match has two sides, so choose a game of 1 or 2")
    state = jax.eval_shape(env.init, jnp.zeros(2, jnp.uint32))
    if not hasattr(state.observation, "shape"):
        raise GameError(f"{env.id} has observations of several arrays: wrap it so that `observe` returns one array")
    game = FunctionalGame(
        lambda key: _reset(env, key),
        lambda key, before, actions: _step(env, key, before, actions),
        _space(state.observation),
        spaces.Discrete(env.num_actions),
        MAX_DECISIONS.get(env.id),
    )
    if env.num_players == 1:
        return vector_game(side_by_side(game), **declared)
    return vector_game(game, **{"turn_based": True, "alike_sides": True} | declared)


def _reset(env: Any, key: jax.Array) -> tuple[State, View]:  # noqa: ANN401
    state = env.init(key)
    return state, _view(env, state)


def _step(env: Any, key: jax.Array, state: State, actions: jax.Array) -> Transition:  # noqa: ANN401
    after = env.step(state, actions[state.current_player], key)
    return Transition(after, _view(env, after), after.rewards, after.terminated, after.truncated)


def _view(env: Any, state: State) -> View:  # noqa: ANN401
    players = jnp.arange(env.num_players)
    with warnings.catch_warnings():  # pgx announces that it will remove the player from `observe`
        warnings.simplefilter("ignore", DeprecationWarning)
        observation = jnp.stack([env.observe(state, player) for player in players])
    active = (players == state.current_player) & ~state.terminated & ~state.truncated
    return View(observation, active[:, None] & state.legal_action_mask, active)


def _space(observation: jax.ShapeDtypeStruct) -> spaces.Box:
    """Booleans are 0 or 1; pgx declares no bounds for other numbers."""
    if observation.dtype == np.bool_:
        return spaces.Box(0, 1, observation.shape, np.int8)
    return spaces.Box(-np.inf, np.inf, observation.shape, np.float32)
