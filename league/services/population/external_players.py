"""External players: rated like other players, while their policy stays with its owner.

The owner enters the policy by name and plays its rating matches as the same player each time. An external player is
frozen, like a snapshot, and starts with the rating of a new player. It can be retired, reinstated and quarantined, but
never becomes a commander.
"""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import START_DEVIATION, START_RATING, START_VOLATILITY
from league import wire
from league.auth import Principal
from league.db import locks
from league.db.locks import Lock
from league.db.models import Environment, Learner, Player
from league.errors import (
    InvalidRequestError,
    NameTakenError,
    SignatureMismatchError,
    StandingConflictError,
)
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.auth import ownership
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.services.population.cache import Population
from league.services.ratings import rated_players
from league.settings import Settings

KIND = "external"
ENTRY_KIND = "entry"
"""Kind of the audit event for a new external player."""

_IDENTITY = "identity"


def enter(
    session: Session, settings: Settings, request: wire.ExternalCreate, caller: Principal, now: datetime
) -> wire.Player:
    """Return the external player of this name, or create it for the caller.

    Raises:
        UnknownEnvironmentError: The league has no such environment.
        SignatureMismatchError: The league plays the environment with another signature.
        ForbiddenError: The player exists and the caller may not write it.
        NameTakenError: The name belongs to another owner or another policy.
        TokenLimitError: The caller has reached its limit of players.
    """
    locks.acquire(session, Lock.POPULATION)
    _require_game(session, request)
    player = _find(session, request)
    if player is None:
        admission.require_player(session, settings, ownership.owner(caller))
        player = _add(session, request, ownership.owner(caller), now)
        details = {"name": request.name, _IDENTITY: request.identity}
        audit_log.record(
            session,
            ENTRY_KIND,
            Cause(caller.name, "", now),
            environment=request.environment,
            player_id=player.id,
            details=details,
        )
    else:
        _require_same(player, request, caller)
    return rated_players.show(session, settings, player.id)


def require_active(population: Population, player_id: int) -> int:
    """Return the index of an active external player.

    Raises:
        UnknownPlayerError: The population has no such player.
        InvalidRequestError: It is not an external player.
        StandingConflictError: It is retired or quarantined.
    """
    index = population.index(player_id)
    member = population.members[index]
    if member.kind != KIND:
        rule = f"{member.name} is a {member.kind}; but a worker can only bring external players"
        raise InvalidRequestError(
            f"player {player_id}", rule, "omit player_id, or enter an external player with `trainer enter`"
        )
    if member.standing in rated_players.OUT_OF_PLAY:
        rule = f"{member.name} is {member.standing} and plays no matches"
        raise StandingConflictError(
            player_id, rule, f"ask an operator of the league to run `league reinstate {player_id}`"
        )
    return index


def _require_game(session: Session, request: wire.ExternalCreate) -> None:
    environment = request.environment
    played = Learner.environment == environment, Learner.signature == request.signature
    if session.scalar(select(Learner.id).where(*played).limit(1)) is None:
        environments.require(session, environment)
        newest = session.get_one(Environment, environment).signature
        rule = f"the league plays {environment} with signature {newest}"
        raise SignatureMismatchError(request.signature, rule, "use the same version of the game as its trainers")


def _find(session: Session, request: wire.ExternalCreate) -> Player | None:
    same = Player.environment == request.environment, Player.signature == request.signature
    return session.scalar(select(Player).where(*same, Player.name == request.name))


def _add(session: Session, request: wire.ExternalCreate, owner: str | None, now: datetime) -> Player:
    player = Player(
        kind=KIND,
        environment=request.environment,
        signature=request.signature,
        name=request.name,
        standing="candidate",
        checkpoint=f"{KIND}:{request.name}",
        card={**request.metadata, _IDENTITY: request.identity},
        start_rating=START_RATING,
        start_deviation=START_DEVIATION,
        start_volatility=START_VOLATILITY,
        owner=owner,
        created_at=now,
    )
    session.add(player)
    session.flush()
    return player


def _require_same(player: Player, request: wire.ExternalCreate, caller: Principal) -> None:
    if player.kind != KIND:
        rule = f"a {player.kind} of {player.environment} has this name"
        raise NameTakenError(request.name, rule, "choose another name for the external player")
    if ownership.is_restricted(caller):
        ownership.require(player, caller)
    identity = player.card.get(_IDENTITY)
    # The first entry with an identity binds the player to it.
    if identity is None:
        if request.identity is not None:
            # A new dictionary, because the ORM does not notice changes within a JSON column.
            player.card = {**player.card, _IDENTITY: request.identity}
    elif request.identity is not None and request.identity != identity:
        rule = f"it was entered as {identity} but is now {request.identity}: a rated player must stay the same policy"
        raise NameTakenError(request.name, rule, "enter it under another name")
