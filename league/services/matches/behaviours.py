"""Behaviour of both sides in a match, as it is reported with results.

Sets of names are stored once and for ever. Matches have few of them, one for each version of a game: where there are
very many, new ones are left out, and the results count without.
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
"""Sets of names, of up to 64 KiB, that all matches may have."""

_ID_BYTES = 16
_VALUE = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class Packed:
    """A behaviour as it is stored; see `models.Behaviour`."""

    measure_set_id: str
    home: bytes
    away: bytes


def pack(behaviour: wire.Behaviour) -> Packed:
    """Write a behaviour as it is stored."""
    return Packed(set_id(behaviour.measures), pack_values(behaviour.home), pack_values(behaviour.away))


def unpack(values: Sequence[bytes]) -> NDArray[np.float64]:
    """Read the values (N, B) of N sides that were measured by the same set; NaN is not known."""
    return np.frombuffer(b"".join(values), dtype=_VALUE).reshape(len(values), -1).astype(np.float64)


def of_match(session: Session, match_id: int) -> wire.Behaviour | None:
    """Return how both sides of a match played, in the digits that float32 keeps; None where it was not reported."""
    names = select(Behaviour.home, Behaviour.away, MeasureSet.measures).join(
        MeasureSet, MeasureSet.id == Behaviour.measure_set_id
    )
    row = session.execute(names.where(Behaviour.match_id == match_id)).one_or_none()
    if row is None:
        return None
    return wire.Behaviour(measures=row.measures, home=_told(row.home), away=_told(row.away))


def keep(session: Session, behaviours: Mapping[int, wire.Behaviour]) -> None:
    """Store how sides played, by the ids of new matches; by a set of names too many it is left out."""
    sets = {set_id(each.measures): each.measures for each in behaviours.values()}
    kept = _keep_sets(session, sets)
    rows = []
    for match_id, behaviour in sorted(behaviours.items()):
        packed = pack(behaviour)
        if packed.measure_set_id in kept:
            columns = {"measure_set_id": packed.measure_set_id, "home": packed.home, "away": packed.away}
            rows.append({"match_id": match_id, **columns})
    if rows:
        insert_new(session, Behaviour, rows)


def _keep_sets(session: Session, sets: Mapping[str, Sequence[str]]) -> set[str]:
    """Store those sets of names that are new and have room; return the ids of all that are stored."""
    kept = set(session.scalars(select(MeasureSet.id).where(MeasureSet.id.in_(sets))))
    if new := sorted(sets.keys() - kept):
        stored = session.scalar(select(func.count()).select_from(MeasureSet)) or 0
        for each in new[: max(0, SETS_MAX - stored)]:
            row = {"id": each, "measures": sets[each]}
            session.execute(insert_into(session, MeasureSet).values(row).on_conflict_do_nothing())
            kept.add(each)
    return kept


def set_id(measures: Sequence[str]) -> str:
    """Return the id of a set of names: their hash."""
    return hashlib.blake2b("\n".join(measures).encode(), digest_size=_ID_BYTES).hexdigest()


def pack_values(values: Sequence[float | None]) -> bytes:
    """Write values as they are stored; None is not known."""
    return np.array([np.nan if value is None else value for value in values], dtype=_VALUE).tobytes()


def _told(values: bytes) -> list[float | None]:
    return [None if np.isnan(value) else float(str(value)) for value in np.frombuffer(values, dtype=_VALUE)]
