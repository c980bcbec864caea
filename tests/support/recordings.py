"""A recording made by hand: two mechs of which home's destroys away's, on ground of every material."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from arena.replay import Header, MechRecording, Result, StepsRecording
from arena.replay.mech.battlefield import Battlefield, Ground, Hull
from arena.replay.mech.events import End, Intercept, Kill, Launch, Paint, StatusChange, ZoneChange
from arena.replay.mech.frames import Flag, Frames
from arena.replay.mech.tables import Beams, Hits, Shells, Smoke
from arena.replay.recording import Step

DECISIONS, SIDE = 8, 40
LASER, GAUSS = 0, 3
ALIVE, HOLDS = int(Flag.ALIVE), int(Flag.ALIVE | Flag.IN_ZONE)


def make_header(*, decisions: int = DECISIONS, players: tuple[str, str] = ("lieutenant", "bob")) -> Header:
    return Header(
        format="echelon-replay",
        version=1,
        environment="mech-duel",
        signature="0123456789abcdef",
        seed=2**62 + 1,
        players=players,
        agents_per_side=(1, 1),
        roles=("medium", "medium"),
        max_decisions=240,
        outcome=Result(1.0, "elimination", decisions),
    )


def make_ground() -> Ground:
    height = np.zeros((SIDE, SIDE), dtype=np.int64)
    height[5:9, 5:20] = 3
    material = np.zeros((SIDE, SIDE), dtype=np.int64)
    for index in range(1, 6):
        material[30:34, 6 * index : 6 * index + 4] = index
    sight = height + 4 * (material == 4)
    return Ground(SIDE, height.ravel(), sight.ravel(), material.ravel())


def make_recording(header: Header | None = None, *, flat: bool = False) -> MechRecording:
    """Home walks right at 1 m a decision and turns across 0 degrees; away stands at (8, 3) until it dies in frame 6."""
    count = DECISIONS + 1
    time = np.arange(count)
    zeros, hundreds = np.zeros((count, 2), dtype=np.int64), np.full((count, 2), 100, dtype=np.int64)
    lives = time < 6
    return MechRecording(
        kind="mech",
        header=header or make_header(),
        decision_ms=250,
        packs=(0, 1),
        hulls={"medium": Hull(250, 300, 150, 100)},
        weapons=("laser", "flamer", "missile", "gauss", "autocannon", "painter", "smoke"),
        battlefield=Battlefield(SIDE, None if flat else make_ground(), 750, 3000),
        frames=Frames(
            x=np.stack([100 * time - 400, np.full(count, 800)], axis=1),
            y=np.stack([0 * time, np.full(count, 300)], axis=1),
            z=zeros,
            heading=np.stack([(350 + 5 * time) % 360, np.full(count, 180)], axis=1),
            hp=np.stack([np.full(count, 100), np.where(lives, 100 - 10 * time, 0)], axis=1),
            heat=np.stack([10 * time, np.full(count, 50)], axis=1),
            leg=hundreds,
            stability=hundreds,
            flags=np.stack([np.where(time > 2, HOLDS, ALIVE), np.where(lives, ALIVE, int(Flag.WRECK))], axis=1),
            home_zone=np.maximum(25 * (time - 2), 0),
            away_zone=0 * time,
            home_tick=np.where(time > 2, 100, 0),
            away_tick=0 * time,
        ),
        shells=Shells(*np.array([[2, 0, 2, GAUSS, 0, 0, 150], [3, 0, 2, GAUSS, 600, 225, 150]]).T),
        beams=Beams(*np.array([[5, 0, LASER, 1], [6, 0, LASER, 1]]).T),
        hits=Hits(*np.array([[4, 0, 1, 500], [5, -1, 1, 125], [6, 0, 1, 875]]).T),
        smoke=Smoke(*np.array([[1, 7, 0, 100, 1000, 200]]).T),
        events=(
            Paint("paint", 1, 1, 0),
            Launch("smoke", 1, 0),
            ZoneChange("zone", 3, "nobody", "home"),
            StatusChange("fall", 4, 1),
            Intercept("intercept", 5, 1, 2),
            Kill("kill", 6, 1, 0, ()),
            End("end", 8),
        ),
    )


def make_steps() -> StepsRecording:
    steps = (
        Step((True, False), {"choice": (1.0, 0.0), "move": ((0.25, -1.0), (0.0, 0.0))}, (0.5, -0.5)),
        Step((False, True), {"choice": (0.0, 2.0), "move": ((0.0, 0.0), (1.0, 0.5))}, (0.0, 0.0)),
    )
    return StepsRecording("steps", make_header(decisions=2), steps)


def unpack(path: Path) -> dict[str, Any]:
    """What the file says, as a browser would read it."""
    return json.loads(gzip.decompress(path.read_bytes()))


def pack(path: Path, value: object) -> Path:
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    return path
