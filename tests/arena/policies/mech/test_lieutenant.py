from dataclasses import dataclass
from typing import Self

import pytest
import torch
from mech_play import idle
from refused import refused

from arena.environments import make, make_baseline
from arena.environments.base import Observation
from arena.environments.mech.config.chassis import CLASSES
from arena.environments.mech.config.constants import MOVES, QUALITY_RANGE
from arena.environments.mech.config.scenario import PRESETS
from arena.environments.mech.config.weapons import TRIGGERS
from arena.environments.mech.env import make_mech
from arena.environments.mech.maps.pool import MAPS
from arena.environments.mech.observation_spec import (
    CONDITION_FEATURES,
    CONTACT_FEATURES,
    SENSOR_FEATURES,
    ZONE_FEATURES,
    make_spec,
)
from arena.policies.mech.lieutenant import make_player

PACK = PRESETS["mech-pack"]
MATCHES = 6 * MAPS
DIAGONAL = PACK.map_side * 2.0**0.5


class Perceived:
    """What one mech of the pack perceives, written by hand, in metres: nothing but itself until more is named."""

    def __init__(self, mech: str, *, zone: tuple[float, float] = (20.0, 0.0), heat: float = 0.0) -> None:
        self.spec = make_spec(PACK)
        self.values = torch.zeros(self.spec.observation_size)
        self.block("hull")[list(CLASSES).index(mech)] = 1.0
        self.block("heat")[0] = heat
        self.feature("sensors", SENSOR_FEATURES, "quality", 1.0 / QUALITY_RANGE[1])
        self.zone(*zone)

    def block(self, name: str) -> torch.Tensor:
        return self.values[self.spec.layout[name]]

    def feature(self, block: str, features: tuple[str, ...], name: str, value: float) -> None:
        self.block(block)[features.index(name)] = value

    def zone(self, ahead: float, left: float, radius: float = 5.0) -> Self:
        """Where the zone is; the way there is straight."""
        distance = max((ahead**2 + left**2) ** 0.5, 1e-6)
        side = PACK.map_side
        values = {
            "ahead": ahead / side,
            "left": left / side,
            "radius": radius / side,
            "route_ahead": ahead / distance,
            "route_left": left / distance,
            "route": max(distance - radius, 0.0) / (2.0 * side),
        }
        for name, value in values.items():
            self.feature("zone", ZONE_FEATURES, name, value)
        self.feature("condition", CONDITION_FEATURES, "in_zone", float(distance < radius))
        return self

    def enemy(
        self, slot: int, ahead: float, left: float, *, in_sight: bool = True, painted: bool = False
    ) -> "Perceived":
        """One contact."""
        contact = self.block("contacts").view(-1, len(CONTACT_FEATURES))[slot]
        values = {
            "ahead": ahead / DIAGONAL,
            "left": left / DIAGONAL,
            "distance": (ahead**2 + left**2) ** 0.5 / DIAGONAL,
            "hostile": 1.0,
            "in_sight": float(in_sight),
            "painted": float(painted),
        }
        for name, value in values.items():
            contact[CONTACT_FEATURES.index(name)] = value
        return self

    def lava(self, row: int, column: int) -> Self:
        """One point of the local map."""
        self.block("local_map").view(11, 11)[row, column] = -1.0
        return self


@dataclass
class Orders:
    """What a script orders one mech."""

    forward: float
    strafe: float
    vertical: float
    yaw_rate: float
    triggers: set[str]
    target: int
    ewar: int


def observe(perceived: Perceived) -> Observation:
    masks = {head.name: torch.ones(1, head.size, dtype=torch.bool) for head in perceived.spec.heads}
    return Observation(perceived.values.unsqueeze(0), masks, torch.tensor([True]))


