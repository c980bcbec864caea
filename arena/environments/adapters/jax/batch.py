"""E matches of a functional game as a vector game: one compiled call a decision, tensors shared by DLPack."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from arena.environments.adapters.jax.functional import FunctionalGame, State, View, select
from arena.environments.adapters.vector.game import TensorGame
from arena.errors import InputError


class CompiledGame:
    """The compiled batch functions of one game; all batches of the game share them, so each size compiles once."""

    def __init__(self, game: FunctionalGame) -> None:
        self.game = game
        self.reset = jax.jit(self._reset)
        self.reopen = jax.jit(self._reopen)
        self.step = jax.jit(self._step)

    def _reset(self, seeds: jax.Array) -> tuple[State, View]:
        """Open every match from its seed, given as (E, 2) 32-bit words of the key."""
        keys = jax.lax.bitcast_convert_type(seeds, jnp.uint32)
        state, view = jax.vmap(self.game.reset)(keys)
        return (state, keys, jnp.zeros(len(keys), jnp.int32)), view

    def _reopen(self, seeds: jax.Array, rows: jax.Array, state: State) -> tuple[State, View]:
        """Open the next match of some rows; the views of other rows have no meaning."""
        opened, view = self._reset(seeds)
        return select(rows, opened, state), view

    def _step(self, state: State, actions: jax.Array) -> tuple[State, tuple[View, jax.Array, jax.Array, jax.Array]]:
        """Play one decision; chance in decision t follows from the match's key and t."""
        before, keys, decisions = state
        after = jax.vmap(self.game.step)(jax.vmap(jax.random.fold_in)(keys, decisions + 1), before, actions)
        return (after.state, keys, decisions + 1), after[1:]


class JaxBatch:
    """E matches with the interface of a vector game; see docs/guides/games/tensors.md."""

    def __init__(self, compiled: CompiledGame, num_envs: int, device: str) -> None:
        self.observation_space = compiled.game.observation_space
        self.action_space = compiled.game.action_space
        self._compiled = compiled
        self._device = _device(device)
        self._state: State = None

    def reset(self, seed: Tensor, options: Mapping[str, Tensor] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        """Open all matches, or those that `options["reset_mask"]` names."""
        seeds = self._to_jax(seed.view(torch.int32).reshape(-1, 2))  # the 64 bits of a seed are a key's two words
        if options is None:
            self._state, view = self._compiled.reset(jax.device_put(seeds, self._device))
        else:
            self._state, view = self._compiled.reopen(seeds, self._to_jax(options["reset_mask"]), self._state)
        return _shown(view)

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Play one decision of every match."""
        taken = actions.int() if actions.dtype == torch.int64 else actions  # JAX has 32-bit integers by default
        self._state, (view, rewards, terminated, truncated) = self._compiled.step(self._state, self._to_jax(taken))
        observation, info = _shown(view)
        return observation, from_dlpack(rewards), from_dlpack(terminated), from_dlpack(truncated), info

    def _to_jax(self, tensor: Tensor) -> Any:  # noqa: ANN401  an array of NumPy or of JAX
        """Share a tensor with compiled functions; on a CPU they take NumPy arrays in a tenth of DLPack's time."""
        return tensor.numpy() if self._device.platform == "cpu" else jnp.from_dlpack(tensor.contiguous())


def vector_game(game: FunctionalGame, **declared: Any) -> TensorGame:  # noqa: ANN401  fields of TensorGame
    """Return a functional game as a vector game; `declared` are further fields of `TensorGame`."""
    declared.setdefault("max_decisions", game.max_decisions)
    return TensorGame(partial(JaxBatch, CompiledGame(game)), **declared)


def _shown(view: View) -> tuple[Tensor, dict[str, Tensor]]:
    info = {"active": from_dlpack(view.active)}
    if view.mask is not None:
        info["action_mask"] = from_dlpack(view.mask)
    return from_dlpack(view.observation), info


def _device(name: str) -> Any:  # noqa: ANN401  JAX's class of devices is private
    """Return JAX's device for torch's name.

    Raises:
        ArenaError: This installation of JAX has no such device.
    """
    kind, _, index = name.partition(":")
    platform = {"cuda": "gpu"}.get(kind, kind)
    try:
        return jax.devices(platform)[int(index or 0)]
    except (RuntimeError, IndexError) as error:
        raise InputError(f"JAX has no device {name!r} ({error}): install jax for it, or use cpu") from error
