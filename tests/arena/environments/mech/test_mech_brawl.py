"""Whole fights under random orders: nothing is lost, and a mirrored one goes the mirrored way."""

from collections.abc import Sequence

import pytest
import torch
from mech_range import NAMES, order, set_up

from arena.environments.base import Actions
from arena.environments.mech.config.scenario import Terrain
from arena.environments.mech.config.weapons import TRIGGERS, WEAPONS
from arena.environments.mech.env import MechEnvironment
from arena.environments.mech.kernels.combat.targeting import PAINTER

MIXED = ["heavy", "medium", "medium", "light", "scout"]


def brawl(pack: Sequence[str] = MIXED, num_envs: int = 1) -> MechEnvironment:
    """Ten a side within some metres of the map's centre, tough and cool enough to fight for a while."""
    generator = torch.Generator().manual_seed(5)
    places = {}
    for i in range(20):
        x, y, heading = (torch.rand(3, generator=generator) * torch.tensor([24.0, 24.0, 360.0])).tolist()
        places[i] = (x - 12.0, y - 12.0, heading)
    env = set_up([pack, pack], places, terrain=Terrain.BROKEN, num_envs=num_envs)
    env.hulls["dissipation"].fill_(60.0)
    env.arrays["hp"] *= 10.0
    return env


def random_orders(env: MechEnvironment, generator: torch.Generator) -> Actions:
    actions = order(env, {})
    shape = actions["move"].shape
    actions["move"] = 2.0 * torch.rand(shape, generator=generator) - 1.0
    actions["trigger"] = torch.rand(actions["trigger"].shape, generator=generator) < 0.6
    actions["trigger"][..., TRIGGERS.index("special")] = False
    actions["target"] = torch.randint(0, 1 + env.config.contacts, shape[:2], generator=generator)
    return actions


def test_all_lost_hit_points_are_dealt_or_burnt():
    env, generator = brawl(), torch.Generator().manual_seed(0)
    offered = torch.zeros(len(WEAPONS))
    env.arrays["hp"] /= 2.5
    for _ in range(60):
        before = env.arrays["hp"].clone()
        result = env.step(random_orders(env, generator))
        assert not result.terminated.any()
        lost = before - env.arrays["hp"]
        assert torch.allclose(lost, env.arrays["dealt"].sum(1) + env.arrays["terrain_damage"], atol=1e-3)
        assert (lost >= 0.0).all()
        killed = env.arrays["killed"].sum(1) > 0.0
        assert torch.equal(killed, (before > 0.0) & (env.arrays["hp"] == 0.0))
        offered += env.arrays["raw_damage"].sum((0, 1))
    assert (offered[: len(WEAPONS) - 1] > 0.0).all(), dict(zip(NAMES.values(), offered.tolist(), strict=False))
    assert offered[PAINTER] == 0.0


@pytest.mark.parametrize("pack", [MIXED, ["heavy"] * 5])
def test_mirrored_fight_is_mirrored_bit_for_bit(pack: list[str]):
    env, generator = brawl(pack, num_envs=2), torch.Generator().manual_seed(0)
    swap = torch.cat([torch.arange(10, 20), torch.arange(10)])
    env.hulls["rng_id"].copy_(env.hulls["slot_in_team"])
    env.arrays["seeds"].fill_(7)
    env.arrays["position"][1] = env.arrays["position"][0, swap] * torch.tensor([-1.0, -1.0, 1.0])
    env.arrays["heading"][1] = -env.arrays["heading"][0, swap]
    env.arrays["hp"][1] = env.arrays["hp"][0, swap]
    env.arrays["contact"].fill_(-1)
    hurt = 0.0
    for _ in range(60):
        actions = random_orders(env, generator)
        for action in actions.values():
            action[1] = action[0, swap]
        env.step(actions)
        env.arrays["timers"].fill_(0)
        for name in ("hp", "leg_hp", "heat", "stability", "timers", "fallen_ticks", "painted_ticks", "shell_reach"):
            assert torch.equal(env.arrays[name][1], env.arrays[name][0, swap]), name
        for name in ("dealt", "killed", "assists"):
            assert torch.equal(env.arrays[name][1], env.arrays[name][0, swap][:, swap]), name
        for name in ("position", "velocity", "shell_position", "shell_velocity"):
            flipped = env.arrays[name][0, swap] * torch.tensor([-1.0, -1.0, 1.0])
            assert torch.equal(env.arrays[name][1], flipped), name
        hurt += env.arrays["dealt"][0].sum().item()
    assert hurt > 500.0
