"""Sparse columns of a recording: shells, beams, hits and smoke, from the arrays of a match. Torch-free."""

import numpy as np

from arena.arrays import FloatArray
from arena.environments.mech.replay.frames import Footage, to_whole
from arena.environments.spec import SIDES
from arena.replay.mech.tables import Beams, Hits, Shells, Smoke


def read_shells(footage: Footage) -> Shells:
    """Every shell that is in the air in a frame."""
    frame, owner, slot = np.nonzero(footage["shell_reach"] > 0.0)
    place = to_whole(100.0 * footage["shell_position"][frame, owner, slot])
    weapon = footage["shell_weapon"][frame, owner, slot].astype(np.int64)
    return Shells(frame, owner, slot, weapon, place[:, 0], place[:, 1], place[:, 2])


def read_beams(footage: Footage) -> Beams:
    """Every hit of a hitscan weapon, but one a decision for each weapon of a mech."""
    frame, shooter, weapon = np.nonzero(_after_start(footage["hitscan_hits"] + 1.0))
    return Beams(frame, shooter, weapon, footage["hitscan_hits"][frame, shooter, weapon].astype(np.int64))


def read_hits(footage: Footage) -> Hits:
    """Hit points lost, by victim and source; the ground has index -1. Rounded so that sums over time are exact."""
    by_ground = footage["terrain_damage"][:, np.newaxis, :]
    taken = np.concatenate([by_ground, footage["dealt"]], axis=1)
    tenths = np.diff(to_whole(10.0 * np.cumsum(_after_start(taken), axis=0)), axis=0, prepend=0)
    frame, shooter, target = np.nonzero(tenths)
    return Hits(frame, shooter - 1, target, tenths[frame, shooter, target])


def read_smoke(footage: Footage) -> Smoke:
    """Every cloud, from the first frame in which it hangs to the last."""
    left, centre = footage["smoke_left"], to_whole(100.0 * footage["smoke_centre"])
    clouds = [
        (first, last, side, *centre[first, side, slot].tolist())
        for side in range(SIDES)
        for slot in range(left.shape[2])
        for first, last in _spans(left[:, side, slot])
    ]
    columns = np.array(sorted(clouds), dtype=np.int64).reshape(-1, 6).T
    return Smoke(*columns)


def _spans(left: FloatArray) -> list[tuple[int, int]]:
    """First and last frame of every cloud of a slot, found by its remaining time: it falls until the next cloud."""
    hangs = left > 0
    before = np.concatenate([[0], left[:-1]])
    starts = np.flatnonzero(hangs & (left >= before))
    ends = np.append(starts, len(left))[1:]
    return [
        (int(start), int(start + np.count_nonzero(hangs[start:end]) - 1))
        for start, end in zip(starts, ends, strict=True)
    ]


def _after_start(values: FloatArray) -> FloatArray:
    """Mark frames with results of a decision: not frame 0, where arrays still have those of the previous match."""
    cleared = values.copy()
    cleared[0] = 0
    return cleared
