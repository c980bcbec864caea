"""Everybody of an environment, as matchmaking sees them: loaded once per version and shared by all requests.

A version is the last player, the last closed period and the last event, so that publishing, rating and every change of
standing show at once, in every process, for the price of three index look-ups.
"""

import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from arena.glicko2 import Ratings
from league.db.models import Event, Period, Player
from league.errors import UnknownPlayerError
from league.services import payoffs, standings
from league.services.payoffs import Count, Pair

Version = tuple[int | None, ...]


@dataclass(frozen=True)
class Member:
    """A player's unchanging side, and its standing."""

    id: int
    kind: str
    name: str
    signature: str
    standing: str | None
    checkpoint: str | None

    @property
    def plays(self) -> bool:
        """Whether it is drawn as an opponent: frozen, and not out of play."""
        return self.kind != "learner" and self.standing not in standings.OUT_OF_PLAY


@dataclass(frozen=True, eq=False)
class Population:
    """P players of one environment, in order of their ids.

    Attributes:
        environment: Which.
        members: Who.
        ratings: (P,) after the last closed period.
        games: (P,) int64 rated games of each.
        counts: Records of the pairs, up to the last closed period.
    """

    environment: str
    members: tuple[Member, ...]
    ratings: Ratings
    games: NDArray[np.int64]
    counts: dict[Pair, Count]

    @cached_property
    def places(self) -> dict[int, int]:
        """Where in the columns a player stands, by its id."""
        return {member.id: place for place, member in enumerate(self.members)}

    def place(self, player_id: int) -> int:
        """Return a player's place in the columns.

        Raises:
            UnknownPlayerError: It is not one of this environment.
        """
        if player_id not in self.places:
            raise UnknownPlayerError(player_id, f"no player of {self.environment} has this id", "see GET /players")
        return self.places[player_id]

    def opponents(self, signatures: set[str]) -> list[int]:
        """Return the places of everybody who is drawn as an opponent under one of these signatures."""
        return [place for place, m in enumerate(self.members) if m.plays and m.signature in signatures]


class PopulationCache:
    """The last version of each environment's population; nothing is lost with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[Version, Population]] = {}

    def get(self, session: Session, environment: str) -> Population:
        """Return the population as the session sees it."""
        version = _version(session)
        with self._lock:
            kept = self._kept.get(environment)
            if kept is None or kept[0] != version:
                kept = version, _load(session, environment)
                self._kept[environment] = kept
        return kept[1]


def _version(session: Session) -> Version:
    newest = [select(func.max(table.id)).scalar_subquery() for table in (Player, Period, Event)]
    return tuple(session.execute(select(*newest)).one())


def _load(session: Session, environment: str) -> Population:
    rows = session.execute(standings.rated().where(Player.environment == environment).order_by(Player.id)).all()
    return Population(
        environment=environment,
        members=tuple(_member(player) for player, _ in rows),
        ratings=standings.ratings(rows),
        games=np.array([0 if rating is None else rating.games for _, rating in rows], dtype=np.int64),
        counts=payoffs.stored(session, environment),
    )


def _member(player: Player) -> Member:
    return Member(player.id, player.kind, player.name, player.signature, player.standing, player.checkpoint)
