import dataclasses
from collections import deque

import numpy as np
import pytest
from numpy.typing import NDArray

from arena.environments.mech.config.constants import (
    FOLIAGE,
    FOLIAGE_HEIGHT,
    GLASS,
    LAVA,
    SPAWN_COLUMNS,
    SPAWN_JITTER,
    SPAWN_PITCH,
    STEP_UP,
)
from arena.environments.mech.config.scenario import PRESETS, MechConfig, Terrain
from arena.environments.mech.maps import pool as terrain
from arena.environments.mech.maps.generator import Landscape, Site, draw_landscape
from arena.environments.mech.maps.pathfinding import WEIGHTS, Walker, find_routes
from arena.environments.mech.maps.pool import LARGEST_ZONE, MAPS, MapPool, build_pool

CONFIGS = {
    config.name: config
    for config in (
        PRESETS["mech-pack"],
        PRESETS["mech-company"],
        MechConfig("scouts", (("scout", "scout"),), map_side=44, limit_s=60.0),
        MechConfig("heavies", (("heavy",) * 7,), map_side=80, limit_s=60.0),
    )
}
EVERY_MAP = pytest.mark.parametrize("name", CONFIGS)
LARGER_MAPS = pytest.mark.parametrize("name", ["mech-pack", "mech-company", "heavies"])
STRIDE = 0.25


def middles(side: int) -> NDArray[np.float64]:
    return np.arange(side) + 0.5 - side / 2.0


