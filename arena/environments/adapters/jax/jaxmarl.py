"""Games of the JaxMARL interface: named agents that act at once, dictionaries of observations and rewards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from arena.environments.adapters.jax.batch import vector_game
from arena.environments.adapters.jax.functional import FunctionalGame, State, Transition, View
from arena.environments.adapters.jax.spaces import to_gymnasium
from arena.environments.adapters.sides import TwoSided, assign_sides
from arena.environments.adapters.vector.game import TensorGame
from arena.errors import GameError


def from_jaxmarl(
    env: Any,  # noqa: ANN401  any environment object
    *,
    home: Sequence[str] = (),
    away: Sequence[str] = (),
    **declared: Any,  # noqa: ANN401  fields of TensorGame
) -> TensorGame:
    """Return a JaxMARL environment as a vector game of two sides.

    Agents with shorter observations see zeros behind them, and a mask forbids the options that only others have.
    An episode that ends at the environment's `max_steps` is truncated, any other is terminated.

    Args:
        env: A `jaxmarl.environments.MultiAgentEnv`, or any object of the same interface.
        home: Agents of the home side. Empty for both if there are two agents, or two prefixes in their names.
        away: Agents of the away side.
        **declared: Fields of `TensorGame` that are to differ, such as `max_decisions`.

    Raises:
        ArenaError: The agents make no two sides, or their spaces cannot be brought to one.
    """
    sides = assign_sides(type(env).__name__, tuple(env.agents), TwoSided(lambda: env, home, away))
    adapter = _Adapter.of(env, (*sides[0], *sides[1]))
    game = FunctionalGame(adapter.reset, adapter.step, adapter.observation_space, adapter.action_space, adapter.limit)
    one_size = len(sides[0]) == len(sides[1])
    defaults = {"agents_per_side": (len(sides[0]), len(sides[1])), "alike_sides": one_size and adapter.alike}
    return vector_game(game, **defaults | declared)


@dataclass(frozen=True)
class _Adapter:
    """Calls an environment with the agents in the order of their sides.

    Attributes:
        env: The environment.
        agents: Names, home's first.
        observation_space: Holds every agent's observation.
        action_space: Holds every agent's action.
        options: (N, K) which options each agent has. None if the space is not Discrete.
        alike: Whether all agents have the same spaces.
        limit: The environment's time limit. None if it has none.
    """

    env: Any
    agents: tuple[str, ...]
    observation_space: spaces.Box
    action_space: spaces.Space[Any]
    options: np.ndarray[Any, np.dtype[np.bool_]] | None
    alike: bool
    limit: int | None

    @classmethod
    def of(cls, env: Any, agents: tuple[str, ...]) -> "_Adapter":  # noqa: ANN401
        seen = [to_gymnasium(env.observation_space(agent)) for agent in agents]
        acts = [to_gymnasium(env.action_space(agent)) for agent in agents]
        alike = all(each == seen[0] for each in seen) and all(each == acts[0] for each in acts)
        limit = getattr(env, "max_steps", None)
        action_space, options = _widest(agents, acts)
        return cls(env, agents, _longest(agents, seen), action_space, options, alike, limit)

    def reset(self, key: jax.Array) -> tuple[State, View]:
        """Open an episode."""
        observations, state = self.env.reset(key)
        return state, self._view(observations, state, jnp.ones(len(self.agents), bool))

    def step(self, key: jax.Array, before: State, actions: jax.Array) -> Transition:
        """Play one decision of all agents."""
        given = dict(zip(self.agents, actions, strict=True))
        observations, state, rewards, dones, _ = self.env.step_env(key, before, given)
        over = jnp.asarray(dones["__all__"])
        late = jnp.zeros((), bool)
        if self.limit is not None and hasattr(state, "step"):
            late = over & (state.step >= self.limit)
        done = jnp.stack([jnp.asarray(dones[agent]) for agent in self.agents])
        view = self._view(observations, state, ~done | late)
        return Transition(state, view, jnp.stack([rewards[agent] for agent in self.agents]), over & ~late, late)

    def _view(self, observations: Mapping[str, jax.Array], state: State, active: jax.Array) -> View:
        shape = self.observation_space.shape
        seen = [observations[agent] for agent in self.agents]
        padded = [
            jnp.pad(each, [(0, size - own) for own, size in zip(each.shape, shape, strict=True)]) for each in seen
        ]
        return View(jnp.stack(padded), self._mask(state), active)

    def _mask(self, state: State) -> jax.Array | None:
        """Options that the environment allows, or those that each agent has if they are not the same for all."""
        if self.options is None:
            return None
        try:
            available = self.env.get_avail_actions(state)
        except (AttributeError, NotImplementedError):
            return None if self.options.all() else jnp.asarray(self.options)
        most = self.options.shape[1]
        return jnp.stack(
            [jnp.pad(jnp.asarray(available[agent], bool), (0, most - len(available[agent]))) for agent in self.agents]
        )


def _longest(agents: Sequence[str], seen: Sequence[spaces.Space[Any]]) -> spaces.Box:
    """Return a Box that holds every agent's observation."""
    boxes = [each for each in seen if isinstance(each, spaces.Box)]
    if len(boxes) < len(seen) or len({len(each.shape) for each in boxes}) > 1:
        raise GameError(f"{', '.join(agents)} observe {', '.join(map(str, seen))}: give Boxes of as many axes each")
    if all(each == boxes[0] for each in boxes):
        return boxes[0]
    shape = tuple(max(sizes) for sizes in zip(*(each.shape for each in boxes), strict=True))
    low, high = min(float(each.low.min()) for each in boxes), max(float(each.high.max()) for each in boxes)
    return spaces.Box(low, high, shape, np.float32)


def _widest(agents: Sequence[str], acts: Sequence[spaces.Space[Any]]) -> tuple[spaces.Space[Any], Any]:
    """Return the space that holds every agent's action, and which options each has if they are Discrete."""
    counts = [int(each.n) for each in acts if isinstance(each, spaces.Discrete)]
    if len(counts) == len(acts):
        return spaces.Discrete(max(counts)), np.arange(max(counts)) < np.array(counts)[:, None]
    if any(each != acts[0] for each in acts):
        raise GameError(f"{', '.join(agents)} act in {', '.join(map(str, acts))}: give all of them the same space")
    return acts[0], None
