"""A whole game as arrays: every history once, and what each player knows in it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.environments.adapters.openspiel.library import TooLargeForTablesError, tell

if TYPE_CHECKING:
    from pyspiel import Game, State


MAX_NODES = 600_000
"""Most histories of a game: unrolling so many takes seconds. Tic-tac-toe, the largest usual one, has 549,946."""

MAX_FLOATS = 2**24
"""Most floats that the tensors of all information states may have together: 64 MiB."""

SMALLER = (
    "choose a smaller game, or parameters that make it smaller, such as openspiel:liars_dice(dice_sides=4); without "
    "exact values this one can be played"
)
"""What to do about a game that is too large."""

NONE = -1
"""Stands for no node, no information state and no choice."""

HOME, AWAY = range(2)


@dataclass(frozen=True, eq=False)
class GameTree:
    """A game of S histories (nodes), I information states of both players together, and K actions.

    OpenSpiel's first player is home, its second away. Node 0 is the root, and parents come before their children. A
    choice is the number i * K + a of action a in information state i.

    Attributes:
        parent: (S,) the node before; NONE for the root.
        chance: (S,) probability that chance leads here if both players want to, in (0, 1].
        choice: (S, 2) last choice of each player on the way here; NONE where it had none yet.
        decisions: (S,) decisions on the way here; a simultaneous one counts once, chance does not count.
        information_state: (S, 2) of each player who acts here; NONE for one who does not.
        terminal: (S,) whether the game is over.
        home_return: (S,) what home has won in the end, in the game's units; 0 before it. Away has lost as much.
        names: (I,) what OpenSpiel calls an information state of that side.
        side: (I,) whose information state it is, HOME or AWAY.
        legal: (I, K) actions that may be chosen.
        tensor: (I, D) float32, what OpenSpiel tells of an information state.
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
        """Who acts: (S, 2)."""
        acting: BoolArray = self.information_state != NONE
        return acting


def unroll(name: str, game: "Game", *, max_nodes: int = MAX_NODES, max_floats: int = MAX_FLOATS) -> GameTree:
    """Visit every history of a game.

    Raises:
        NoTablesError: It has more histories, or takes more floats to tell its information states, than are allowed.
    """
    nodes, known = _Nodes(), _InformationStates(game)
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
    """A history that is yet to be looked at, with what `GameTree` says of the way there."""

    state: "State"
    parent: int
    chance: float
    choice: tuple[int, ...]
    decisions: int


def acting(state: "State") -> tuple[int, ...]:
    """Sides that act in a state: none, one, or both at once."""
    if state.is_terminal() or state.is_chance_node():
        return ()
    return (HOME, AWAY) if state.is_simultaneous_node() else (state.current_player(),)


def _visits_behind(visit: _Visit, number: int, information: tuple[int, ...], actions: int) -> Iterator[_Visit]:
    """The histories that are one step longer."""
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
    """Columns of `GameTree` that have a row for every history."""

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
    """Information states in the order in which they are met, and columns that have a row for each."""

    def __init__(self, game: "Game") -> None:
        self._actions = game.num_distinct_actions()
        self._numbers: dict[tuple[int, str], int] = {}
        self._options: list[list[int]] = []
        self._told: list[NDArray[np.float32]] = []

    @property
    def floats(self) -> int:
        """Of all tensors together."""
        return len(self._told) * len(self._told[0]) if self._told else 0

    def number(self, state: "State", side: int) -> int:
        key = (side, state.information_state_string(side))
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self._options):
            self._options.append(state.legal_actions(side))
            self._told.append(tell(state, side))
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
        return np.stack(self._told)
