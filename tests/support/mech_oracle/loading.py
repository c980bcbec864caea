"""Reading one match out of a row of the batch's arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from mech_oracle.state import CLEAR, SMOKE_FREE, Books, Cloud, Mech, Shell, State
from mech_oracle.world import Hull, World, with_build


def load(world: World, arrays: Mapping[str, Any], row: int) -> State:
    """Read row `row` of a batch's arrays (numpy)."""
    table = {name: array[row].tolist() for name, array in arrays.items()}
    count = len(world.hulls)
    builds = [row // count for row in table["built"]]
    hulls = [with_build(hull, world.config, build) for hull, build in zip(world.hulls, builds, strict=True)]
    mechs = [_load_mech(hull, table) for hull in hulls]
    books = Books(len(mechs))
    for name in (
        "dealt",
        "killed",
        "assists",
        "terrain_damage",
        "raw_damage",
        "hitscan_hits",
        "intercepted",
        "paints",
        "hurt_from",
    ):
        setattr(books, name, np.array(table[name]))
    books.hurt = books.dealt.sum(axis=0) + books.terrain_damage
    plain = ("map", "zone_radius", "decision", "tick", "zone_s", "zone_tick", "smoke_count", "fire_probability")
    clouds = zip(table["smoke_centre"], table["smoke_left"], strict=True)
    return State(
        world,
        table["seeds"],
        mechs=mechs,
        books=books,
        smoke=[[Cloud(tuple(c), left) for c, left in zip(*side, strict=True)] for side in clouds],
        own_share=table["own_share"],
        sight=_load_sight(mechs, table["sight"]),
        contacts=table["contact"],
        quality=table["quality"],
        recognised={(i, j) for i, row in enumerate(table["recognised"]) for j, known in enumerate(row) if known},
        **{name: table[name] for name in plain},
    )


def _load_mech(hull: Hull, table: dict[str, Any]) -> Mech:
    i = hull.index
    vectors = {name: tuple(table[name][i]) for name in ("position", "heading", "velocity")}
    plain = (
        *("hp", "leg_hp", "heat", "stability", "timers", "fallen_ticks", "suppressed_ticks", "painted_ticks"),
        *("painted_by", "ams_ticks", "wreck", "acted", "focus", "ewar", "comm", "potential"),
    )
    return Mech(hull, shells=_load_shells(i, table), **vectors, **{name: table[name][i] for name in plain})


def _load_shells(i: int, table: dict[str, Any]) -> list[Shell | None]:
    columns = [table[f"shell_{name}"][i] for name in ("position", "velocity", "reach", "weapon", "target")]
    return [
        Shell(tuple(position), tuple(velocity), reach, weapon, target) if reach > 0.0 else None
        for position, velocity, reach, weapon, target in zip(*columns, strict=True)
    ]


def _load_sight(mechs: list[Mech], sight: list[list[int]]) -> dict[tuple[int, int], tuple[bool, bool]]:
    return {
        (one.hull.index, other.hull.index): (bool(value & SMOKE_FREE), value == CLEAR)
        for one in mechs
        for other in mechs
        if one.hull.side != other.hull.side
        for value in [sight[one.hull.index][other.hull.index]]
    }
