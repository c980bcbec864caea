"""The alias `champion` of an environment."""

from datetime import datetime

from league.wire.base import Answer, Id, Request, Text
from league.wire.players import Player, PlayerName


class ChampionRequest(Request):
    """Who is to be champion of its environment; a candidate becomes a commander by it.

    It does so only if the champion is still `expected`: the player id of the one that the caller saw, null for nobody.
    """

    player_id: Id
    reason: Text = ""
    expected: Id | None


class Champion(Answer):
    """Who holds an environment's alias `champion`: `number` counts its changes of hands, from 1."""

    environment: str
    number: int
    player: Player
    actor: str
    reason: str
    since: datetime


class ChampionChange(Answer):
    """A change of hands of the alias `champion`; `player` is null where nobody held it from then on."""

    environment: str
    number: int
    player: PlayerName | None
    actor: str
    reason: str
    since: datetime
