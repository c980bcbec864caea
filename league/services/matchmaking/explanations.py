"""Explanations of leases: the opponent distribution, its hash, its stored form and its response body."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from league.db.bulk_insert import among
from league.db.models import Draw, Player
from league.db.upsert import insert_into
from league.provisional import is_provisional
from league.services.population.cache import Filter
from league.services.ratings import rated_players
from league.settings import Settings

_PRUNED_AT = select(Draw.pruned_at).where(Draw.id == bindparam("id")).with_for_update(read=True)
_HASH_DIGITS = 32
_SHARE_DIGITS = 8


@dataclass(frozen=True, eq=False)
class DistributionRecord:
    """Content of an opponent distribution in its stored form.

    Attributes:
        id: Hash of the content.
        content: JSON: `learner`, `branches`, `self_play` and `filters` as in the response, `items` by columns.
    """

    id: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "DistributionRecord":
        """Return the record of a content, with its hash as id."""
        return cls(hashlib.sha256(to_json(content)).hexdigest()[:_HASH_DIGITS], content)

    def rule(self, branch: str) -> str:
        """Return a branch's rule in words."""
        return next((str(each["rule"]) for each in self.content["branches"] if each["name"] == branch), "")


def store(session: Session, record: DistributionRecord, now: datetime) -> None:
    """Store a distribution once; a pruned one gets its opponents back.

    The row lock protects it from pruning until the transaction ends, which should also store a lease drawn from it.
    """
    stored = session.execute(_PRUNED_AT, {"id": record.id}).one_or_none()
    if stored is None:
        row = {"id": record.id, "distribution": record.content, "created_at": now}
        session.execute(insert_into(session, Draw).values(row).on_conflict_do_nothing())
    elif stored.pruned_at is not None:
        session.execute(update(Draw).where(Draw.id == record.id).values(distribution=record.content, pruned_at=None))


def load(session: Session, distribution_id: str) -> DistributionRecord:
    """Return a stored distribution."""
    content = session.scalars(select(Draw.distribution).where(Draw.id == distribution_id)).one()
    return DistributionRecord(distribution_id, content)


def to_wire(session: Session, settings: Settings, record: DistributionRecord) -> dict[str, Any]:
    """Return the response fields of a distribution."""
    # Stored by columns: a distribution over thousands of players takes a fraction of the space of one object each.
    columns = record.content["items"]
    ids = columns["player_id"]
    query = rated_players.rated().where(among(session, Player.id, ids))
    # Columns instead of ORM objects: a distribution may have thousands of players.
    columns_read = Player.id, Player.name, Player.kind, rated_players.standard_error_column()
    found = session.execute(query.with_only_columns(*columns_read))
    players = {player_id: (name, kind, error) for player_id, name, kind, error in found}
    plain = {name: values for name, values in columns.items() if name != "weights"}
    rows = [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
    for index, row in enumerate(rows):
        row["name"], kind, error = players[row["player_id"]]
        row["provisional"] = is_provisional(kind, error, settings)
        row["weights"] = {branch: weights[index] for branch, weights in columns["weights"].items()}
    return {**record.content, "items": rows}


def group_shares(groups: Mapping[str, NDArray[np.int64]], weights: NDArray[np.float64] | None) -> list[dict[str, Any]]:
    """Return the share of each group in the weights; None for a rule without weights."""
    return [
        {
            "group": group,
            "players": indices.size,
            "share": None if weights is None else round(float(weights[indices].sum()), _SHARE_DIGITS),
        }
        for group, indices in groups.items()
    ]


def filters_as_json(filters: Sequence[Filter]) -> list[dict[str, Any]]:
    """Return filters as JSON; `asdict` would copy the ids of all removed players."""
    return [{"name": each.name, "rule": each.rule, "removed": each.removed} for each in filters]


def rounded(values: NDArray[np.float64], digits: int) -> list[float]:
    """Return values as rounded Python floats."""
    result: list[float] = np.round(values, digits).tolist()
    return result