def cells(places: NDArray[np.float64], side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of places (..., 2)."""
    columns, rows = (np.clip(np.floor(places[..., axis]).astype(int) + side // 2, 0, side - 1) for axis in (0, 1))
    return rows, columns


def starts(config: MechConfig, spawn: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where home's mechs can start: every place of the formation and the corners that jitter can move it to."""
    team = len(config.team)
    rows = -(-team // SPAWN_COLUMNS)
    outward = spawn / np.hypot(*spawn)
    left = np.array([-outward[1], outward[0]])
    places = []
    for rank in range(team):
        row, column = divmod(rank, SPAWN_COLUMNS)
        columns = min(team - row * SPAWN_COLUMNS, SPAWN_COLUMNS)
        along, depth = SPAWN_PITCH * (column - (columns - 1) / 2.0), SPAWN_PITCH * (row - (rows - 1) / 2.0)
        places += [
            spawn + left * (along + sideways) + outward * (depth + outwards)
            for sideways in (-SPAWN_JITTER, SPAWN_JITTER)
            for outwards in (-SPAWN_JITTER, SPAWN_JITTER)
        ]
    return np.array(places)


def walked(ground: NDArray[np.uint8], shut: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Cells from which a mech on that layer can walk to the middle by straight steps, up or down by at most a metre."""
    side = len(ground)
    reached = np.zeros((side, side), dtype=bool)
    reached[side // 2, side // 2] = True
    queue = deque([(side // 2, side // 2)])
    while queue:
        row, column = queue.popleft()
        for r, c in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
            inside = 0 <= r < side and 0 <= c < side
            if (
                inside
                and not reached[r, c]
                and not shut[r, c]
                and abs(int(ground[row, column]) - int(ground[r, c])) <= 1
            ):
                reached[r, c] = True
                queue.append((r, c))
    return reached


def follow(config: MechConfig, number: int, places: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Where the widest mech gets from places (K, 2), stride by stride along each axis that is free, by its route."""
    pool, side = build_pool(config), config.map_side
    ground, route = pool.ground[-1, number], pool.route[number]
    edge = side / 2.0 - max(mech.width for mech in config.team) / 2.0
    track = [places]
    while (np.hypot(*track[-1].T) > LARGEST_ZONE).any() and len(track) < 1.5 * route[..., 2].max() / STRIDE:
        here = track[-1]
        steps = STRIDE * route[cells(here, side)][:, :2]
        for axis in (0, 1):
            moved = here.copy()
            moved[:, axis] = np.clip(moved[:, axis] + steps[:, axis], -edge, edge)
            free = ground[cells(moved, side)] <= ground[cells(here, side)] + STEP_UP
            here = np.where(free[:, None], moved, here)
        track.append(here)
    return track


def border(config: MechConfig) -> NDArray[np.bool_]:
    """Cells that the middle of the widest mech cannot be in."""
    edge = config.map_side / 2.0 - max(mech.width for mech in config.team) / 2.0
    outside = np.abs(middles(config.map_side)) - 0.5 >= edge
    return outside[:, None] | outside[None, :]


def hidden_share(pool: MapPool, number: int, height: float) -> float:
    """Share of the lines between flat cells, so far above the ground, that the map hides."""
    rng = np.random.default_rng(0)
    side = pool.solid.shape[1]
    flat = np.argwhere(pool.solid[number] == 0)[:, ::-1] + 0.5 - side / 2.0
    one, other = (flat[rng.integers(len(flat), size=400)] for _ in range(2))
    points = one + (other - one) * np.linspace(0.0, 1.0, 3 * side)[:, None, None]
    return float((pool.sight[number][cells(points, side)] > height).any(axis=0).mean())


@EVERY_MAP
def test_maps_equal_themselves_after_half_a_turn(name: str):
    pool = build_pool(CONFIGS[name])

    for grid in (pool.solid, pool.sight, pool.material, pool.ground, pool.route[..., 2]):
        assert np.array_equal(grid, grid[..., ::-1, ::-1])
    assert np.array_equal(pool.route[..., :2], -pool.route[:, ::-1, ::-1, :2])


@EVERY_MAP
def test_layers_hold_the_highest_cell_under_each_footprint(name: str):
    config = CONFIGS[name]
    pool = build_pool(config)

    assert set(pool.footprints) == {mech.footprint for mech in config.team}
    for layer, reach in enumerate(pool.footprints):
        for row, column in np.random.default_rng(1).integers(config.map_side, size=(200, 2)):
            rows = slice(max(row - reach, 0), row + reach + 1)
            columns = slice(max(column - reach, 0), column + reach + 1)
            assert pool.ground[layer, -1, row, column] == pool.solid[-1, rows, columns].max()


@EVERY_MAP
def test_glass_stops_no_sight_and_foliage_no_step(name: str):
    pool = build_pool(CONFIGS[name])
    solid, sight = pool.solid.astype(int), pool.sight.astype(int)

    assert (sight < solid)[pool.material == GLASS].all()
    assert (sight == solid + FOLIAGE_HEIGHT)[pool.material == FOLIAGE].all()
    assert (sight == solid)[(pool.material != GLASS) & (pool.material != FOLIAGE)].all()
    assert np.array_equal(pool.highest, np.maximum(solid, sight).max(axis=(1, 2)))


@EVERY_MAP
def test_zone_and_starts_are_flat_open_ground(name: str):
    config = CONFIGS[name]
    pool, side = build_pool(config), config.map_side
    distance = np.hypot(middles(side)[:, None], middles(side)[None, :])

    assert not pool.solid[:, distance <= LARGEST_ZONE + 2.0].any()
    assert not pool.material[:, distance <= LARGEST_ZONE + 2.0].any()
    assert not pool.ground[:, :, distance <= LARGEST_ZONE].any()
    for number, spawn in enumerate(pool.spawn):
        rows, columns = cells(starts(config, spawn), side)
        assert not pool.ground[:, number, rows, columns].any()
        assert not pool.material[number, rows, columns].any()


@EVERY_MAP
def test_formations_lie_on_the_map(name: str):
    config = CONFIGS[name]
    edge = config.map_side / 2.0 - max(mech.width for mech in config.team) / 2.0

    for spawn in build_pool(config).spawn:
        assert np.abs(starts(config, spawn)).max() <= edge


@EVERY_MAP
def test_widest_mech_can_walk_from_every_start_to_the_zone(name: str):
    config = CONFIGS[name]
    pool = build_pool(config)

    for number, spawn in enumerate(pool.spawn):
        reached = walked(pool.ground[-1, number], border(config))
        assert reached[cells(starts(config, spawn), config.map_side)].all()


@LARGER_MAPS
def test_there_is_another_way_in(name: str):
    config = CONFIGS[name]
    pool, side = build_pool(config), config.map_side
    x, y = middles(side)[None, :], middles(side)[:, None]

    for number, spawn in enumerate(pool.spawn):
        way = follow(config, number, spawn[None, :].astype(float))
        amid = way[len(way) // 2][0]
        shut = border(config) | (np.hypot(x - amid[0], y - amid[1]) <= 3.0)
        assert walked(pool.ground[-1, number], shut)[cells(spawn, side)]


@EVERY_MAP
def test_steps_are_unit_vectors_and_lengths_finite(name: str):
    route = build_pool(CONFIGS[name]).route

    assert np.allclose(np.hypot(route[..., 0], route[..., 1]), 1.0, atol=1e-6)
    assert np.isfinite(route[..., 2]).all()
    assert (route[..., 2] > 0.0).all()


@EVERY_MAP
def test_lengths_are_straight_in_the_zone_and_no_shorter_anywhere(name: str):
    config = CONFIGS[name]
    lengths = build_pool(config).route[..., 2]
    distance = np.hypot(middles(config.map_side)[:, None], middles(config.map_side)[None, :])

    assert np.allclose(lengths[:, distance < LARGEST_ZONE], distance[distance < LARGEST_ZONE], atol=3e-3)
    assert (lengths >= distance - 0.02).all()


@EVERY_MAP
def test_following_the_route_reaches_the_target(name: str):
    """From every start, and on the hardest maps from wherever the widest mech can walk where all stand level."""
    config = CONFIGS[name]
    pool, side = build_pool(config), config.map_side

    for number, spawn in enumerate(pool.spawn):
        places = starts(config, spawn)
        if number >= MAPS - 4:
            sure = walked(pool.ground[-1, number], border(config) | (np.ptp(pool.ground[:, number], axis=0) > 0))
            places = np.concatenate([places, np.argwhere(sure)[:, ::-1] + 0.5 - side / 2.0])
        assert np.hypot(*follow(config, number, places)[-1].T).max() <= LARGEST_ZONE


@LARGER_MAPS
def test_maps_get_harder(name: str):
    pool = build_pool(CONFIGS[name])
    raised = (pool.solid > 0).mean(axis=(1, 2))
    quarters = raised.reshape(4, -1).mean(axis=1)

    assert raised[0] < 0.05
    assert (np.diff(quarters) > 0.0).all()
    assert pool.highest[:8].mean() < pool.highest[-8:].mean()


@LARGER_MAPS
def test_hard_maps_hide_something_and_not_everything(name: str):
    pool = build_pool(CONFIGS[name])
    shares = [hidden_share(pool, number, 2.5) for number in range(MAPS - 8, MAPS)]

    assert 0.15 < np.mean(shares) < 0.8
    assert hidden_share(pool, 0, 2.5) < 0.05


@pytest.mark.parametrize("name", ["mech-pack", "mech-company"])
def test_every_material_is_somewhere(name: str):
    assert set(np.unique(build_pool(CONFIGS[name]).material)) == set(range(6))


def test_pool_is_the_same_whenever_it_is_built():
    config = CONFIGS["scouts"]

    again = build_pool.__wrapped__(dataclasses.replace(config, name="other", limit_s=90.0))

    for field in dataclasses.fields(MapPool):
        assert np.array_equal(getattr(again, field.name), getattr(build_pool(config), field.name))
    assert build_pool(config) is build_pool(CONFIGS["scouts"])


def test_maps_differ():
    pool = build_pool(CONFIGS["mech-company"])

    assert len({pool.solid[number].tobytes() for number in range(MAPS)}) == MAPS
    assert len({tuple(spawn) for spawn in pool.spawn}) == MAPS


def test_open_ground_has_a_spawn_in_every_direction():
    pool = build_pool(PRESETS["mech-duel"])
    angles = np.sort(np.arctan2(pool.spawn[:, 1], pool.spawn[:, 0]))

    assert pool.spawn.shape == (MAPS, 2)
    assert np.diff(angles, append=angles[0] + 2.0 * np.pi).max() < 4.0 * np.pi / MAPS
    assert not any(grid.any() for grid in (pool.solid, pool.sight, pool.material, pool.ground, pool.highest))


def test_maps_without_a_way_in_are_thinned_out(monkeypatch: pytest.MonkeyPatch):
    config = CONFIGS["scouts"]
    side = config.map_side
    asked: list[int] = []

    def wall_in(seed: int, site: Site, difficulty: float, features: int) -> Landscape:
        asked.append(features)
        distance = np.hypot(middles(side)[:, None], middles(side)[None, :])
        wall = np.where((np.abs(distance - 14.0) < 1.0) & (features > 2), 5, 0)
        return Landscape(wall, np.zeros_like(wall), np.zeros_like(wall))

    monkeypatch.setattr(terrain, "draw_landscape", wall_in)
    pool = build_pool.__wrapped__(config)

    fewest = max(asked)
    while fewest > 2:
        fewest = fewest * 3 // 4
    assert not pool.solid.any()
    assert asked[-1] == fewest > 0


def test_gaps_too_narrow_for_the_widest_mech_are_filled():
    site = Site(np.zeros((60, 60), dtype=bool), np.array([20.0, 0.0]), footprint=2)

    solid = draw_landscape(1, site, difficulty=1.0, features=30).solid

    assert np.array_equal(-terrain.spread(-terrain.spread(solid, 2), 2), solid)
    assert 0.1 < (solid > 0).mean() < 0.9


def twice(side: int, rows: slice, columns: slice, value: int) -> NDArray[np.int64]:
    """A grid of zeros but for a block and its image after half a turn."""
    grid = np.zeros((side, side), dtype=np.int64)
    grid[rows, columns] = value
    return np.maximum(grid, grid[::-1, ::-1])


def walker(ground: NDArray[np.int64], reach: int = 0) -> Walker:
    return Walker(terrain.spread(ground, reach), np.ones(ground.shape, dtype=bool))


def test_route_leads_round_a_wall_and_over_a_metre():
    plain = np.zeros((20, 20), dtype=np.int64)
    wall, kerb = (walker(twice(20, slice(14, 15), slice(0, 18), height)) for height in (2, 1))

    round_it = find_routes(wall, wall, plain, free_radius=2.0)
    over_it = find_routes(kerb, kerb, plain, free_radius=2.0)

    assert round_it.steps[15, 5, 0] > 0.9
    assert over_it.steps[15, 9, 1] < -0.9
    assert round_it.lengths[15, 5] > over_it.lengths[15, 5] + 8.0


def test_route_avoids_lava():
    material = twice(30, slice(20, 24), slice(12, 18), LAVA)
    plain = walker(np.zeros_like(material))

    routes = find_routes(plain, plain, material, free_radius=2.0)

    place = np.array([0.5, 12.5])
    while place[1] > 2.0:
        assert material[cells(place, 30)] != LAVA
        place = place + STRIDE * routes.steps[cells(place, 30)]
    assert routes.lengths[27, 15] < 12.5 + 4.0 * (WEIGHTS[LAVA] - 1)


def test_route_from_a_roof_jumps_down_and_from_a_pit_leads_through_its_wall():
    roof = twice(20, slice(13, 18), slice(3, 8), 3)
    pit = roof - twice(20, slice(14, 17), slice(4, 7), 3)

    off, out = (find_routes(walker(ground), walker(ground), 0 * roof, free_radius=2.0) for ground in (roof, pit))

    assert not off.on_foot[15, 5]
    assert not out.on_foot[15, 5]
    assert off.lengths[15, 9] < off.lengths[15, 5] < 30.0
    assert out.lengths[15, 9] < out.lengths[15, 5] < 30.0


def test_route_from_a_roof_avoids_higher_ground():
    """The tower lies between the roof and the centre."""
    ground = twice(20, slice(13, 18), slice(3, 8), 3) + twice(20, slice(11, 20), slice(8, 9), 6)

    routes = find_routes(walker(ground), walker(ground), 0 * ground, free_radius=2.0)

    assert routes.steps[16, 7, 0] <= 0.0


def test_narrow_mechs_find_out_of_where_wide_ones_cannot_go():
    """By a wall, where a wide mech would touch it, the way leads away from it and not through it."""
    wall = twice(24, slice(16, 17), slice(4, 20), 4)
    narrow, wide = walker(wall, 1), walker(wall, 2)

    routes = find_routes(wide, narrow, 0 * wall, free_radius=2.0)

    assert narrow.ground[18, 12] == 0 < wide.ground[18, 12]
    assert not routes.on_foot[18, 12]
    assert routes.steps[18, 12, 1] > 0.3
    assert routes.lengths[18, 12] > 15.0


def test_terrain_of_a_composition_decides_whether_there_are_features():
    config = dataclasses.replace(CONFIGS["scouts"], terrain=Terrain.OPEN)

    assert not build_pool(config).solid.any()
    assert build_pool(CONFIGS["scouts"]).solid.any()
