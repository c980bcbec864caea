import math
from typing import Any

import pytest
import torch
from mech_play import RandomOrders, brawl, idle

from arena.environments import make
from arena.environments.mech.config.constants import DECISION_S
from arena.environments.mech.config.weapons import WEAPONS
from arena.environments.metrics import meter_of

PRESETS = ("mech-duel", "mech-pack", "mech-company")
WEAPON = {weapon.name: place for place, weapon in enumerate(WEAPONS)}


def duel(decisions: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, float]]:
    """Measure a duel whose arrays are written by hand: for each decision what each of the two mechs holds."""
    env = make("mech-duel", num_envs=1)
    env.reset(torch.tensor([0]))
    played = env.step(idle(env.spec))
    meter = meter_of(env)
    for number, told in enumerate(decisions):
        written = {
            "acted": [True, True],
            "raw_damage": 0.0,
            "dealt": 0.0,
            "hitscan_hits": -1,
            "velocity": 0.0,
            "heat": 0.0,
        }
        for name, value in (written | told).items():
            array = env.arrays[name]
            array.copy_(torch.as_tensor(value, dtype=array.dtype).expand_as(array))
        env.arrays["ended"].fill_(number == len(decisions) - 1)
        env.on_decided[0]()
    values = meter.stepped({}, played)[0].tolist()
    names = [measure.name for measure in meter.measures]
    home, away = (dict(zip(names, side, strict=True)) for side in values)
    return home, away


def by_weapon(**damage: float) -> torch.Tensor:
    """Damage of home's weapons; away's do none."""
    row = torch.zeros(1, 2, len(WEAPONS))
    for name, value in damage.items():
        row[0, 0, WEAPON[name]] = value
    return row


def test_damage_is_a_rate_of_the_living_and_shared_among_weapons():
    home, away = duel(
        [
            {"raw_damage": by_weapon(laser=14.0), "acted": [True, True]},
            {"raw_damage": by_weapon(laser=4.0, autocannon=6.0), "acted": [True, False]},
        ]
    )
    assert home["damage_per_s"] == pytest.approx(24.0 / (2 * DECISION_S))
    assert home["laser_damage_share"] == pytest.approx(18 / 24)
    assert home["autocannon_damage_share"] == pytest.approx(6 / 24)
    assert away["damage_per_s"] == 0.0
    assert math.isnan(away["laser_damage_share"]), "who does no damage does it with no weapon"


def test_range_is_that_of_damage_to_enemies():
    places = torch.zeros(1, 2, 3)
    places[0, 1, 0] = 10.0
    near = torch.zeros(1, 2, 3)
    near[0, 1, 1] = 4.0
    hit = torch.zeros(1, 2, 2)
    hit[0, 0, 1], hit[0, 0, 0] = 30.0, 500.0  # what it does to itself is not far away
    home, away = duel([{"position": places, "dealt": hit}, {"position": near, "dealt": hit / 3.0}])
    assert home["engagement_range_m"] == pytest.approx((10.0 * 30.0 + 4.0 * 10.0) / 40.0)
    assert math.isnan(away["engagement_range_m"])


def test_place_speed_heat_and_posture_are_means_over_the_time_alive():
    places = torch.tensor([[[1.0, 0.0, 0.0], [19.0, 0.0, 0.0]]])
    speeds = torch.tensor([[[3.0, 4.0, 9.0], [0.0, 0.0, 0.0]]])
    home, away = duel(
        [
            {"position": places, "velocity": speeds, "heat": [150.0, 50.0], "fallen_ticks": [5, 0]},
            {"position": places.flip(1), "heat": [0.0, 50.0], "fallen_ticks": [0, 0]},
            {"position": places, "heat": [150.0, 50.0], "acted": [False, True], "fallen_ticks": [5, 0]},
        ]
    )
    assert home["zone_share"] == 0.5
    assert away["zone_share"] == pytest.approx(1 / 3)
    assert home["speed_m_per_s"] == pytest.approx(2.5)
    assert home["heat_share"] == pytest.approx(0.75)
    assert home["shutdown_share"] == home["fallen_share"] == 0.5
    assert away["shutdown_share"] == away["fallen_share"] == 0.0


def test_paint_is_counted_by_decisions_with_a_hit():
    painting = torch.full((1, 2, len(WEAPONS)), -1)
    painting[0, 1, WEAPON["painter"]] = 0
    home, away = duel([{"hitscan_hits": painting}, {"hitscan_hits": painting}, {}])
    assert home["paints_per_s"] == 0.0
    assert away["paints_per_s"] == pytest.approx(2 / (3 * DECISION_S))


def test_electronic_warfare_is_measured_for_its_carriers_only():
    env = make("mech-pack", num_envs=1)
    env.reset(torch.tensor([0]))
    played = env.step(idle(env.spec))
    meter = meter_of(env)
    names = [measure.name for measure in meter.measures]
    carrying, firing = env.hulls["ewar"], env.hulls["ams"]
    assert 0 < int(carrying.sum()) < env.spec.num_agents
    env.arrays["acted"].fill_(True)
    env.arrays["ewar"].copy_(carrying[None] * torch.tensor([[1] * 5 + [2] * 5]))
    env.arrays["intercepted"].copy_(firing[None] * torch.tensor([[3] * 5 + [0] * 5]))
    env.arrays["ended"].fill_(True)
    env.on_decided[0]()
    home, away = (dict(zip(names, side, strict=True)) for side in meter.stepped({}, played)[0].tolist())
    assert (home["ecm_share"], home["eccm_share"]) == (1.0, 0.0)
    assert (away["ecm_share"], away["eccm_share"]) == (0.0, 1.0)
    assert home["intercepts_per_s"] == pytest.approx(3 / DECISION_S)
    assert away["intercepts_per_s"] == 0.0


@pytest.mark.parametrize("preset", PRESETS)
def test_measures_match_the_abilities_of_the_composition(preset: str):
    names = {measure.name for measure in meter_of(make(preset, num_envs=1)).measures}
    mixed = preset != "mech-duel"
    assert ({"missile_damage_share", "ecm_share", "eccm_share", "intercepts_per_s"} <= names) == mixed
    assert not names.isdisjoint({"laser_damage_share", "paints_per_s", "zone_share", "engagement_range_m"})


def test_values_lie_in_their_ranges_and_weapons_share_all_damage():
    env = make("mech-pack", num_envs=6)
    meter = meter_of(env)
    meter.opened(env.reset(torch.arange(6)))
    brawl(env, 0.1, 0.3)
    orders, seen = RandomOrders(env.spec, list(range(6))), 0
    low, high = (torch.tensor([getattr(each, end) for each in meter.measures]) for end in ("low", "high"))
    shares = [place for place, each in enumerate(meter.measures) if each.name.endswith("_damage_share")]
    for _ in range(env.spec.max_decisions):
        actions = orders.draw()
        step = env.step(actions)
        values = meter.stepped(actions, step)
        ended = step.terminated | step.truncated
        assert values[~ended].isnan().all()
        known = ~values.isnan()
        assert (((values >= low) & (values <= high + 1e-5)) | ~known).all()
        of_weapons = values[..., shares].sum(dim=-1)
        assert torch.allclose(of_weapons[~of_weapons.isnan()], torch.ones((), dtype=torch.float64))
        seen += int((~of_weapons.isnan()).sum())
    assert seen >= 6, "somebody has to hurt somebody"
