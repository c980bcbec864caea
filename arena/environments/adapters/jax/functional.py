"""One match as pure functions: the common form of pgx, JaxMARL and Gymnax games before they are batched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from gymnasium import spaces

State = Any
"""Any pytree of arrays."""


class View(NamedTuple):
    """Observation of the N agents of one match.

    Attributes:
        observation: (N, ...) observation of each agent.
        mask: (N, K) legal actions. None if every action is always legal.
        active: (N,) true for agents that act now.
    """

    observation: jax.Array
    mask: jax.Array | None
    active: jax.Array


class Transition(NamedTuple):
    """Result of one decision of one match."""

    state: State
    view: View
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array


@dataclass(frozen=True)
class FunctionalGame:
    """A game of N agents as pure functions of one match.

    Attributes:
        reset: Maps a key to the first state and view.
        step: Maps a key, a state and actions (N, ...) to a transition.
        observation_space: Space of one agent's observation.
        action_space: Space of one agent's action.
        max_decisions: Longest match, in decisions. None if the game does not say.
    """

    reset: Callable[[jax.Array], tuple[State, View]]
    step: Callable[[jax.Array, State, jax.Array], Transition]
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    max_decisions: int | None = None


def side_by_side(game: FunctionalGame) -> FunctionalGame:
    """Turn a game of one agent into a match of two: both sides play a copy of the same episode with the same luck.

    A side whose copy has terminated waits, with reward 0, until the other's has. The match ends when both have, or
    when a time limit cuts the last one off.
    """

    def reset(key: jax.Array) -> tuple[State, View]:
        state, view = game.reset(key)
        both = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
        return (both, jnp.zeros(2, bool)), jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), view)

    def step(key: jax.Array, state: State, actions: jax.Array) -> Transition:
        before, finished = state
        after = jax.vmap(game.step, in_axes=(None, 0, 0))(key, before, actions[:, None])
        playing = ~finished & ~after.terminated
        view = View(
            after.view.observation[:, 0],
            None if after.view.mask is None else after.view.mask[:, 0],
            playing,
        )
        return Transition(
            (select(finished, before, after.state), ~playing),
            view,
            jnp.where(finished, 0.0, after.rewards[:, 0]),
            ~playing.any(),
            (playing & after.truncated).any(),
        )

    return replace(game, reset=reset, step=step)


def select(rows: jax.Array, chosen: State, others: State) -> State:
    """Choose the rows of one pytree or the other along the leading axis."""

    def choose(one: jax.Array, other: jax.Array) -> jax.Array:
        return jnp.where(rows.reshape(rows.shape + (1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(choose, chosen, others)
