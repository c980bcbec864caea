"""A game tree as tables that are looked up: what may be done at a node, and where it leads.

Chance between two decisions is one draw: a move (a start, or what the players at a node do together) leads to one of
its outcomes, each a node where somebody acts or the game is over.
"""

from dataclasses import dataclass

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.environments.adapters.openspiel.tree import AWAY, HOME, NONE, GameTree

START = 0
"""The move that opens a match."""


@dataclass(frozen=True)
class TransitionTables:
    """Every move of a game of S nodes, I information states and K actions, and what comes of it.

    Move m leads to node `outcome[j]` where m + u is below `edge[j]` for the first time, u uniform in [0, 1).

    Attributes:
        first: (S,) move of a node where every player chooses its first legal action.
        stride: (S,) by how many moves one more of home's legal actions counts; one more of away's counts 1.
        rank: (I, K) place of a choice among the legal actions of its information state; NONE where it is illegal.
        certain: (M,) node that a move leads to; NONE where chance has a say.
        edge: (J,) float64, increasing.
        outcome: (J,) nodes.
    """

    first: IntArray
    stride: IntArray
    rank: IntArray
    certain: IntArray
    edge: FloatArray
    outcome: IntArray

    @classmethod
    def of(cls, tree: GameTree) -> "TransitionTables":
        """Number the moves of a tree node by node, after the one that opens a match."""
        rank = np.where(tree.legal, tree.legal.cumsum(axis=1) - 1, NONE)
        options = np.where(tree.acting, tree.legal.sum(axis=1)[tree.information_state], 1)
        decisive = tree.acting.any(axis=1)
        count = np.where(decisive, options.prod(axis=1), 0)
        first = START + 1 + count.cumsum() - count
        stops = np.flatnonzero(decisive | tree.terminal)
        move = _move_before(tree, stops, first, options[:, AWAY], rank.ravel())
        order = np.argsort(move, kind="stable")
        move, outcome = move[order], stops[order]
        return cls(
            first=first,
            stride=options[:, AWAY],
            rank=rank,
            certain=np.where(np.bincount(move) == 1, outcome[np.searchsorted(move, np.arange(move[-1] + 1))], NONE),
            edge=_edges(move, tree.chance[outcome]),
            outcome=outcome,
        )


def _move_before(tree: GameTree, stops: IntArray, first: IntArray, stride: IntArray, rank: IntArray) -> IntArray:
    """The move that leads to each of `stops`."""
    origin = _last_decision(tree, stops)
    taken = np.where(tree.acting[origin], rank[tree.choice[stops]], 0)
    return np.where(origin == NONE, START, first[origin] + taken[:, HOME] * stride[origin] + taken[:, AWAY])


def _last_decision(tree: GameTree, nodes: IntArray) -> IntArray:
    """The last node before each at which somebody acted; NONE where nobody had yet."""
    origin = tree.parent[nodes]
    while (by_chance := _is_chance(tree, origin)).any():
        origin = np.where(by_chance, tree.parent[origin], origin)
    return origin


def _is_chance(tree: GameTree, nodes: IntArray) -> BoolArray:
    by_chance: BoolArray = (nodes != NONE) & ~tree.acting[nodes].any(axis=1)
    return by_chance


def _edges(move: IntArray, weight: FloatArray) -> FloatArray:
    """Upper edge of each outcome: its move, and the share of the move's weight up to it; exactly 1 for the last."""
    total = np.bincount(move, weights=weight)
    before = np.concatenate([[0.0], total.cumsum()])
    share = (weight.cumsum() - before[move]) / total[move]
    share[np.append(move[1:] != move[:-1], True)] = 1.0
    edges: FloatArray = share + move
    return edges
