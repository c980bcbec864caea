"""The stages of a decision as kernels with a thread for every mech: how a GPU runs them.

The order is that of `playing` and `perceiving`, and so are the results: a stage writes its own mech's entries only.
"""

from typing import no_type_check

import warp as wp

from arena.environments.mech.kernels import MODULE_OPTIONS
from arena.environments.mech.kernels.damage import resolve_mech
from arena.environments.mech.kernels.earnings import earn_mech, share_mech
from arena.environments.mech.kernels.movement import collide_mech, integrate_mech
from arena.environments.mech.kernels.objective import score_match
from arena.environments.mech.kernels.orders import admit_mech, launch_smoke
from arena.environments.mech.kernels.perception import observe_mech
from arena.environments.mech.kernels.sight import listen_mech, look_mech
from arena.environments.mech.kernels.spawning import reopen_match, spawn_mech
from arena.environments.mech.kernels.state import Arms, Commands, Field, Hulls, Report, State, Terrain, View
from arena.environments.mech.kernels.targeting import sense_mech
from arena.environments.mech.kernels.weapons import fire_mech

wp.set_module_options(MODULE_OPTIONS)


@wp.kernel
@no_type_check
def admit(s: State, h: Hulls, f: Field, c: Commands) -> None:
    """Stage admit."""
    e, i = wp.tid()
    admit_mech(s, h, f, c, e, i)


@wp.kernel
@no_type_check
def smoke(s: State, h: Hulls, t: Terrain, c: Commands) -> None:
    """Stage smoke, one thread a match."""
    launch_smoke(s, h, t, c, wp.tid())


@wp.kernel
@no_type_check
def integrate(s: State, h: Hulls, t: Terrain, f: Field, c: Commands) -> None:
    """Stage integrate."""
    e, i = wp.tid()
    integrate_mech(s, h, t, f, c, e, i)


@wp.kernel
@no_type_check
def collide(s: State, h: Hulls, t: Terrain) -> None:
    """Stage collide."""
    e, i = wp.tid()
    collide_mech(s, h, t, e, i)


@wp.kernel
@no_type_check
def sense(s: State, h: Hulls, a: Arms, c: Commands, k: int) -> None:
    """Stage sense of the decision's tick k."""
    e, i = wp.tid()
    sense_mech(s, h, a, c, s.tick[e] + k, e, i)


@wp.kernel
@no_type_check
def fire(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, k: int) -> None:
    """Stage fire of the decision's tick k."""
    e, i = wp.tid()
    fire_mech(s, h, a, t, f, s.tick[e] + k, e, i)


@wp.kernel
@no_type_check
def resolve(s: State, h: Hulls, a: Arms, k: int) -> None:
    """Stage resolve of the decision's tick k."""
    e, i = wp.tid()
    resolve_mech(s, h, a, s.tick[e] + k, e, i)


@wp.kernel
@no_type_check
def score(s: State, h: Hulls, t: Terrain, f: Field, r: Report) -> None:
    """Stage score, one thread a match."""
    score_match(s, h, t, f, r, wp.tid())


@wp.kernel
@no_type_check
def earn(s: State, h: Hulls, t: Terrain, f: Field, r: Report) -> None:
    """Stage earn."""
    e, i = wp.tid()
    earn_mech(s, h, t, f, r, e, i)


@wp.kernel
@no_type_check
def share(s: State, h: Hulls, f: Field, r: Report) -> None:
    """Stage share."""
    e, i = wp.tid()
    share_mech(s, h, f, r, e, i)


@wp.kernel
@no_type_check
def look(s: State, h: Hulls, t: Terrain, f: Field, only_ended: bool) -> None:
    """Stage look: of all matches, or of those that have just been reopened."""
    e, i = wp.tid()
    if s.ended[e] or not only_ended:
        look_mech(s, h, t, f, e, i)


@wp.kernel
@no_type_check
def listen(s: State, h: Hulls, f: Field, only_ended: bool) -> None:
    """Second half of stage look."""
    e, i = wp.tid()
    if s.ended[e] or not only_ended:
        listen_mech(s, h, f, e, i)


@wp.kernel
@no_type_check
def observe(s: State, h: Hulls, a: Arms, t: Terrain, f: Field, v: View, only_ended: bool) -> None:
    """Stage observe."""
    e, i = wp.tid()
    if s.ended[e] or not only_ended:
        observe_mech(s, h, a, t, f, v, e, i)


@wp.kernel
@no_type_check
def reopen(s: State, t: Terrain) -> None:
    """Move every match that has ended on to its next seed, one thread a match."""
    e = wp.tid()
    if s.ended[e]:
        reopen_match(s, t, e)


@wp.kernel
@no_type_check
def spawn(s: State, h: Hulls, t: Terrain, f: Field) -> None:
    """Place the mechs of matches that have just been reopened."""
    e, i = wp.tid()
    if s.ended[e]:
        spawn_mech(s, h, t, f, e, i)
