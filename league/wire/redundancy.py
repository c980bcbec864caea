"""Snapshots that a league could do without."""

from league.wire.bodies import Answer
from league.wire.fingerprint import Likeness
from league.wire.players import PlayerName, Standing


class Redundancy(Answer):
    """A snapshot that scores like another one, which is no weaker and stays.

    `distance` is the root mean square difference of their win rates against the `opponents` that both met, estimated
    with the noise taken off; with 95 % confidence it is at most `bound`. Where it is known of both how they play, they
    are alike in that, too: `behaviour` says how far apart they are. Where it is null, results alone decided.
    """

    environment: str
    player: PlayerName
    standing: Standing
    twin: PlayerName
    distance: float
    bound: float
    opponents: int
    behaviour: Likeness | None