def follow(name: str, perceived: Perceived, decisions: int = 1) -> list[Orders]:
    """What a script orders, decision by decision, while nothing changes."""
    policy, rng = make_player(PACK, name), torch.Generator().manual_seed(0)
    state, log = policy.initial_state(1), []
    for decision in range(decisions):
        actions, state = policy.act(observe(perceived), state, torch.tensor([decision == 0]), rng)
        pulled = {trigger for trigger, on in zip(TRIGGERS, actions["trigger"][0].tolist(), strict=True) if on}
        log.append(Orders(*actions["move"][0].tolist(), pulled, int(actions["target"]), int(actions["ewar"])))
    return log


def command(perceived: Perceived) -> Orders:
    return follow("lieutenant", perceived)[0]


def test_goes_to_the_zone_by_its_route_and_faces_that_way():
    orders = command(Perceived("medium").zone(12.0, 16.0))

    assert (orders.forward, orders.strafe) == pytest.approx((0.6, 0.8))
    assert orders.yaw_rate == 1.0
    assert orders.vertical == 0.0
    assert orders.target == 0
    assert orders.triggers == set()


@pytest.mark.parametrize(("distance", "enemy", "going"), [(4.5, False, True), (0.9, False, False), (2.4, True, False)])
def test_stops_inside_the_zone_and_makes_room_while_it_knows_of_no_enemy(distance: float, enemy: bool, going: bool):
    perceived = Perceived("medium").zone(distance, 0.0)
    if enemy:
        perceived.enemy(0, 15.0, 0.0, in_sight=False)

    assert (command(perceived).forward > 0.0) is going


def test_faces_and_aims_at_the_nearest_enemy_in_sight():
    perceived = Perceived("medium").enemy(0, 0.0, 3.0, in_sight=False).enemy(1, 10.0, -4.0)

    orders = command(perceived)

    assert orders.target == 2
    assert orders.yaw_rate == -1.0


def test_turns_just_as_far_as_needed():
    assert command(Perceived("medium").enemy(0, 10.0, 1.0)).yaw_rate == pytest.approx(0.1 / 0.25, rel=0.01)


def test_faces_the_nearest_enemy_that_it_knows_of_while_none_is_in_sight():
    orders = command(Perceived("medium").enemy(0, 0.0, 9.0, in_sight=False).enemy(1, 0.0, -9.0, in_sight=False))

    assert orders.target == 1
    assert orders.yaw_rate == 1.0


@pytest.mark.parametrize(
    ("mech", "distance", "forward"),
    [("medium", 5.0, -0.3), ("medium", 6.0, 1.0), ("scout", 5.0, -0.3), ("light", 5.0, 1.0), ("heavy", 3.0, 1.0)],
)
def test_backs_off_from_close_enemies_except_heavies(mech: str, distance: float, forward: float):
    assert command(Perceived(mech).enemy(0, distance, 0.0)).forward == pytest.approx(forward)


def test_does_not_back_off_from_unseen_enemies_or_into_lava():
    hidden, burning = (Perceived("medium").enemy(0, 4.0, 0.0, in_sight=sight) for sight in (False, True))
    burning.lava(4, 5)

    assert command(hidden).forward == 1.0
    assert command(burning).forward == 0.0


def test_is_careful_where_the_route_passes_lava():
    assert 0.0 < command(Perceived("scout").lava(6, 5)).forward < 1.0


@pytest.mark.parametrize(
    ("mech", "enemies", "pulled"),
    [
        ("scout", [(9.0, 0.0)], {"primary"}),
        ("scout", [(11.0, 0.0)], set()),
        ("scout", [(7.0, 5.0)], set()),
        ("light", [(4.2, 0.0)], {"primary", "secondary", "tertiary"}),
        ("light", [(6.0, 0.0)], {"secondary", "tertiary"}),
        ("light", [(4.0, 6.0)], {"secondary"}),
        ("medium", [(7.0, 0.0)], {"primary", "tertiary"}),
        ("medium", [(11.0, 0.0)], {"tertiary"}),
        ("medium", [(6.0, 4.0)], {"primary"}),
        ("medium", [(0.0, 6.0)], set()),
        ("medium", [(0.0, 6.0), (7.0, 0.0)], {"primary"}),
        ("heavy", [(18.0, 1.0)], {"tertiary"}),
        ("heavy", [(11.0, 8.0)], set()),
        ("heavy", [(8.0, 8.0)], {"secondary"}),
        ("heavy", [(-8.0, 0.0)], set()),
    ],
)
def test_fires_weapons_that_can_hit(mech: str, enemies: list[tuple[float, float]], pulled: set[str]):
    perceived = Perceived(mech)
    for slot, enemy in enumerate(enemies):
        perceived.enemy(slot, *enemy)

    assert command(perceived).triggers == pulled


