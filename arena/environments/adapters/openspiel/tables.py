"""Lookup tables of a game tree: legal actions of a node, and its successors.

Consecutive chance nodes are merged into one sample: a move (the start, or the joint action at a node) leads to one of
its outcomes, each a decision node or a terminal node.
"""

from dataclasses import dataclass

import numpy as np

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.environments.adapters.openspiel.tree import AWAY, HOME, NONE, GameTree

START = 0
"""The move that opens a match."""


@dataclass(frozen=True)
class TransitionTables:
    """All moves of a game of S nodes, I information states and K actions, with their outcomes.

    Move m leads to node `outcome[j]` with the first j for which m + u is below `edge[j]`, u uniform in [0, 1).

    Attributes:
        first: (S,) move of a node at which every player chooses its first legal action.
        stride: (S,) increment of the move per legal action of home; the increment per action of away is 1.
        rank: (I, K) rank of an action among the legal ones of its information state; NONE if illegal.
        certain: (M,) successor of a deterministic move; NONE for a stochastic one.
        edge: (J,) float64, increasing cumulative probabilities, offset by the move.
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
        """Number the moves of a tree node by node, after the start."""
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
    """Return the move that leads to each of `stops`."""
    origin = _last_decision(tree, stops)
    taken = np.where(tree.acting[origin], rank[tree.choice[stops]], 0)
    return np.where(origin == NONE, START, first[origin] + taken[:, HOME] * stride[origin] + taken[:, AWAY])


def _last_decision(tree: GameTree, nodes: IntArray) -> IntArray:
    """Return the last decision node before each node; NONE if there is none."""
    origin = tree.parent[nodes]
    while (by_chance := _is_chance(tree, origin)).any():
        origin = np.where(by_chance, tree.parent[origin], origin)
    return origin


def _is_chance(tree: GameTree, nodes: IntArray) -> BoolArray:
    by_chance: BoolArray = (nodes != NONE) & ~tree.acting[nodes].any(axis=1)
    return by_chance


def _edges(move: IntArray, weight: FloatArray) -> FloatArray:
    """Return the upper edge of each outcome: its move plus the cumulative probability; exactly 1 for the last."""
    total = np.bincount(move, weights=weight)
    before = np.concatenate([[0.0], total.cumsum()])
    share = (weight.cumsum() - before[move]) / total[move]
    share[np.append(move[1:] != move[:-1], True)] = 1.0
    edges: FloatArray = share + move
    return edges
