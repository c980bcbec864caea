"""Behaviour measures of both sides of a match, as reported with its result.

The names of the measures are stored once per set. A game version has one set, so there are few. Beyond `SETS_MAX` sets,
the behaviour is dropped and the result counts without it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from league import wire
from league.db.bulk_insert import insert_new
from league.db.models import Behaviour, MeasureSet
from league.db.upsert import insert_into

SETS_MAX = 64
"""Maximum number of stored sets of names, of up to 64 KiB each."""

_ID_BYTES = 16
_VALUE = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Packed:
    """A behaviour in its stored form; see `models.Behaviour`."""

    measure_set_id: str
    home: bytes
    away: bytes


def pack(behaviour: wire.Behaviour) -> Packed:
    """Convert a behaviour to its stored form."""
    return Packed(set_id(behaviour.measures), pack_values(behaviour.home), pack_values(behaviour.away))


def unpack(values: Sequence[bytes]) -> NDArray[np.float64]:
    """Return the (N, B) values of N sides with the same set of measures; NaN is unknown."""
    return np.frombuffer(b"".join(values), dtype=_VALUE).reshape(len(values), -1).astype(np.float64)


def of_match(session: Session, match_id: int) -> wire.Behaviour | None:
    """Return the behaviour of both sides of a match with float32 precision; None if it was not reported."""
    names = select(Behaviour.home, Behaviour.away, MeasureSet.measures).join(
        MeasureSet, MeasureSet.id == Behaviour.measure_set_id
    )
    row = session.execute(names.where(Behaviour.match_id == match_id)).one_or_none()
    if row is None:
        return None
    return wire.Behaviour(measures=row.measures, home=_as_floats(row.home), away=_as_floats(row.away))


def store_behaviours(session: Session, behaviours: Mapping[int, wire.Behaviour]) -> None:
    """Store behaviours by the ids of new matches; those of a set beyond the maximum are dropped."""
    sets = {set_id(each.measures): each.measures for each in behaviours.values()}
    stored_ids = _store_sets(session, sets)
    rows = []
    for match_id, behaviour in sorted(behaviours.items()):
        packed = pack(behaviour)
        if packed.measure_set_id in stored_ids:
            columns = {"measure_set_id": packed.measure_set_id, "home": packed.home, "away": packed.away}
            rows.append({"match_id": match_id, **columns})
    if rows:
        insert_new(session, Behaviour, rows)


def _store_sets(session: Session, sets: Mapping[str, Sequence[str]]) -> set[str]:
    """Store new sets of names up to the maximum; return the ids of all stored sets."""
    stored_ids = set(session.scalars(select(MeasureSet.id).where(MeasureSet.id.in_(sets))))
    # Sorted: an insert waits for a concurrent one of the same id, and two transactions in other orders could deadlock.
    if new := sorted(sets.keys() - stored_ids):
        count = session.scalar(select(func.count()).select_from(MeasureSet)) or 0
        for each in new[: max(0, SETS_MAX - count)]:
            row = {"id": each, "measures": sets[each]}
            session.execute(insert_into(session, MeasureSet).values(row).on_conflict_do_nothing())
            stored_ids.add(each)
    return stored_ids


def set_id(measures: Sequence[str]) -> str:
    """Return the id of a set of names: a hash of the names."""
    return hashlib.blake2b("\n".join(measures).encode(), digest_size=_ID_BYTES).hexdigest()


def pack_values(values: Sequence[float | None]) -> bytes:
    """Convert values to their stored form; None is unknown."""
    return np.array([np.nan if value is None else value for value in values], dtype=_VALUE).tobytes()


def _as_floats(values: bytes) -> list[float | None]:
    # str() gives the shortest decimal of the float32, without the digits that a conversion to float64 would add.
    return [None if np.isnan(value) else float(str(value)) for value in np.frombuffer(values, dtype=_VALUE)]
