"""Steps some rows of a batch, one match after another: what one process has to do."""

from arena.environments.processes.buffers import GOING_ON, TERMINATED, TRUNCATED, Buffers
from arena.environments.processes.match import Ending, Hosted

DRAWN = 0.5
"""Home's score of a match that goes on."""


class Rows:
    """Rows [first, last) of a batch, each with a match of its own.

    Args:
        game: What is played.
        buffers: Where what is done is read, and what comes of it is written.
        first: The first of the rows.
        last: The one after the last.
    """

    def __init__(self, game: Hosted, buffers: Buffers, first: int, last: int) -> None:
        self._name, self._limit, self._in_turns = game.spec.name, game.spec.max_decisions, game.spec.turn_based
        self._buffers, self._part = buffers, slice(first, last)
        self._seen = buffers.seen.part(slice(first, last))
        self._places = [(row, buffers.row(row), game.open_match()) for row in range(first, last)]

    def open(self) -> None:
        """Open a match in every row, by its seed."""
        self._forget()
        self._seen.clear()
        for row, place, match in self._places:
            match.reset(int(self._buffers.seeds[row]), place)
        self._buffers.decisions[self._part] = 0

    def step(self) -> None:
        """Play one decision of every row, and open the next match where one has ended."""
        buffers = self._buffers
        buffers.decisions[self._part] *= buffers.ending[self._part] == GOING_ON
        buffers.decisions[self._part] += 1
        self._forget()
        if self._in_turns:
            self._seen.clear()
        for row, place, match in self._places:
            try:
                ending = match.step(place, last=bool(buffers.decisions[row] >= self._limit))
                if ending is not None:
                    self._write(row, ending)
                    place.seen.clear()
                    match.reset(int(buffers.next_seeds[row]), place)
            except Exception as error:
                error.add_note(f"in decision {buffers.decisions[row]} of match {row} of {self._name}")
                raise

    def _forget(self) -> None:
        """Say of all rows what holds of most: nothing is earned, and nothing ends."""
        part, buffers = self._part, self._buffers
        buffers.ending[part], buffers.score[part], buffers.reason[part] = GOING_ON, DRAWN, 0
        buffers.reward[part] = 0.0

    def _write(self, row: int, ending: Ending) -> None:
        buffers = self._buffers
        buffers.ending[row] = TRUNCATED if ending.truncated else TERMINATED
        buffers.score[row], buffers.reason[row] = ending.score, ending.reason
