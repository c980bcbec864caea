"""What the models say otherwise than a database that migrations built."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from league.db.models import Base

UNCHECKED = {"fk_leases_away_id_players", "fk_leases_home_id_players", "fk_leases_worker_id_workers"}
"""References that PostgreSQL does not check; see docs/decisions/068-leases-are-stored-unchecked.md."""


def differences(connection: Connection) -> list[Any]:
    """Compare them; the references that only SQLite checks must be missing on PostgreSQL."""
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    found = compare_metadata(context, Base.metadata)
    missing = {change[1].name for change in found if change[0] == "add_fk"}
    assert missing == (UNCHECKED if connection.dialect.name == "postgresql" else set())
    return [change for change in found if change[0] != "add_fk"]
