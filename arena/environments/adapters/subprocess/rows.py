"""Stepping of some rows of a batch, one match after another, within one process."""

from enum import Enum

from arena.environments.adapters.match import MatchEnd, SingleMatchGame
from arena.environments.adapters.subprocess.buffers import GOING_ON, TERMINATED, TRUNCATED, Buffers

DRAWN = 0.5
"""Home's score while a match continues."""


class Part(Enum):
    """Rows of a batch that are stepped together: all, even or odd."""

    ALL = (0, 1)
    EVEN = (0, 2)
    ODD = (1, 2)

    def within(self, first: int, last: int) -> slice:
        """Return the slice of this part within the rows [first, last) of the batch."""
        offset, stride = self.value
        return slice(first + (offset - first) % stride, last, stride)


class Rows:
    """Rows [first, last) of a batch, each with its own match.

    Args:
        game: The game.
        buffers: Arrays with the actions and for the results.
        first: First row.
        last: Row after the last.
    """

    def __init__(self, game: SingleMatchGame, buffers: Buffers, first: int, last: int) -> None:
        self._name, self._limit, self._in_turns = game.spec.name, game.spec.max_decisions, game.spec.turn_based
        self._buffers = buffers
        self._matches = [(row, buffers.row(row), game.open_match()) for row in range(first, last)]
        own = {part: part.within(first, last) for part in Part}
        self._shares = {
            part: (self._matches[rows.start - first :: rows.step], buffers.part(rows)) for part, rows in own.items()
        }

    def open(self, part: Part) -> None:
        """Open a match in every row of a part, by its seed."""
        matches, buffers = self._shares[part]
        _forget(buffers)
        buffers.seen.clear()
        for row, arrays, match in matches:
            match.reset(int(self._buffers.seeds[row]), arrays)
        buffers.decisions[:] = 0

    def step(self, part: Part) -> None:
        """Play one decision of every row of a part, and open the next match in rows that ended."""
        matches, buffers = self._shares[part]
        # The count of a match that has ended stays visible until the next decision.
        buffers.decisions[:] *= buffers.ending == GOING_ON
        buffers.decisions[:] += 1
        _forget(buffers)
        # Only the agent that moves writes its observation.
        if self._in_turns:
            buffers.seen.clear()
        for row, arrays, match in matches:
            decisions = self._buffers.decisions[row]
            try:
                ending = match.step(arrays, last=bool(decisions >= self._limit))
                if ending is not None:
                    self._write(row, ending)
                    arrays.seen.clear()
                    match.reset(int(self._buffers.next_seeds[row]), arrays)
            except BaseException as error:
                error.add_note(f"in decision {decisions} of match {row} of {self._name}")
                raise

    def _write(self, row: int, ending: MatchEnd) -> None:
        buffers = self._buffers
        buffers.ending[row] = TRUNCATED if ending.truncated else TERMINATED
        buffers.score[row], buffers.reason[row] = ending.score, ending.reason


def _forget(buffers: Buffers) -> None:
    """Reset all rows to the default: no reward and no end."""
    buffers.ending[:], buffers.score[:], buffers.reason[:] = GOING_ON, DRAWN, 0
    buffers.reward[:] = 0.0
