"""OpenSpiel games that are too large for tables, one match at a time."""

from typing import TYPE_CHECKING

import numpy as np

from arena.environments.adapters.match import MatchEnd, ObservationBuffer, Row, SingleMatchGame
from arena.environments.adapters.openspiel.declare import HEAD, declare_openspiel, largest_return
from arena.environments.adapters.openspiel.library import load_game, state_tensor
from arena.environments.adapters.openspiel.tree import AWAY, HOME, acting
from arena.environments.adapters.sides import END, LIMIT

if TYPE_CHECKING:
    from pyspiel import Game


class StateMatch:
    """Plays one match after another; chance outcomes are sampled from the match's seed."""

    def __init__(self, game: "Game") -> None:
        self._game, self._largest = game, largest_return(game)

    def reset(self, seed: int, row: Row) -> None:
        """Open a match (see `Match.reset`)."""
        self._state, self._rng = self._game.new_initial_state(), np.random.default_rng(seed)
        self._settle()
        self._show(acting(self._state), row.seen)

    def step(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Apply the actions of the acting sides (see `Match.step`)."""
        chosen = row.actions[HEAD]
        if self._state.is_simultaneous_node():
            self._state.apply_actions([int(chosen[HOME]), int(chosen[AWAY])])
        else:
            self._state.apply_action(int(chosen[self._state.current_player()]))
        self._settle()
        over = self._state.is_terminal()
        if over or last:
            return self._end(row, truncated=not over)
        row.seen.clear()
        self._show(acting(self._state), row.seen)
        return None

    def _settle(self) -> None:
        """Sample chance nodes until a side acts or the game is over."""
        while self._state.is_chance_node():
            outcomes, shares = zip(*self._state.chance_outcomes(), strict=True)
            edges = np.cumsum(shares)
            # Scaled by the last edge, because probabilities add up to 1 only up to rounding.
            index = np.searchsorted(edges, self._rng.random() * edges[-1], side="right")
            self._state.apply_action(outcomes[min(int(index), len(outcomes) - 1)])

    def _show(self, sides: tuple[int, ...], sight: ObservationBuffer) -> None:
        for side in sides:
            sight.values[side, :-1], sight.values[side, -1] = state_tensor(self._state, side), side
            sight.masks[HEAD][side, self._state.legal_actions(side)] = True
            sight.active[side] = True

    def _end(self, row: Row, *, truncated: bool) -> MatchEnd:
        returns = self._state.returns()
        row.reward[:] = returns
        row.final.clear()
        if truncated:
            self._show((HOME, AWAY), row.final)
        return MatchEnd(truncated, 0.5 + returns[HOME] / (2.0 * self._largest), LIMIT if truncated else END)


def host_openspiel(name: str) -> SingleMatchGame:
    """Return `openspiel:GAME` as a single-match game."""
    game = load_game(name)
    return SingleMatchGame(declare_openspiel(name), lambda: StateMatch(game))
