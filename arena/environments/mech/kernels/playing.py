"""A decision on a CPU: integrate, collide, sense, fire, resolve, five times, then score, earn, share.

One thread takes match after match through all of it: what a match touches stays in the cache, and the structs, which
Warp passes by value, are unpacked once. `staging` is the same order for a GPU, a kernel for every stage.
"""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.damage import resolve_mech
from arena.environments.mech.kernels.earnings import earn_mech, share_mech
from arena.environments.mech.kernels.movement import collide_mech, integrate_mech
from arena.environments.mech.kernels.objective import score_match
from arena.environments.mech.kernels.orders import admit_mech, launch_smoke
from arena.environments.mech.kernels.state import Arms, Commands, Field, Hulls, Report, State, Terrain
from arena.environments.mech.kernels.targeting import sense_mech
from arena.environments.mech.kernels.weapons import fire_mech

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def play_tick(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, c: Commands, tick: int, e: int) -> None:
    """Take a match through one tick."""
    mechs = s.hp.shape[1]
    for i in range(mechs):
        integrate_mech(s, h, t, f, c, e, i)
    for i in range(mechs):
        collide_mech(s, h, t, e, i)
    for i in range(mechs):
        sense_mech(s, h, a, c, tick, e, i)
    for i in range(mechs):
        fire_mech(s, h, a, t, f, tick, e, i)
    for i in range(mechs):
        resolve_mech(s, h, a, tick, e, i)


@wp.func(inline=True)
@no_type_check
def play_match(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, c: Commands, r: Report, ticks: int, e: int) -> None:
    """Take a match from its commands to its rewards."""
    mechs = s.hp.shape[1]
    for i in range(mechs):
        admit_mech(s, h, f, c, e, i)
    launch_smoke(s, h, t, c, e)
    first = s.tick[e]
    for k in range(ticks):
        play_tick(s, h, a, t, f, c, first + k, e)
    score_match(s, h, t, f, r, e)
    for i in range(mechs):
        earn_mech(s, h, t, f, r, e, i)
    for i in range(mechs):
        share_mech(s, h, f, r, e, i)


@wp.kernel
@no_type_check
def play_decision(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, c: Commands, r: Report, ticks: int) -> None:
    """Take all matches from their commands to their rewards."""
    for e in range(s.hp.shape[0]):
        play_match(s, h, a, t, f, c, r, ticks, e)
