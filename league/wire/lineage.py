"""Where a player comes from."""

from league.wire.base import Answer
from league.wire.gates import Gate
from league.wire.players import Player


class Ancestor(Answer):
    """A player of a lineage, with the gates that it was the candidate of, newest first.

    `generation` counts from the player that was asked about, which is 1; the last one is the root.
    """

    generation: int
    player: Player
    gates: list[Gate]
