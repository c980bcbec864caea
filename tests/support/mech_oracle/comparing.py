"""Where a row of the batch and the oracle's match differ."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from mech_oracle.match import Perceived
from mech_oracle.state import CLEAR, SMOKE_FREE, Mech, Shell, State
from numpy.typing import NDArray

TOLERANCES = {
    **dict.fromkeys(("position", "velocity", "shell_position", "shell_velocity", "smoke_centre"), 2e-3),
    **dict.fromkeys(("hp", "leg_hp", "stability", "dealt", "terrain_damage", "raw_damage"), 5e-3),
    **dict.fromkeys(("heading", "potential", "zone_radius", "zone_s", "zone_tick", "comm"), 1e-4),
    **dict.fromkeys(("killed", "assists"), 1e-3),
    "heat": 2e-3,
    "shell_reach": 2e-3,
    "own_share": 1e-6,
}
"""How far numbers may differ; all others must be equal."""

OF_THE_LIVING = (
    *("heading", "leg_hp", "heat", "stability", "timers", "fallen_ticks", "suppressed_ticks", "painted_ticks"),
    *("painted_by", "ams_ticks", "focus", "ewar", "potential"),
)
OF_ALL = ("position", "velocity", "hp", "wreck", "acted", "comm")
OF_SHELLS = ("position", "velocity", "weapon", "target")
OF_THE_MATCH = ("zone_s", "zone_tick", "smoke_count", "decision", "tick", "map", "zone_radius", "own_share")
OF_BOOKS = ("dealt", "killed", "assists", "terrain_damage", "raw_damage", "hitscan_hits", "intercepted", "paints")

VALUE_TOLERANCE = 1e-3


def state_differences(state: State, row: Mapping[str, NDArray[Any]]) -> list[str]:
    """What differs between the oracle's match and one row of the batch's arrays."""
    return [
        f"{name}: batch {got}, oracle {expected}"
        for name, got, expected in _entries(state, row)
        if _differ(name.split("[")[0], got, expected)
    ]


def _differ(name: str, got: Any, expected: Any) -> bool:
    gap = np.abs(np.asarray(got, dtype=float) - np.asarray(expected, dtype=float))
    return not bool((gap <= TOLERANCES.get(name, 0.0)).all())


def _entries(state: State, row: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Any, Any]]:
    for name in OF_THE_MATCH:
        yield name, row[name], getattr(state, name)
    for name in OF_BOOKS:
        yield name, row[name], getattr(state.books, name)
    for mech in state.mechs:
        i = mech.hull.index
        yield f"built[{i}]", row["built"][i], i + mech.hull.build * len(state.mechs)
        for name in (*OF_ALL, *(OF_THE_LIVING if mech.alive else ())):
            yield f"{name}[{i}]", row[name][i], getattr(mech, name)
        yield from _shells(i, mech, row)
    for side in (0, 1):
        for slot, cloud in enumerate(state.smoke[side]):
            yield f"smoke_left[{side}, {slot}]", row["smoke_left"][side, slot], cloud.left
            if cloud.left:
                yield f"smoke_centre[{side}, {slot}]", row["smoke_centre"][side, slot], cloud.centre


def _shells(i: int, mech: Mech, row: Mapping[str, NDArray[Any]]) -> Iterator[tuple[str, Any, Any]]:
    for slot, shell in enumerate(mech.shells):
        yield f"shell_reach[{i}, {slot}]", row["shell_reach"][i, slot], shell.reach if isinstance(shell, Shell) else 0.0
        if isinstance(shell, Shell) and row["shell_reach"][i, slot] > 0.0:
            for name in OF_SHELLS:
                if name != "target" or shell.target >= 0:
                    yield f"shell_{name}[{i}, {slot}]", row[f"shell_{name}"][i, slot], getattr(shell, name)


def look_differences(state: State, row: Mapping[str, NDArray[Any]]) -> list[str]:
    """What differs between what the oracle and the batch found when everybody looked."""
    found = []
    for (i, j), expected in state.sight.items():
        got = (bool(row["sight"][i, j] & SMOKE_FREE), row["sight"][i, j] == CLEAR)
        if got != expected:
            found.append(f"sight[{i}, {j}]: batch {got}, oracle {expected}")
    for mech in state.mechs:
        i = mech.hull.index
        if mech.alive:
            batch = {int(j) for j in np.flatnonzero(row["seen"][i]) if state.mechs[j].hull.side != mech.hull.side}
            if batch != state.seen[i]:
                found.append(f"seen[{i}]: batch {batch}, oracle {state.seen[i]}")
            found += [
                f"{name}[{i}]: batch {row[name][i]}, oracle {getattr(state, name)[i]}"
                for name in ("quality", "jam", "eccm")
                if abs(row[name][i] - getattr(state, name)[i]) > VALUE_TOLERANCE
            ]
        known = {j for viewer, j in state.recognised if viewer == i}
        if set(np.flatnonzero(row["recognised"][i]).tolist()) != known:
            found.append(f"recognised[{i}]: batch {row['recognised'][i]}, oracle {known}")
        if row["contact"][i].tolist() != state.contacts[i]:
            found.append(f"contact[{i}]: batch {row['contact'][i].tolist()}, oracle {state.contacts[i]}")
    return found


def view_differences(
    perceived: Perceived,
    values: NDArray[Any],
    masks: Mapping[str, NDArray[Any]],
    active: NDArray[Any],
    layout: Mapping[str, slice],
) -> list[str]:
    """What differs between what the oracle and the batch say that everybody perceives."""
    found = [] if np.array_equal(active, perceived.active) else [f"active: batch {active}, oracle {perceived.active}"]
    for name, where in layout.items():
        got, expected = values[:, where], perceived.blocks[name]
        apart = np.abs(got - np.where(np.isnan(expected), got, expected))
        found += [
            f"{name}[{i}, {k}]: batch {got[i, k]:.6f}, oracle {expected[i, k]:.6f}"
            for i, k in np.argwhere(~(apart <= VALUE_TOLERANCE))
        ]
    for name, expected in perceived.masks.items():
        got = masks[name].reshape(expected.shape)
        found += [
            f"mask {name}[{i}, {k}]: batch {got[i, k]}, oracle {expected[i, k]}"
            for i, k in np.argwhere(got != expected)
        ]
    return found
