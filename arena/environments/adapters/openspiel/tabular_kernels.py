"""Warp kernels that play one decision of every match, one thread per match.

S histories, I information states, K actions, D floats of an observation, M moves and J outcomes, as in `tables.py`. E
matches of two sides. Kernels are written in Warp's language, whose types Warp checks itself.
"""

from arena.environments.adapters.openspiel.tables import START
from arena.environments.adapters.openspiel.tree import NONE
from arena.native.rng_kernels import derive
from arena.native.warp import wp

wp.set_module_options({"enable_backward": False, "fuse_fp": False})


@wp.struct
class Game:
    """Tables of the game. Tables by information state have an additional last row for inactive players."""

    known: wp.array2d[wp.int32]
    """(S, 2) information state of each side, I if it does not act."""
    observation: wp.array2d[wp.float32]
    """(I + 1, D)."""
    legal: wp.array2d[wp.bool]
    """(I + 1, K)."""
    rank: wp.array2d[wp.int32]
    """(I + 1, K) rank of each action among the legal ones; NONE if illegal."""
    first: wp.array[wp.int32]
    stride: wp.array[wp.int32]
    certain: wp.array[wp.int32]
    edge: wp.array[wp.float64]
    outcome: wp.array[wp.int32]
    """See `TransitionTables`."""
    terminal: wp.array[wp.bool]
    decisions: wp.array[wp.int64]
    reward: wp.array2d[wp.float32]
    score: wp.array[wp.float64]
    """(S,) or (S, 2) values of a node; home's score is 0.5 at nonterminal nodes."""


@wp.struct
class Matches:
    """State of the matches and their current actions."""

    node: wp.array[wp.int32]
    seeds: wp.array[wp.int64]
    next_seeds: wp.array[wp.int64]
    row_seeds: wp.array[wp.int64]
    episodes: wp.array[wp.int64]
    """(E,) each (see `SeededBatch`)."""
    action: wp.array2d[wp.int64]
    """(E, 2) chosen action of each side."""
    move: wp.array[wp.int32]
    """(E,) joint move."""


@wp.struct
class View:
    """Observations of both sides."""

    values: wp.array3d[wp.float32]
    mask: wp.array3d[wp.bool]
    active: wp.array2d[wp.bool]


@wp.struct
class Report:
    """Result of a decision."""

    illegal: wp.array2d[wp.bool]
    """(E, 2) true if an active side chose an illegal action."""
    reward: wp.array2d[wp.float32]
    terminated: wp.array[wp.bool]
    score: wp.array[wp.float64]
    decisions: wp.array[wp.int64]


@wp.func
def draw(g: Game, move: int, seed: wp.int64, decisions: wp.int64) -> int:
    """Sample the successor of a move, from the match's seed and the number of decisions."""
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
    """Write both sides' observations at a node."""
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
    """Return the rank of an action among the legal ones; NONE if illegal, 0 for inactive players."""
    if known == g.observation.shape[0] - 1:
        return 0
    if action < wp.int64(0) or action >= wp.int64(g.rank.shape[1]):
        return wp.static(NONE)
    return g.rank[known, int(action)]


@wp.kernel
def choose(g: Game, m: Matches, r: Report) -> None:
    """Compute the joint moves and flag illegal actions."""
    e = wp.tid()
    node = m.node[e]
    home = find_rank(g, g.known[node, 0], m.action[e, 0])
    away = find_rank(g, g.known[node, 1], m.action[e, 1])
    r.illegal[e, 0] = home == wp.static(NONE)
    r.illegal[e, 1] = away == wp.static(NONE)
    m.move[e] = g.first[node] + home * g.stride[node] + away


@wp.kernel
def follow(g: Game, m: Matches, r: Report, final: View, v: View) -> None:
    """Move every match to its successor, and open the next match after a terminal node."""
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
    """Open every match at a sampled first decision node."""
    e = wp.tid()
    node = draw(g, wp.static(START), m.seeds[e], wp.int64(0))
    m.node[e] = node
    tell(g, v, e, node)
