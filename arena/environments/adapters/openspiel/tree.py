"""Game tree as arrays: every history once, with each player's information state."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.environments.adapters.openspiel.library import TooLargeForTablesError, state_tensor

if TYPE_CHECKING:
    from pyspiel import Game, State


MAX_NODES = 600_000
"""Most histories of a game. Unrolling this many takes seconds. Tic-tac-toe, the largest common game, has 549,946."""

MAX_FLOATS = 2**24
"""Most floats of all information state tensors together: 64 MiB."""

SMALLER = (
    "choose a smaller game, or parameters that make it smaller, such as openspiel:liars_dice(dice_sides=4); without "
    "exact values this one can be played"
)
"""Advice for a game that is too large."""

NONE = -1
"""Missing node, information state or choice."""

HOME, AWAY = range(2)


@dataclass(frozen=True, eq=False)
class GameTree:
    """A game of S histories (nodes), I information states of both players together, and K actions.

    OpenSpiel's first player is home, its second away. Node 0 is the root, and parents precede their children. A choice
    is the number i * K + a of action a in information state i.

    Attributes:
        parent: (S,) parent node; NONE for the root.
        chance: (S,) product of the chance probabilities on the path, in (0, 1].
        choice: (S, 2) last choice of each player on the path; NONE if there is none.
        decisions: (S,) decisions on the path; a simultaneous one counts once, chance nodes do not count.
        information_state: (S, 2) information state of each player that acts here; NONE for one that does not.
        terminal: (S,) whether the game is over.
        home_return: (S,) home's return at terminal nodes, in the game's units. 0 elsewhere. Away's is the negative.
        names: (I,) OpenSpiel's name of each information state.
        side: (I,) player of each information state, HOME or AWAY.
        legal: (I, K) legal actions.
        tensor: (I, D) float32, OpenSpiel's tensor of each information state.
    """

    parent: IntArray
    chance: FloatArray
    choice: IntArray
    decisions: IntArray
    information_state: IntArray
    terminal: BoolArray
    home_return: FloatArray
    names: tuple[str, ...]
    side: IntArray
    legal: BoolArray
    tensor: NDArray[np.float32]

    @property
    def acting(self) -> BoolArray:
        """(S, 2) true for each player that acts at a node."""
        acting: BoolArray = self.information_state != NONE
        return acting


def unroll(name: str, game: "Game", *, max_nodes: int = MAX_NODES, max_floats: int = MAX_FLOATS) -> GameTree:
    """Unroll a game by visiting every history.

    Raises:
        TooLargeForTablesError: It has more histories or floats than allowed.
    """
    nodes, known = _Nodes(), _InformationStates(game)
    # An explicit stack, because deep games would exceed Python's recursion limit.
    ahead = [_Visit(game.new_initial_state(), NONE, 1.0, (NONE, NONE), 0)]
    while ahead:
        visit = ahead.pop()
        _require_room(name, "histories", len(nodes.parent) + 1, max_nodes)
        _require_room(name, "floats in its information states", known.floats, max_floats)
        movers = acting(visit.state)
        states = tuple(known.number(visit.state, side) if side in movers else NONE for side in (HOME, AWAY))
        ahead.extend(_visits_behind(visit, len(nodes.parent), states, game.num_distinct_actions()))
        nodes.add(visit, states)
    return nodes.tree(known)


def _require_room(name: str, what: str, count: int, most: int) -> None:
    if count > most:
        raise TooLargeForTablesError(f"{name} has more than {most:,} {what}, the most that are unrolled: {SMALLER}")


class _Visit(NamedTuple):
    """A history to visit, with the columns of `GameTree` known so far."""

    state: "State"
    parent: int
    chance: float
    choice: tuple[int, ...]
    decisions: int


def acting(state: "State") -> tuple[int, ...]:
    """Return the sides that act in a state: none, one, or both at once."""
    if state.is_terminal() or state.is_chance_node():
        return ()
    return (HOME, AWAY) if state.is_simultaneous_node() else (state.current_player(),)


def _visits_behind(visit: _Visit, number: int, information: tuple[int, ...], actions: int) -> Iterator[_Visit]:
    """Yield the successors of a history."""
    state, movers = visit.state, acting(visit.state)
    if state.is_chance_node():
        for outcome, probability in state.chance_outcomes():
            yield _Visit(state.child(outcome), number, visit.chance * probability, visit.choice, visit.decisions)
    if not movers:
        return
    for taken in product(*(state.legal_actions(side) for side in movers)):
        choice = list(visit.choice)
        for side, action in zip(movers, taken, strict=True):
            choice[side] = information[side] * actions + action
        yield _Visit(_after(state, taken), number, visit.chance, tuple(choice), visit.decisions + 1)


def _after(state: "State", taken: tuple[int, ...]) -> "State":
    if not state.is_simultaneous_node():
        return state.child(taken[0])
    after = state.clone()
    after.apply_actions(taken)
    return after


class _Nodes:
    """Columns of `GameTree` with a row per history."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self._chance: list[float] = []
        self._choice: list[tuple[int, ...]] = []
        self._decisions: list[int] = []
        self._information_state: list[tuple[int, ...]] = []
        self._home_return: list[float] = []
        self._terminal: list[bool] = []

    def add(self, visit: _Visit, information_state: tuple[int, ...]) -> None:
        over = visit.state.is_terminal()
        self.parent.append(visit.parent)
        self._chance.append(visit.chance)
        self._choice.append(visit.choice)
        self._decisions.append(visit.decisions)
        self._information_state.append(information_state)
        self._terminal.append(over)
        self._home_return.append(visit.state.returns()[HOME] if over else 0.0)

    def tree(self, known: "_InformationStates") -> GameTree:
        return GameTree(
            parent=np.array(self.parent, dtype=np.int64),
            chance=np.array(self._chance, dtype=np.float64),
            choice=np.array(self._choice, dtype=np.int64),
            decisions=np.array(self._decisions, dtype=np.int64),
            information_state=np.array(self._information_state, dtype=np.int64),
            terminal=np.array(self._terminal, dtype=np.bool_),
            home_return=np.array(self._home_return, dtype=np.float64),
            names=known.names,
            side=known.side,
            legal=known.legal,
            tensor=known.tensor,
        )


class _InformationStates:
    """Information states in order of discovery, with columns of one row each."""

    def __init__(self, game: "Game") -> None:
        self._actions = game.num_distinct_actions()
        self._numbers: dict[tuple[int, str], int] = {}
        self._options: list[list[int]] = []
        self._tensors: list[NDArray[np.float32]] = []

    @property
    def floats(self) -> int:
        """Number of floats of all tensors."""
        return len(self._tensors) * len(self._tensors[0]) if self._tensors else 0

    def number(self, state: "State", side: int) -> int:
        key = (side, state.information_state_string(side))
        # The side is part of the key, because both players may have a state of the same name.
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._options):
            self._options.append(state.legal_actions(side))
            self._tensors.append(state_tensor(state, side))
        return number

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self._numbers)

    @property
    def side(self) -> IntArray:
        return np.array([side for side, _ in self._numbers], dtype=np.int64)

    @property
    def legal(self) -> BoolArray:
        legal = np.zeros((len(self._options), self._actions), dtype=np.bool_)
        for number, actions in enumerate(self._options):
            legal[number, actions] = True
        return legal

    @property
    def tensor(self) -> NDArray[np.float32]:
        return np.stack(self._tensors)
