import jax
import jax.numpy as jnp
from gymnasium.spaces import Box, Discrete

from arena.environments.adapters.jax import FunctionalGame, Transition, View, vector_game


def reset(key):
    strength = jax.random.uniform(key, (2,), minval=0.5, maxval=1.0)
    state = (jnp.zeros(()), strength)
    return state, see(state)


def step(key, state, actions):
    rope, strength = state
    pulled = actions * strength
    strength = jnp.clip(strength + 0.1 - 0.1 * actions, 0.1, 1.0)
    rope = jnp.clip(rope + (pulled[0] - pulled[1]) / 8.0, -1.0, 1.0)
    won = (rope >= 1.0).astype(jnp.float32) - (rope <= -1.0)
    state = (rope, strength)
    return Transition(state, see(state), jnp.stack([won, -won]), terminated=won != 0.0, truncated=jnp.bool_(False))


def see(state):
    rope, strength = state
    observation = jnp.stack([jnp.stack([rope, strength[0], strength[1]]), jnp.stack([-rope, strength[1], strength[0]])])
    return View(observation, mask=None, active=jnp.ones(2, bool))


tug = vector_game(
    FunctionalGame(reset, step, Box(-1.0, 1.0, (3,)), Discrete(3), max_decisions=100),
    zero_sum=True,
)
