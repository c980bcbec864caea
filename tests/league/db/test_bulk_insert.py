"""Many rows in one statement, the same on both databases."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from league.db import bulk_insert
from league.db.engine import Database
from league.db.models import Environment, LeaderLease, Payoff, Player

NOW = datetime(2030, 1, 1, 0, 0, 0, 5, tzinfo=UTC)


def election(task: str, holder: str, until: datetime = NOW) -> dict[str, Any]:
    return {"task": task, "holder": holder, "until": until}


def kept(database: Database) -> dict[str, tuple[str, datetime]]:
    with database.read() as session:
        return {row.task: (row.holder, row.until) for row in session.scalars(select(LeaderLease))}


@pytest.mark.parametrize("count", [1, 63, 64, 65, 200])
def test_bulk_insert_stores_every_row(database: Database, count: int) -> None:
    rows = [election(f"task {number}", f"holder {number}") for number in range(count)]
    with database.write() as session:
        returned = bulk_insert.insert_new(session, LeaderLease, rows, returning=(LeaderLease.task, LeaderLease.holder))
    assert [tuple(row) for row in returned] == [(row["task"], row["holder"]) for row in rows]
    assert kept(database) == {row["task"]: (row["holder"], NOW) for row in rows}


def test_bulk_insert_matches_columns_by_name(database: Database) -> None:
    rows = [election("a", "one"), {"until": NOW, "holder": "two", "task": "b"}]
    with database.write() as session:
        bulk_insert.insert_new(session, LeaderLease, rows)
    assert kept(database) == {"a": ("one", NOW), "b": ("two", NOW)}


def test_a_taken_key_keeps_its_row_and_is_not_returned(database: Database) -> None:
    with database.write() as session:
        bulk_insert.insert_new(session, LeaderLease, [election("a", "first")])
        again = [election("a", "second"), election("b", "second")]
        returned = bulk_insert.insert_new(session, LeaderLease, again, returning=(LeaderLease.task,))
    assert [task for (task,) in returned] == ["b"]
    assert kept(database) == {"a": ("first", NOW), "b": ("second", NOW)}


def test_put_changes_the_row_of_a_taken_key(database: Database) -> None:
    later = NOW + timedelta(hours=1)
    with database.write() as session:
        bulk_insert.put(session, LeaderLease, [election("a", "first"), election("b", "first")], key=(LeaderLease.task,))
        bulk_insert.put(
            session, LeaderLease, [election("b", "second", later), election("c", "second")], key=(LeaderLease.task,)
        )
    assert kept(database) == {"a": ("first", NOW), "b": ("second", later), "c": ("second", NOW)}


def test_put_leaves_fixed_columns_as_they_were_first(database: Database) -> None:
    later = NOW + timedelta(seconds=1)
    with database.write() as session:
        for holder, until in (("first", NOW), ("second", later)):
            row = election("a", holder, until)
            bulk_insert.put(session, LeaderLease, [row], key=(LeaderLease.task,), fixed=(LeaderLease.holder,))
    assert kept(database) == {"a": ("first", later)}


def test_times_in_other_zones_are_stored_as_utc(database: Database) -> None:
    there = datetime(2030, 1, 1, 2, 0, tzinfo=timezone(timedelta(hours=2)))
    with database.write() as session:
        bulk_insert.insert_new(session, LeaderLease, [election("a", "one", there)])
        same = session.scalars(
            select(LeaderLease.task).where(LeaderLease.until == datetime(2030, 1, 1, tzinfo=UTC))
        ).all()
    assert same == ["a"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=5, max_size=5))
def test_numbers_come_back_exactly(database: Database, two_players: tuple[int, int], numbers: list[float]) -> None:
    low, high = two_players
    columns = "games", "points", "wins", "draws", "losses"
    row = {
        "low_id": low,
        "high_id": high,
        "environment": "e",
        "matches": 2**62,
        **dict(zip(columns, numbers, strict=True)),
    }
    with database.write() as session:
        session.execute(delete(Payoff))
        bulk_insert.put(session, Payoff, [row], key=(Payoff.low_id, Payoff.high_id))
    with database.read() as session:
        stored = session.scalars(select(Payoff)).one()
    assert (stored.matches, *(getattr(stored, column) for column in columns)) == (2**62, *numbers)


def test_no_rows_are_no_statement(database: Database) -> None:
    with database.write() as session:
        assert list(bulk_insert.insert_new(session, LeaderLease, [])) == []
        bulk_insert.put(session, LeaderLease, [], key=(LeaderLease.task,))
    assert kept(database) == {}


@pytest.fixture
def two_players(database: Database) -> tuple[int, int]:
    common = {"kind": "baseline", "environment": "e", "signature": "s", "card": {}, "created_at": NOW}
    start = {"start_rating": 1500.0, "start_deviation": 30.0, "start_volatility": 0.06}
    players = [Player(**common, **start, name=name) for name in ("low", "high")]
    with database.write() as session:
        session.add(Environment(name="e", created_at=NOW))
        session.flush()
        session.add_all(players)
        session.flush()
        return players[0].id, players[1].id
