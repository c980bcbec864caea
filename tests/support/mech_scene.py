"""Scenes of the mech arena set by hand: a few mechs, the ground that a test needs, and the oracle looking on."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from mech_oracle.following import Follower
from mech_oracle.world import World
from mech_play import idle

from arena.environments.base import Actions, StepResult
from arena.environments.mech import env as simulation
from arena.environments.mech.config.constants import EWAR_OPTIONS, FOLIAGE, FOLIAGE_HEIGHT, GLASS, MOVES
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import MechConfig, Terrain
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.maps.pool import MapPool, build_pool

SIDE = 60
EAST, WEST, NORTH, SOUTH = (1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)

Cells = tuple[range, range]
"""Columns and rows, counted from the middle of the map: cell (0, 0) reaches from its centre 1 m east and north."""


class Scene:
    """One match with the mechs of `placed` (by index: position, heading, and any other array of theirs), nobody else.

    Every decision is compared with the oracle.
    """

    def __init__(self, env: MechEnvironment, pool: MapPool, placed: Mapping[int, Mapping[str, Any]]) -> None:
        self.env = env
        self._follower = Follower(env, World(env.config, pool))
        env.reset(torch.tensor([0]))
        for index in range(env.spec.num_agents):
            if index not in placed:
                self["hp"][index] = 0.0
        for index, values in placed.items():
            for name, value in values.items():
                self[name][index] = torch.as_tensor(value, dtype=self[name].dtype)
        self.play()

    def __getitem__(self, name: str) -> torch.Tensor:
        """The live array of that name."""
        return self.env.arrays[name][0]

    @property
    def happened(self) -> Mapping[str, int]:
        """What the oracle saw happen so far."""
        return self._follower.tally.seen

    def play(self, decisions: int = 1, **orders: Mapping[int, Any]) -> StepResult:
        """Play on; orders by head, then by mech: triggers and moves by name."""
        for _ in range(decisions):
            step = self._follower.step(told(self.env, orders))
        assert self._follower.tally.differences == []
        return step


def told(env: MechEnvironment, orders: Mapping[str, Mapping[int, Any]]) -> Actions:
    """Actions of one match; whatever is not ordered is 0 or off."""
    actions = idle(env.spec)
    for head, by_mech in orders.items():
        for index, order in by_mech.items():
            if head == "trigger":
                actions[head][0, index] = torch.tensor([name in order for name in TRIGGERS])
            elif head == "move":
                actions[head][0, index] = torch.tensor([order.get(name, 0.0) for name in MOVES])
            elif head == "ewar":
                actions[head][0, index] = EWAR_OPTIONS.index(order)
            else:
                actions[head][0, index] = torch.as_tensor(order)
    return actions


def composition(*packs: tuple[str, ...], terrain: Terrain = Terrain.OPEN) -> MechConfig:
    """Packs on a map that is large enough for five mechs a side."""
    return MechConfig("scene", packs, map_side=SIDE, limit_s=100.0, terrain=terrain)


def open_scene(packs: Sequence[tuple[str, ...]], placed: Mapping[int, Mapping[str, Any]]) -> Scene:
    """A scene on open ground."""
    config = composition(*packs)
    return Scene(MechEnvironment(config, RewardWeights(), num_envs=1, device="cpu", seed=0), build_pool(config), placed)


def built_scene(
    monkeypatch: Any,
    packs: Sequence[tuple[str, ...]],
    placed: Mapping[int, Mapping[str, Any]],
    heights: Sequence[tuple[Cells, int]] = (),
    materials: Sequence[tuple[Cells, int]] = (),
) -> Scene:
    """A scene on ground that is flat and plain but for the given cells; the last one that names a cell counts."""
    config = composition(*packs, terrain=Terrain.BROKEN)
    pool = _build(config, _paint(heights), _paint(materials))
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "build_pool", lambda _: pool)
        env = MechEnvironment(config, RewardWeights(), num_envs=1, device="cpu", seed=0)
    return Scene(env, pool, placed)


def _paint(areas: Sequence[tuple[Cells, int]]) -> np.ndarray:
    grid = np.zeros((SIDE, SIDE), dtype=np.uint8)
    for (columns, rows), value in areas:
        for row in rows:
            for column in columns:
                grid[SIDE // 2 + row, SIDE // 2 + column] = value
    return grid


def _build(config: MechConfig, solid: np.ndarray, material: np.ndarray) -> MapPool:
    sight = np.where(material == GLASS, 0, solid) + np.where(material == FOLIAGE, int(FOLIAGE_HEIGHT), 0)
    pool = build_pool(replace(config, terrain=Terrain.OPEN))
    maps = len(pool.spawn)

    def stacked(grid: np.ndarray) -> np.ndarray:
        return np.repeat(grid.astype(np.uint8)[None], maps, axis=0)

    return replace(
        pool,
        solid=stacked(solid),
        sight=stacked(sight),
        material=stacked(material),
        ground=np.stack([stacked(_dilated(solid, footprint)) for footprint in pool.footprints]),
        route=np.repeat(_straight_routes()[None], maps, axis=0),
        highest=np.full(maps, max(solid.max(), sight.max()), dtype=np.float32),
    )


def _dilated(solid: np.ndarray, footprint: int) -> np.ndarray:
    padded = np.pad(solid, footprint)
    reach = range(2 * footprint + 1)
    return np.max([padded[row : row + SIDE, column : column + SIDE] for row in reach for column in reach], axis=0)


def _straight_routes() -> np.ndarray:
    centres = np.arange(SIDE) + 0.5 - SIDE / 2
    y, x = np.meshgrid(centres, centres, indexing="ij")
    length = np.hypot(x, y)
    return np.stack([-x / length, -y / length, length], axis=-1).astype(np.float32)
