"""Warp kernels that play one decision of every match, one thread per match.

S histories, I information states, K actions, D floats of an observation, M moves and J outcomes, as in `tables.py`. E
matches of two sides. Kernels are written in Warp's language, whose types Warp checks itself.
"""

from arena.environments.adapters.openspiel.tables import START
from arena.environments.adapters.openspiel.tree import NONE
from arena.native.rng_kernels import derive
from arena.native.warp import device_function, wp

# Without fused operations a CPU and a GPU round alike.
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


@device_function
def draw(game: Game, move: int, seed: wp.int64, decisions: wp.int64) -> int:
    """Sample the successor of a move, from the match's seed and the number of decisions."""
    # In steps of 2^-24, like all random numbers of kernels.
    chance = wp.float64(derive(seed, decisions) >> wp.int64(39)) * wp.float64(wp.static(2.0**-24))
    # Edges are cumulative probabilities plus the number of their move, so one sorted array serves all moves.
    target = wp.float64(move) + chance
    low, high = wp.int32(0), game.edge.shape[0]
    while low < high:
        middle = (low + high) // 2
        if game.edge[middle] > target:
            high = middle
        else:
            low = middle + 1
    return game.outcome[low]


@device_function
def write_observation(game: Game, view: View, env: int, node: int) -> None:
    """Write both sides' observations at a node."""
    idle = game.observation.shape[0] - 1
    for agent in range(2):
        known = game.known[node, agent]
        view.active[env, agent] = known != idle
        for place in range(game.observation.shape[1]):
            view.values[env, agent, place] = game.observation[known, place]
        for option in range(game.legal.shape[1]):
            view.mask[env, agent, option] = game.legal[known, option]


@device_function
def find_rank(game: Game, known: int, action: wp.int64) -> int:
    """Return the rank of an action among the legal ones; NONE if illegal, 0 for inactive players."""
    if known == game.observation.shape[0] - 1:
        return 0
    if action < wp.int64(0) or action >= wp.int64(game.rank.shape[1]):
        return wp.static(NONE)
    return game.rank[known, int(action)]


@wp.kernel
def choose(game: Game, matches: Matches, report: Report) -> None:
    """Compute the joint moves and flag illegal actions."""
    env = wp.tid()
    node = matches.node[env]
    home = find_rank(game, game.known[node, 0], matches.action[env, 0])
    away = find_rank(game, game.known[node, 1], matches.action[env, 1])
    report.illegal[env, 0] = home == wp.static(NONE)
    report.illegal[env, 1] = away == wp.static(NONE)
    matches.move[env] = game.first[node] + home * game.stride[node] + away


@wp.kernel
def follow(game: Game, matches: Matches, report: Report, final: View, view: View) -> None:
    """Move every match to its successor, and open the next match after a terminal node."""
    env = wp.tid()
    move = matches.move[env]
    node = game.certain[move]
    if node == wp.static(NONE):
        node = draw(game, move, matches.seeds[env], game.decisions[matches.node[env]] + wp.int64(1))
    write_observation(game, final, env, node)
    report.reward[env, 0] = game.reward[node, 0]
    report.reward[env, 1] = game.reward[node, 1]
    report.terminated[env] = game.terminal[node]
    report.score[env] = game.score[node]
    report.decisions[env] = game.decisions[node]
    if game.terminal[node]:
        matches.seeds[env] = matches.next_seeds[env]
        matches.episodes[env] = matches.episodes[env] + wp.int64(1)
        matches.next_seeds[env] = derive(matches.row_seeds[env], matches.episodes[env])
        node = draw(game, wp.static(START), matches.seeds[env], wp.int64(0))
    matches.node[env] = node
    write_observation(game, view, env, node)


@wp.kernel
def begin(game: Game, matches: Matches, view: View) -> None:
    """Open every match at a sampled first decision node."""
    env = wp.tid()
    node = draw(game, wp.static(START), matches.seeds[env], wp.int64(0))
    matches.node[env] = node
    write_observation(game, view, env, node)
