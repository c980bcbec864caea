"""Snapshots: publish checkpoints as players, and list players."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from arena.ratings.glicko2 import START_VOLATILITY
from league import wire
from league.db import locks
from league.db.locks import Lock
from league.db.models import Learner, Player, PlayerTag
from league.db.upsert import insert_into
from league.errors import NameTakenError, RefusedCheckpointError, SignatureMismatchError
from league.pagination import Page, SelectT, paginate
from league.services.environments import admission
from league.services.environments import lookup as environments
from league.services.population import learners, runs, snapshot_schedule
from league.services.ratings import rated_players
from league.settings import Settings
from league.storage.base import CheckpointStore
from league.storage.policy_header import find_header_fault
from league.storage.safetensors_header import Header

_HASH_PREFIX = 8


def publish(
    session: Session,
    settings: Settings,
    store: CheckpointStore,
    header: Header,
    request: wire.PlayerCreate,
    now: datetime,
) -> wire.Player:
    """Publish an uploaded checkpoint as a candidate, with its learner's rating and a larger deviation.

    `header` is the checkpoint's, read before the transaction.

    Raises:
        UnknownLearnerError: There is no such learner.
        UnknownRunError: There is no such run.
        InvalidRequestError: The run belongs to another learner.
        UnknownCheckpointError: The checkpoint was not uploaded.
        SignatureMismatchError: It was made for another environment than its learner's.
        RefusedCheckpointError: No network can be loaded from its tensors.
        TokenLimitError: The learner's token has reached its limit of players.
    """
    learner = learners.require(session, request.learner_id)
    _require_environment(header.metadata, request, learner)
    _require_loadable(header, request)
    if request.run_id is not None:
        runs.require_own(session, request.run_id, learner.id)
    # Garbage collection takes this lock exclusively, so the checkpoint cannot be deleted before it has a player.
    locks.acquire_shared(session, Lock.COLLECTION, "")
    store.find(request.checkpoint)
    known = _find(session, request)
    player_id = _insert(session, settings, request, learner, now) if known is None else known
    if request.since_step is not None:
        snapshot_schedule.link_snapshot(session, learner.id, request.since_step, player_id)
    return rated_players.show(session, settings, player_id)


@dataclass(frozen=True)
class PlayerQuery:
    """Conditions on listed players.

    Attributes:
        columns: Values of columns such as environment, standing and kind.
        q: Part of a name or call-sign; empty for all.
        exact: Whether `q` is the whole name or call-sign.
        tag: A tag of the player; None for all.
    """

    columns: dict[str, str]
    q: str = ""
    exact: bool = False
    tag: str | None = None

    def applied(self, query: SelectT) -> SelectT:
        """Return the query with the conditions."""
        query = query.filter_by(**self.columns)
        if self.tag is not None:
            query = query.where(Player.id.in_(select(PlayerTag.player_id).where(PlayerTag.tag == self.tag)))
        if not self.q:
            return query
        names = Player.name, Player.call_sign
        if self.exact:
            return query.where(or_(*(column == self.q for column in names)))
        return query.where(or_(*(column.icontains(self.q, autoescape=True) for column in names)))


def list_players(
    session: Session, settings: Settings, wanted: PlayerQuery, limit: int, cursor: int = 0
) -> Page[wire.Player]:
    """List players in ascending order of ids, after the cursor.

    Args:
        session: A transaction.
        settings: Settings of the league.
        wanted: Conditions on the players.
        limit: Page size.
        cursor: Id of the last player of the previous page.

    Raises:
        UnknownEnvironmentError: The league plays other environments, but not the requested one.
    """
    environments.require_known(session, wanted.columns.get("environment"))
    query = wanted.applied(rated_players.rated())
    found = session.execute(paginate(query, Player.id, cursor, limit)).all()
    return Page.cut(rated_players.shown(session, settings, found), limit, attrgetter("id"))


def _require_environment(metadata: Mapping[str, str], request: wire.PlayerCreate, learner: Learner) -> None:
    """Reject a checkpoint whose metadata names another environment; without metadata it is accepted."""
    for made_for, own in (
        (metadata.get("signature"), learner.signature),
        (metadata.get("environment"), learner.environment),
    ):
        if made_for not in (None, own):
            rule = f"checkpoint {request.checkpoint[:_HASH_PREFIX]} was made for it, learner {learner.name!r}"
            rule += f" plays {learner.environment} with signature {learner.signature}"
            raise SignatureMismatchError(made_for, rule, "publish it for a learner of its own environment")


def _require_loadable(header: Header, request: wire.PlayerCreate) -> None:
    fault = find_header_fault(header)
    if fault is not None:
        raise RefusedCheckpointError(request.checkpoint, fault, "publish weights that arena.policies.save has written")


def _find(session: Session, request: wire.PlayerCreate) -> int | None:
    return session.scalar(
        select(Player.id).where(
            Player.learner_id == request.learner_id,
            Player.checkpoint == request.checkpoint,
            Player.step == request.step,
        )
    )


def _insert(session: Session, settings: Settings, request: wire.PlayerCreate, learner: Learner, now: datetime) -> int:
    """Insert a snapshot, or return the one that a concurrent call inserted."""
    locks.acquire(session, Lock.POPULATION)
    if session.scalar(select(Learner.id).where(Learner.id == learner.id)) is None:  # deleted with its environment
        raise learners.unknown(learner.id)
    known = _find(session, request)
    if known is not None:  # inserted by a concurrent call
        return known
    admission.require_player(session, settings, learner.owner)
    row = _row(session, settings, request, learner, now)
    plain = f"{learner.name}@{request.step}"
    # The same step may be published twice with other weights, for example after a restart from an older checkpoint.
    for name in (plain, f"{plain}-{request.checkpoint[:_HASH_PREFIX]}"):
        statement = insert_into(session, Player).values(row | {"name": name}).on_conflict_do_nothing()
        player_id = session.scalar(statement.returning(Player.id)) or _find(session, request)
        if player_id is not None:
            return player_id
    raise NameTakenError(plain, "two other snapshots have this name", "publish at another step")


def _row(
    session: Session, settings: Settings, request: wire.PlayerCreate, learner: Learner, now: datetime
) -> dict[str, Any]:
    own = rated_players.rated().where(Player.learner_id == learner.id, Player.kind == "learner")
    player, rating = session.execute(own).one()
    value = rated_players.fields(player, rating, settings)
    snapshots = select(func.max(Player.id)).where(Player.learner_id == learner.id, Player.kind == "snapshot")
    parent_id = session.scalar(snapshots)
    after_reset = snapshot_schedule.is_reset_after(session, parent_id)
    floor = settings.reset_deviation if after_reset else settings.snapshot_deviation
    return {
        "kind": "snapshot",
        "environment": learner.environment,
        "signature": learner.signature,
        "role": learner.role,
        "standing": "candidate",
        "checkpoint": request.checkpoint,
        "learner_id": learner.id,
        "parent_id": parent_id,
        "step": request.step,
        "run_id": request.run_id,
        "card": request.metadata,
        "start_rating": value["rating"],
        "start_deviation": max(value["deviation"], floor),
        "start_volatility": START_VOLATILITY,
        "start_period_id": None if rating is None else rating.period_id,
        "start_deviation_floor": floor,
        "created_at": now,
    }
