"""A decision of every match as NVIDIA Warp kernels, a thread for each: what is looked up is a few numbers a match.

S histories, I information states, K actions, D floats of an observation, M moves and J outcomes, as in `moves.py`; E
matches of two sides. Kernels are Warp's language, not Python's: Warp checks their types.
"""

from arena.environments.adapters.openspiel.tables import START
from arena.environments.adapters.openspiel.tree import NONE
from arena.native.rng_kernels import derive
from arena.native.warp import wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.struct
class Game:
    """Tables of the game; those by information state end in a row for whoever does not act."""

    known: wp.array2d[wp.int32]
    """(S, 2) information state of either side, I where it does not act."""
    observation: wp.array2d[wp.float32]
    """(I + 1, D)."""
    legal: wp.array2d[wp.bool]
    """(I + 1, K)."""
    rank: wp.array2d[wp.int32]
    """(I + 1, K) of each action among the legal ones; NONE where it is not."""
    first: wp.array[wp.int32]
    stride: wp.array[wp.int32]
    certain: wp.array[wp.int32]
    edge: wp.array[wp.float64]
    outcome: wp.array[wp.int32]
    """See `Moves`."""
    terminal: wp.array[wp.bool]
    decisions: wp.array[wp.int64]
    reward: wp.array2d[wp.float32]
    score: wp.array[wp.float64]
    """(S,) or (S, 2): what is said of a node; home's score is 0.5 where the game goes on."""


@wp.struct
class Matches:
    """State of the matches, and what is done in them."""

    node: wp.array[wp.int32]
    seeds: wp.array[wp.int64]
    next_seeds: wp.array[wp.int64]
    row_seeds: wp.array[wp.int64]
    episodes: wp.array[wp.int64]
    """(E,) each; see `SeededRows`."""
    action: wp.array2d[wp.int64]
    """(E, 2) what both sides choose."""
    move: wp.array[wp.int32]
    """(E,) what that comes to."""


@wp.struct
class View:
    """What both sides perceive."""

    values: wp.array3d[wp.float32]
    mask: wp.array3d[wp.bool]
    active: wp.array2d[wp.bool]


@wp.struct
class Report:
    """What came of a decision."""

    illegal: wp.array2d[wp.bool]
    """(E, 2) who acts and chose what it may not."""
    reward: wp.array2d[wp.float32]
    terminated: wp.array[wp.bool]
    score: wp.array[wp.float64]
    decisions: wp.array[wp.int64]


@wp.func
def draw(g: Game, move: int, seed: wp.int64, decisions: wp.int64) -> int:
    """Where a move leads, by what chance does after so many decisions."""
    chance = wp.float64(derive(seed, decisions) >> wp.int64(39)) * wp.float64(wp.static(2.0**-24))
    target = wp.float64(move) + chance
    low, high = wp.int32(0), g.edge.shape[0]
    while low < high:
        middle = (low + high) // 2
        if g.edge[middle] > target:
            high = middle
        else:
            low = middle + 1
    return g.outcome[low]


@wp.func
def tell(g: Game, v: View, e: int, node: int) -> None:
    """Tell both sides of a match what they know at a node."""
    idle = g.observation.shape[0] - 1
    for agent in range(2):
        known = g.known[node, agent]
        v.active[e, agent] = known != idle
        for place in range(g.observation.shape[1]):
            v.values[e, agent, place] = g.observation[known, place]
        for option in range(g.legal.shape[1]):
            v.mask[e, agent, option] = g.legal[known, option]


@wp.func
def find_rank(g: Game, known: int, action: wp.int64) -> int:
    """Place of a choice among the legal ones; NONE where it is illegal. Whoever does not act does its first."""
    if known == g.observation.shape[0] - 1:
        return 0
    if action < wp.int64(0) or action >= wp.int64(g.rank.shape[1]):
        return wp.static(NONE)
    return g.rank[known, int(action)]


@wp.kernel
def choose(g: Game, m: Matches, r: Report) -> None:
    """Find the move that actions come to, and who may not do what it chose."""
    e = wp.tid()
    node = m.node[e]
    home = find_rank(g, g.known[node, 0], m.action[e, 0])
    away = find_rank(g, g.known[node, 1], m.action[e, 1])
    r.illegal[e, 0] = home == wp.static(NONE)
    r.illegal[e, 1] = away == wp.static(NONE)
    m.move[e] = g.first[node] + home * g.stride[node] + away


@wp.kernel
def follow(g: Game, m: Matches, r: Report, final: View, v: View) -> None:
    """Take every match to where its move leads, and open the next one where that is the end."""
    e = wp.tid()
    move = m.move[e]
    node = g.certain[move]
    if node == wp.static(NONE):
        node = draw(g, move, m.seeds[e], g.decisions[m.node[e]] + wp.int64(1))
    tell(g, final, e, node)
    r.reward[e, 0] = g.reward[node, 0]
    r.reward[e, 1] = g.reward[node, 1]
    r.terminated[e] = g.terminal[node]
    r.score[e] = g.score[node]
    r.decisions[e] = g.decisions[node]
    if g.terminal[node]:
        m.seeds[e] = m.next_seeds[e]
        m.episodes[e] = m.episodes[e] + wp.int64(1)
        m.next_seeds[e] = derive(m.row_seeds[e], m.episodes[e])
        node = draw(g, wp.static(START), m.seeds[e], wp.int64(0))
    m.node[e] = node
    tell(g, v, e, node)


@wp.kernel
def begin(g: Game, m: Matches, v: View) -> None:
    """Put every match where chance puts it before anybody acts."""
    e = wp.tid()
    node = draw(g, wp.static(START), m.seeds[e], wp.int64(0))
    m.node[e] = node
    tell(g, v, e, node)
