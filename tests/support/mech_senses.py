"""Scenes of few mechs, and what of them is perceived, block by block."""

import math
from dataclasses import replace

import torch
from mech_scene import EAST, Scene, composition

from arena.environments.base import StepResult
from arena.environments.mech.config.rewards import RewardWeights
from arena.environments.mech.config.scenario import ObservationMode
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.maps.pool import build_pool
from arena.environments.mech.observation_spec import (
    CONDITION_FEATURES,
    CONTACT_FEATURES,
    EDGE_FEATURES,
    MOTION_FEATURES,
    PANEL_FEATURES,
    SENSOR_FEATURES,
    ZONE_FEATURES,
)

DUEL = [("medium",)]
DIAGONAL = 60.0 * math.sqrt(2.0)
WALL = ((range(-1, 1), range(-30, 30)), 10)
"""Cells from south to north through the middle of the map, higher than all eyes."""
FEATURES = {
    "condition": CONDITION_FEATURES,
    "motion": MOTION_FEATURES,
    "zone": ZONE_FEATURES,
    "edge": EDGE_FEATURES,
    "sensors": SENSOR_FEATURES,
    "panel": PANEL_FEATURES,
}


def at(x: float, y: float, heading: tuple[float, float] = EAST, z: float = 0.0, **arrays: float) -> dict:
    return {"position": (x, y, z), "heading": heading, **arrays}


def full_scene(packs: list, placed: dict) -> Scene:
    """A scene on open ground in which everybody is seen."""
    config = replace(composition(*packs), observation_mode=ObservationMode.FULL)
    return Scene(MechEnvironment(config, RewardWeights(), num_envs=1, device="cpu", seed=0), build_pool(config), placed)


def read(scene: Scene, step: StepResult, name: str, mech: int = 0) -> torch.Tensor:
    """A block of what a mech perceived before any reset."""
    block = next(block for block in scene.env.spec.observation if block.name == name)
    return step.final_observation.values[0, mech, scene.env.spec.layout[name]].view(block.shape)


def feel(scene: Scene, step: StepResult, block: str, mech: int = 0) -> dict[str, float]:
    """A block's features by name."""
    return dict(zip(FEATURES[block], read(scene, step, block, mech).tolist(), strict=True))


def contacts(scene: Scene, step: StepResult, mech: int = 0) -> list[dict[str, float]]:
    """Features by name of the contacts that a mech has."""
    table, mask = read(scene, step, "contacts", mech), read(scene, step, "contact_mask", mech)
    used = int(mask.sum())
    assert mask.tolist() == [1.0] * used + [0.0] * (len(mask) - used)
    assert not table[used:].any()
    return [dict(zip(CONTACT_FEATURES, row.tolist(), strict=True)) for row in table[:used]]


def mask(step: StepResult, head: str, mech: int = 0) -> list[bool]:
    return step.final_observation.masks[head][0, mech].tolist()


def hang_smoke(scene: Scene, x: float, y: float, z: float = 2.0) -> None:
    scene["smoke_centre"][0, 0] = torch.tensor([x, y, z])
    scene["smoke_left"][0, 0] = 9