def test_heavies_fire_missiles_at_painted_targets():
    painted = Perceived("heavy").enemy(0, 40.0, 5.0, in_sight=False, painted=True)
    assert command(painted).triggers == {"secondary"}

    painted.feature("sensors", SENSOR_FEATURES, "quality", 0.6 / QUALITY_RANGE[1])
    assert command(painted).triggers == set(), "jammed: no lock"


def test_does_not_fire_at_unseen_targets():
    assert command(Perceived("medium").enemy(0, 7.0, 0.0, in_sight=False)).triggers == set()


def test_vents_when_hot_and_does_not_fire_itself_into_a_shutdown():
    warm, hot = (command(Perceived("medium", heat=heat).enemy(0, 7.0, 0.0)) for heat in (0.7, 0.9))

    assert warm.triggers == {"tertiary"}, "the laser would be too much on top"
    assert hot.triggers == {"vent"}


def test_masked_triggers_stay_off():
    observation = observe(Perceived("medium").enemy(0, 7.0, 0.0))
    observation.masks["trigger"][:, TRIGGERS.index("primary")] = False
    policy = make_player(PACK, "lieutenant")

    actions, _ = policy.act(observation, policy.initial_state(1), torch.tensor([True]), torch.Generator())

    assert actions["trigger"][0].tolist() == [False, False, False, True, False]


def test_jams_while_cool_and_clears_its_own_sensors_when_warm():
    assert [command(Perceived("scout", heat=heat)).ewar for heat in (0.5, 0.8)] == [1, 2]


def test_stuck_mech_jumps_or_backs_up_then_sidesteps():
    log = follow("lieutenant", Perceived("scout"), 45)

    assert [orders.vertical for orders in log[:12]] == [0.0] * 3 + [1.0] * 8 + [0.0]
    assert [orders.forward for orders in log[:12]] == [1.0] * 11 + [-1.0]
    assert [orders.forward for orders in log[11:15]] == [-1.0] * 4
    assert [orders.strafe for orders in log[15:19]] == [1.0] * 4
    assert [orders.forward for orders in log[19:30]] == [1.0] * 11
    assert [orders.strafe for orders in log[34:38]] == [-1.0] * 4


def test_mediums_do_not_jump():
    assert {orders.vertical for orders in follow("lieutenant", Perceived("medium"), 20)} == {0.0}


def test_moving_or_arrived_mech_is_not_stuck():
    policy, rng = make_player(PACK, "lieutenant"), torch.Generator()
    state = policy.initial_state(1)
    for decision in range(60):
        perceived = Perceived("medium").zone(max(24.0 - 0.5 * decision, 0.0), 0.0)
        actions, state = policy.act(observe(perceived), state, torch.tensor([decision == 0]), rng)
        assert actions["move"][0, 0] >= 0.0
        assert actions["move"][0, 1] == 0.0


