"""Games written in JAX: the interfaces of pgx, JaxMARL and Gymnax, stepped in batches and shared with torch."""

from arena.environments.adapters.jax.batch import vector_game
from arena.environments.adapters.jax.functional import FunctionalGame, Transition, View
from arena.environments.adapters.jax.gymnax import from_gymnax
from arena.environments.adapters.jax.jaxmarl import from_jaxmarl
from arena.environments.adapters.jax.pgx import from_pgx

__all__ = ["FunctionalGame", "Transition", "View", "from_gymnax", "from_jaxmarl", "from_pgx", "vector_game"]
