"""Revision 0007 renames the task of a leader lease, and a key in the evidence of snapshot decisions."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from schema_drift import differences
from sqlalchemy import MetaData, insert, select

from league.db import schema
from league.db.engine import Database
from league.db.models import Event, LeaderLease

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EVIDENCE = {"opponents": {"win_rate": [0.25], "of_late": [0.5]}}


@pytest.fixture
def older(empty_database_url: str) -> Iterator[Database]:
    """A league of revision 0006 with a leader and two events."""
    database = Database(empty_database_url)
    with database.write_connection() as connection:
        schema.upgrade_to(connection, "0006")
        tables = MetaData()
        tables.reflect(connection)
        connection.execute(insert(tables.tables["leader_leases"]).values(duty="a", holder="b", until=NOW))
        for kind in ("snapshot", "promote"):
            event = {"kind": kind, "actor": "rule", "reason": "", "details": EVIDENCE, "created_at": NOW}
            connection.execute(insert(tables.tables["events"]).values(event))
    yield database
    database.close()


def test_upgrade_renames_the_task_and_the_evidence_of_decisions_alone(older: Database) -> None:
    schema.upgrade(older, None)
    schema.check(older)
    with older.read() as session:
        assert session.scalars(select(LeaderLease.task)).all() == ["a"]
        details = dict(session.execute(select(Event.kind, Event.details)).all())
    assert details["snapshot"] == {"opponents": {"win_rate": [0.25], "recent_win_rate": [0.5]}}
    assert details["promote"] == EVIDENCE
    with older.engine.connect() as connection:
        assert differences(connection) == []
