"""Recorder of mech matches: copies a row's arrays after every decision and builds the recording at the end."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.base import Actions, Environment, StepResult
from arena.environments.match_result import MatchResultTracker
from arena.environments.mech.config.chassis import MechClass
from arena.environments.mech.config.constants import DECISION_S
from arena.environments.mech.config.scenario import MechConfig, Terrain
from arena.environments.mech.config.weapons import SMOKE, WEAPONS
from arena.environments.mech.maps.pool import build_pool
from arena.environments.mech.replay.events import read_events
from arena.environments.mech.replay.frames import ARRAYS, Footage, Setting, read_frames
from arena.environments.mech.replay.traces import read_beams, read_hits, read_shells, read_smoke
from arena.environments.spec import SIDES
from arena.errors import CallOrderError
from arena.replay.header import Header
from arena.replay.mech.battlefield import Battlefield, Ground, Hull
from arena.replay.recording import MechRecording


@runtime_checkable
class MechMatches(Environment, Protocol):
    """Interface of a mech environment for the recorder.

    Attributes:
        config: The composition.
        arrays: The state by name, as `kernels.state.State` describes it.
        on_decided: Functions called in every step after the decision and before matches that ended are reopened.
    """

    config: MechConfig
    arrays: Mapping[str, Tensor]
    on_decided: list[Callable[[], None]]


class MechRecorder:
    """Records the match that one row of an environment of mechs is in, from the frame before its first decision.

    Raises:
        ArenaError: The match has begun.
    """

    def __init__(self, env: MechMatches, row: int) -> None:
        if decision := int(env.arrays["decision"][row]):
            raise CallOrderError(f"row {row} is in decision {decision} of its match: start to record after a reset")
        self._env, self._row = env, row
        self._ending = MatchResultTracker(env, row)
        self._battlefield = _survey(env, row)
        self._pictures = [self._take()]
        env.on_decided.append(self._keep)

    def stepped(self, actions: Actions, step: StepResult) -> None:
        """Record the outcome if this step ended the match, and unsubscribe from decisions."""
        self._ending.stepped(step)
        if self._ending.over and self._keep in self._env.on_decided:
            self._env.on_decided.remove(self._keep)

    def finish(self, players: tuple[str, str]) -> MechRecording:
        """Return the recording of the finished match."""
        header = self._ending.header(players)
        footage = {name: np.stack([picture[name] for picture in self._pictures]).astype(np.float64) for name in ARRAYS}
        return _develop(footage, header, self._env.config, self._battlefield)

    def _keep(self) -> None:
        self._pictures.append(self._take())

    def _take(self) -> dict[str, NDArray[np.generic]]:
        return {name: self._env.arrays[name][self._row].cpu().numpy().copy() for name in ARRAYS}


def _survey(env: MechMatches, row: int) -> Battlefield:
    """The ground and the zone of the match that a row is in."""
    return Battlefield(
        side=env.config.map_side,
        ground=None if env.config.terrain is Terrain.OPEN else _read_ground(env.config, int(env.arrays["map"][row])),
        zone_radius=round(100.0 * float(env.arrays["zone_radius"][row])),
        zone_goal=round(100.0 * env.config.zone_goal_s),
    )


def _read_ground(config: MechConfig, number: int) -> Ground:
    pool = build_pool(config)
    solid, sight, material = (layer[number].astype(np.int64) for layer in (pool.solid, pool.sight, pool.material))
    return Ground(len(solid), solid.ravel(), sight.ravel(), material.ravel())


def _develop(footage: Footage, header: Header, config: MechConfig, battlefield: Battlefield) -> MechRecording:
    team = config.team * SIDES
    built = tuple(config.with_build(mech, build) for build in range(config.builds) for mech in team)
    setting = Setting(team, built, battlefield)
    return MechRecording(
        kind="mech",
        header=header,
        decision_ms=round(1000.0 * DECISION_S),
        packs=tuple(pack + side * len(config.packs) for side in range(SIDES) for pack in config.pack_of),
        hulls={mech.name: _describe(mech) for mech in config.team},
        weapons=tuple(weapon.name for weapon in (*WEAPONS, SMOKE)),
        battlefield=battlefield,
        frames=read_frames(footage, setting),
        shells=read_shells(footage),
        beams=read_beams(footage),
        hits=read_hits(footage),
        smoke=read_smoke(footage),
        events=read_events(footage, setting),
    )


def _describe(mech: MechClass) -> Hull:
    return Hull(round(100.0 * mech.width), round(100.0 * mech.height), round(mech.hp), round(mech.heat_capacity))
