"""Sums of reported behaviour, up to the last rating period.

They follow the match log in transactions of their own, which hold up no period. Where something happened that may have
changed the past, such as that a worker is no longer trusted, they are made again from the first match.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, delete, func, select
from sqlalchemy.orm import Session

from league.db.bulk_insert import among, put
from league.db.engine import Database
from league.db.models import Behaviour, Fingerprint, FingerprintMark, Match, MeasureSet, Period, Player
from league.services.matches import behaviours, counting
from league.services.ratings import input_version
from league.services.ratings.input_version import InputVersion

MEASURES_MAX = 256
"""Of one game's fingerprints: those that came first count, so that nobody can fill the table with names."""

_ROWS_AT_ONCE = 10_000

FloatArray = NDArray[np.float64]
Key = tuple[int, str]
"""A player and a measure."""

Sums = dict[Key, FloatArray]
"""Of every key: in how many matches there was something to measure, the sum of the values, and of their squares."""


@dataclass(frozen=True, eq=False)
class _Draft:
    """Sums that are computed and not yet written.

    Attributes:
        ground: What they rest on.
        before: Up to where the stored sums went.
        through: Up to which match these go.
        anew: Whether they take the place of all that is stored.
        sums: Those that changed.
    """

    ground: InputVersion
    before: tuple[int, int]
    through: int
    anew: bool
    sums: Sums


def follow(database: Database, environment: str) -> None:
    """Take in what was reported up to the environment's last rating period; who is overtaken leaves it to the other."""
    with database.read() as session:
        draft = _draft(session, environment)
    if draft is None:
        return
    with database.write() as session:
        if input_version.unchanged(session, environment, draft.ground) and _mark(session, environment) == draft.before:
            _write(session, environment, draft)


def _draft(session: Session, environment: str) -> _Draft | None:
    """Compute what there is to change; None where there is nothing."""
    rests_on, before = input_version.read(session, environment), _mark(session, environment)
    last = select(func.max(Period.last_match_id)).where(Period.environment == environment)
    through = session.scalar(last) or 0
    if before == (through, rests_on.event_id):
        return None
    anew = before[1] != rests_on.event_id or before[0] > through
    named = set() if anew else _measures(session, environment)
    added = _read(session, environment, 0 if anew else before[0], through, named)
    if not anew:
        for key, stored in _stored(session, sorted({player for player, _ in added})).items():
            if key in added:
                added[key] += stored
    return _Draft(rests_on, before, through, anew, added)


def inconsistent(session: Session, environment: str) -> list[str]:
    """Name the sums that are not those of the log's matches; none where they are to be made again anyway."""
    through, event_id = _mark(session, environment)
    if event_id != input_version.read(session, environment).event_id:
        return []
    named = _measures(session, environment)
    in_log = _read(session, environment, 0, through, named)
    stored = _stored(session, sorted({player for player, _ in in_log} | _players(session, environment)))
    nothing = np.zeros(3)
    wrong = [
        (player, measure)
        for player, measure in sorted(in_log.keys() | stored.keys())
        if not _alike(in_log.get((player, measure), nothing), stored.get((player, measure), nothing))
    ]
    return [f"{measure} of player {player}" for player, measure in wrong]


def _alike(some: FloatArray, others: FloatArray) -> bool:
    """Say whether sums are of the same matches: added up in other portions, their last digits differ."""
    return some[0] == others[0] and np.allclose(some[1:], others[1:], rtol=1e-9, atol=1e-9 * some[0])


def _players(session: Session, environment: str) -> set[int]:
    query = select(Fingerprint.player_id).join(Player, Player.id == Fingerprint.player_id)
    return set(session.scalars(query.where(Player.environment == environment).distinct()))


def _mark(session: Session, environment: str) -> tuple[int, int]:
    """Return up to which match the sums go, and the last event that they rest on."""
    mark = session.get(FingerprintMark, environment)
    return (0, 0) if mark is None else (mark.last_match_id, mark.event_id)


def _stored(session: Session, players: Sequence[int]) -> Sums:
    columns = Fingerprint.matches, Fingerprint.total, Fingerprint.squares
    query = select(Fingerprint.player_id, Fingerprint.measure, *columns)
    rows = session.execute(query.where(among(session, Fingerprint.player_id, players)))
    return {(player, measure): np.array(sums, dtype=np.float64) for player, measure, *sums in rows}


def _measures(session: Session, environment: str) -> set[str]:
    query = select(Fingerprint.measure).join(Player, Player.id == Fingerprint.player_id)
    return set(session.scalars(query.where(Player.environment == environment).distinct()))


def _read(session: Session, environment: str, after: int, through: int, named: set[str]) -> Sums:
    """Add up the matches with ids in (after, through] that count; measures join those `named` while there is room."""
    columns = Match.home_id, Match.away_id, Behaviour.measure_set_id, Behaviour.home, Behaviour.away
    which = Behaviour.match_id > after, Behaviour.match_id <= through, Match.environment == environment
    query = select(*columns).join(Match, Match.id == Behaviour.match_id).where(*which, *counting.counted(session))
    in_parts = {"yield_per": _ROWS_AT_ONCE}  # or the driver of PostgreSQL fetches all of them at once
    result = session.connection().execute(query.order_by(Behaviour.match_id), execution_options=in_parts)
    measures = dict(iter(session.execute(select(MeasureSet.id, MeasureSet.measures))))
    sums: Sums = {}
    for rows in result.partitions():
        by_set: dict[str, list[Row[*tuple[Any, ...]]]] = {}
        for row in rows:
            by_set.setdefault(row.measure_set_id, []).append(row)
        for set_id, group in by_set.items():
            _add(sums, measures[set_id], group, named)
    return sums


def _add(sums: Sums, measures: Sequence[str], rows: Sequence[Row[*tuple[Any, ...]]], named: set[str]) -> None:
    """Add matches that were measured by one set."""
    ids = [row.home_id for row in rows] + [row.away_id for row in rows]
    values = behaviours.unpack([row.home for row in rows] + [row.away for row in rows])
    players, place = np.unique(ids, return_inverse=True)
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    added = np.zeros((3, players.size, len(measures)))
    for total, each in zip(added, (known, values, np.square(values)), strict=True):
        np.add.at(total, place, each)
    for column in np.flatnonzero(added[0].any(axis=0)).tolist():
        measure = measures[column]
        if measure not in named and len(named) >= MEASURES_MAX:
            continue
        named.add(measure)
        for row in np.flatnonzero(added[0, :, column]).tolist():
            key = int(players[row]), measure
            sums[key] = sums.get(key, 0.0) + added[:, row, column]


def _write(session: Session, environment: str, draft: _Draft) -> None:
    if draft.anew:
        own = select(Player.id).where(Player.environment == environment)
        session.execute(delete(Fingerprint).where(Fingerprint.player_id.in_(own)))
    rows: list[Mapping[str, Any]] = []
    for (player, measure), (matches, total, squares) in sorted(draft.sums.items()):
        sums = {"matches": int(matches), "total": float(total), "squares": float(squares)}
        rows.append({"player_id": player, "measure": measure, **sums})
    put(session, Fingerprint, rows, key=(Fingerprint.player_id, Fingerprint.measure))
    mark = {"environment": environment, "last_match_id": draft.through, "event_id": draft.ground.event_id}
    put(session, FingerprintMark, [mark], key=(FingerprintMark.environment,))
