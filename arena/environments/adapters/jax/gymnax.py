"""Games of the Gymnax interface: one agent, played by two sides next to each other."""

from typing import Any

import jax
import jax.numpy as jnp

from arena.environments.adapters.jax.batch import vector_game
from arena.environments.adapters.jax.functional import FunctionalGame, State, Transition, View, side_by_side
from arena.environments.adapters.jax.spaces import to_gymnasium
from arena.environments.adapters.vector.game import TensorGame

UNLIMITED = 2**31 - 1
"""Gymnax merges its time limit with `done`: the game is played without, and the arena truncates at the limit."""


def from_gymnax(env: Any, params: Any = None, **declared: Any) -> TensorGame:  # noqa: ANN401  any environment object
    """Return a Gymnax environment as a vector game of two sides.

    Each side plays its own copy of the same episode with the same luck, and the higher return wins.

    Args:
        env: A `gymnax.environments.environment.Environment`, or any object of the same interface.
        params: Its parameters. None for `env.default_params`.
        **declared: Fields of `TensorGame` that are to differ, such as `max_decisions`.
    """
    given = env.default_params if params is None else params
    played = given.replace(max_steps_in_episode=UNLIMITED)

    def reset(key: jax.Array) -> tuple[State, View]:
        observation, state = env.reset_env(key, played)
        return state, _view(observation)

    def step(key: jax.Array, before: State, actions: jax.Array) -> Transition:
        observation, state, reward, done, _ = env.step_env(key, before, actions[0], played)
        return Transition(state, _view(observation), jnp.reshape(reward, (1,)), done, jnp.zeros((), bool))

    game = FunctionalGame(
        reset,
        step,
        to_gymnasium(env.observation_space(given)),
        to_gymnasium(env.action_space(given)),
        int(given.max_steps_in_episode),
    )
    return vector_game(side_by_side(game), **declared)


def _view(observation: jax.Array) -> View:
    return View(observation[None], None, jnp.ones(1, bool))
