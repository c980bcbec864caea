"""Perception on a CPU: one thread lets everybody in match after match look, listen and observe."""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.perception import observe_mech
from arena.environments.mech.kernels.sight import listen_mech, look_mech
from arena.environments.mech.kernels.state import Arms, Field, Hulls, State, Terrain, View

wp.set_module_options(MODULE_OPTIONS)


@wp.func(inline=True)
@no_type_check
def perceive_match(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, v: View, e: int) -> None:
    """Write down what everybody in a match perceives."""
    mechs = s.hp.shape[1]
    for i in range(mechs):
        look_mech(s, h, t, f, e, i)
    for i in range(mechs):
        listen_mech(s, h, f, e, i)
    for i in range(mechs):
        observe_mech(s, h, a, t, f, v, e, i)


@wp.kernel
@no_type_check
def perceive(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, v: View, only_ended: bool) -> None:
    """Write down what everybody perceives, or only in matches that have just been reopened."""
    for e in range(s.hp.shape[0]):
        if s.ended[e] or not only_ended:
            perceive_match(s, h, a, t, f, v, e)
