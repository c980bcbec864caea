"""Events of a match, read from its arrays, one frame per decision. Torch-free."""

from collections.abc import Iterator

import numpy as np

from arena.arrays import BoolArray
from arena.environments.mech.config.weapons import MISSILE, TIMERS
from arena.environments.mech.replay.frames import Footage, Setting, shut_down
from arena.replay.mech.events import End, Event, Holder, Intercept, Kill, Launch, Paint, StatusChange, ZoneChange


def read_events(footage: Footage, setting: Setting) -> tuple[Event, ...]:
    """All events in the order of their frames; within a frame by kind, then by mech."""
    found: list[Event] = [
        *_launches(footage),
        *_intercepts(footage),
        *_paints(footage),
        *_status_changes(footage, setting),
        *_kills(footage),
        *_zone_changes(footage),
        End("end", len(footage["hp"]) - 1),
    ]
    return tuple(sorted(found, key=lambda event: event.at))


def _began(state: BoolArray) -> list[tuple[int, ...]]:
    """Frames and mechs where a state holds that did not hold in the frame before."""
    began = state[1:] & ~state[:-1]
    return [(frame + 1, mech) for frame, mech in np.argwhere(began).tolist()]


def _launches(footage: Footage) -> Iterator[Launch]:
    """Smoke and missiles share a timer, and smoke's is the longer wait."""
    timer = footage["timers"][..., TIMERS.index("missile")]
    for frame, mech in np.argwhere(np.diff(timer, axis=0) > 0).tolist():
        smoke = timer[frame + 1, mech] > MISSILE.cooldown_ticks
        yield Launch("smoke" if smoke else "missile", frame + 1, mech)


def _intercepts(footage: Footage) -> Iterator[Intercept]:
    downed = footage["intercepted"]
    for frame, mech in np.argwhere(downed[1:] > 0).tolist():
        yield Intercept("intercept", frame + 1, mech, int(downed[frame + 1, mech]))


def _paints(footage: Footage) -> Iterator[Paint]:
    painter = footage["painted_by"]
    for frame, mech in _began(painter >= 0):
        yield Paint("paint", frame, mech, int(painter[frame, mech]))


def _status_changes(footage: Footage, setting: Setting) -> Iterator[StatusChange]:
    alive = footage["hp"] > 0.0
    for frame, mech in _began(shut_down(footage, setting)):
        yield StatusChange("shutdown", frame, mech)
    for frame, mech in _began(alive & (footage["fallen_ticks"] > 0)):
        yield StatusChange("fall", frame, mech)
    for frame, mech in _began(alive & (footage["leg_hp"] <= 0.0)):
        yield StatusChange("legs", frame, mech)


def _kills(footage: Footage) -> Iterator[Kill]:
    for frame, mech in _began(footage["hp"] <= 0.0):
        shares = footage["killed"][frame, :, mech]
        killer = int(np.argmax(shares)) if shares.max() > 0.0 else None
        helped = (shares > 0.0) | (footage["assists"][frame, :, mech] > 0.0)
        assists = tuple(int(index) for index in np.flatnonzero(helped) if index != killer)
        yield Kill("kill", frame, mech, killer, assists)


def _zone_changes(footage: Footage) -> Iterator[ZoneChange]:
    holders = [_holder(float(home), float(away)) for home, away in footage["zone_tick"]]
    holders[0] = "nobody"
    for frame in range(1, len(holders)):
        if holders[frame] != holders[frame - 1]:
            yield ZoneChange("zone", frame, holders[frame - 1], holders[frame])


def _holder(home: float, away: float) -> Holder:
    if home > 0.0:
        return "contested" if away > 0.0 else "home"
    return "away" if away > 0.0 else "nobody"