def test_memory_is_per_row_reset_at_start_and_frozen_while_inactive():
    policy, rng = make_player(PACK, "lieutenant"), torch.Generator()
    one = observe(Perceived("medium"))
    rows = one.rows(torch.zeros(3, dtype=torch.int64))
    state, never = policy.initial_state(3), torch.zeros(3, dtype=torch.bool)
    _, state = policy.act(rows, state, ~never, rng)
    for _ in range(5):
        _, state = policy.act(rows, state, never, rng)
    absent = Observation(rows.values, rows.masks, torch.tensor([True, True, False]))

    _, after = policy.act(absent, state, torch.tensor([False, True, False]), rng)

    alone = policy.act(one, policy.initial_state(1), torch.tensor([True]), rng)[1]
    assert all(torch.equal(part[1:2], fresh) for part, fresh in zip(after, alone, strict=True))
    assert all(torch.equal(part[2], old[2]) for part, old in zip(after, state, strict=True))
    assert not all(torch.equal(part[0], old[0]) for part, old in zip(after, state, strict=True))


def test_half_lieutenant_fires_every_other_time():
    perceived = Perceived("medium", heat=0.76).enemy(0, 8.0, 0.0)

    whole, half = (follow(name, perceived, 400) for name in ("lieutenant", "lieutenant-half"))

    assert all(orders.triggers == {"vent", "tertiary"} for orders in whole)
    assert 160 < sum("tertiary" in orders.triggers for orders in half) < 240
    assert all("vent" in orders.triggers for orders in half)
    assert [(orders.forward, orders.yaw_rate) for orders in half] == [(o.forward, o.yaw_rate) for o in whole]


def test_under_rules_that_reward_moving_it_strafes_with_a_random_build():
    env = make_mech("mech-duel-2", num_envs=64, device="cpu", seed=3)
    policy, rng = make_player(env.config, "lieutenant"), torch.Generator().manual_seed(1)
    seen, start, chosen = env.reset().side(slice(0, 1)), torch.ones(64, dtype=torch.bool), []
    state = policy.initial_state(64)
    for _ in range(3):
        actions, state = policy.act(seen, state, start, rng)
        assert (actions["move"][:, MOVES.index("strafe")].abs() > 0.5).all()
        chosen.append(actions["build"])
        start = torch.zeros_like(start)
    assert chosen[0].unique().tolist() == [0, 1, 2]
    assert torch.equal(chosen[0], chosen[2])
    assert torch.equal(actions["target"] > 0, chosen[0] != 1), "it leads shells of the autocannon, without a focus"


def test_turret_stands_turns_and_fires():
    orders = follow("turret", Perceived("medium").enemy(0, 6.0, 3.0))[0]

    assert (orders.forward, orders.strafe, orders.vertical) == (0.0, 0.0, 0.0)
    assert orders.yaw_rate == 1.0
    assert orders.triggers == {"primary"}
    assert orders.target == 1


def test_unknown_player_is_refused_with_the_known_ones():
    with refused("unknown-policy", "bob", "mech-pack", "random"):
        make_player(PACK, "bob")


@pytest.mark.parametrize("environment", ["mech-pack", "mech-company"])
def test_all_mechs_reach_the_zone_on_every_map(environment: str):
    env = make(environment, num_envs=MATCHES, seed=3)
    lieutenant, team = make_baseline(environment, "lieutenant"), env.spec.agents_per_side[0]
    observation = env.reset()
    assert len(env.arrays["map"].unique()) == MAPS
    state, start = lieutenant.initial_state(MATCHES * team), torch.ones(MATCHES * team, dtype=torch.bool)
    column = env.spec.layout["condition"].start + CONDITION_FEATURES.index("in_zone")
    arrived = torch.zeros(MATCHES, team, dtype=torch.bool)
    for _ in range(env.spec.max_decisions // 2):
        orders, state = lieutenant.act(observation.side(slice(0, team)), state, start, torch.Generator())
        actions = idle(env.spec, MATCHES)
        for name, action in orders.items():
            actions[name][:, :team] = action.unflatten(0, (-1, team))
        observation = env.step(actions).observation
        arrived |= observation.values[:, :team, column] > 0.5
        start = torch.zeros_like(start)
        if bool(arrived.any(dim=1).all()) and arrived.float().mean().item() > 0.9:
            return
    raise AssertionError(f"of each team {arrived.float().mean(dim=1).tolist()} got there")
