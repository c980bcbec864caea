"""A decision of every match as NVIDIA Warp kernels, a thread for each: what is looked up is a few numbers a match.

S histories, I information states, K actions, D floats of an observation, M moves and J outcomes, as in `moves.py`; E
matches of two sides. Kernels are Warp's language, not Python's: Warp checks their types.
"""

from arena.environments.adapters.openspiel.tables import START
from arena.environments.adapters.openspiel.tree import NONE
from arena.native.rng_kernels import derive
from arena.native.warp import device_function, wp

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


@device_function
def draw(game: Game, move: int, seed: wp.int64, decisions: wp.int64) -> int:
    """Where a move leads, by what chance does after so many decisions."""
    chance = wp.float64(derive(seed, decisions) >> wp.int64(39)) * wp.float64(wp.static(2.0**-24))
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
def tell(game: Game, view: View, env: int, node: int) -> None:
    """Tell both sides of a match what they know at a node."""
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
    """Place of a choice among the legal ones; NONE where it is illegal. Whoever does not act does its first."""
    if known == game.observation.shape[0] - 1:
        return 0
    if action < wp.int64(0) or action >= wp.int64(game.rank.shape[1]):
        return wp.static(NONE)
    return game.rank[known, int(action)]


@wp.kernel
def choose(game: Game, matches: Matches, report: Report) -> None:
    """Find the move that actions come to, and who may not do what it chose."""
    env = wp.tid()
    node = matches.node[env]
    home = find_rank(game, game.known[node, 0], matches.action[env, 0])
    away = find_rank(game, game.known[node, 1], matches.action[env, 1])
    report.illegal[env, 0] = home == wp.static(NONE)
    report.illegal[env, 1] = away == wp.static(NONE)
    matches.move[env] = game.first[node] + home * game.stride[node] + away


@wp.kernel
def follow(game: Game, matches: Matches, report: Report, final: View, view: View) -> None:
    """Take every match to where its move leads, and open the next one where that is the end."""
    env = wp.tid()
    move = matches.move[env]
    node = game.certain[move]
    if node == wp.static(NONE):
        node = draw(game, move, matches.seeds[env], game.decisions[matches.node[env]] + wp.int64(1))
    tell(game, final, env, node)
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
    tell(game, view, env, node)


@wp.kernel
def begin(game: Game, matches: Matches, view: View) -> None:
    """Put every match where chance puts it before anybody acts."""
    env = wp.tid()
    node = draw(game, wp.static(START), matches.seeds[env], wp.int64(0))
    matches.node[env] = node
    tell(game, view, env, node)
