"""What the models say otherwise than a database that migrations built."""

from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Connection, Inspector, inspect

from league.db.models import Base

UNCHECKED = {"fk_leases_away_id_players", "fk_leases_home_id_players", "fk_leases_worker_id_workers"}
"""References that the database does not check; see docs/contributing/decisions/0025-hot-tables-drop-foreign-keys.md."""


def differences(connection: Connection) -> list[Any]:
    """Compare them; the references that only `league admin check` checks must be missing."""
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    found = compare_metadata(context, Base.metadata)
    assert _checks(inspect(connection)) == {
        table.name: {str(each.name) for each in table.constraints if isinstance(each, CheckConstraint)}
        for table in Base.metadata.sorted_tables
    }
    missing = {change[1].name for change in found if change[0] == "add_fk"}
    assert missing == UNCHECKED
    return [change for change in found if change[0] != "add_fk"]


def _checks(inspector: Inspector) -> dict[str, set[str]]:
    """Return the names of CHECK constraints by table, which alembic does not compare."""
    return {
        table: {str(each["name"]) for each in inspector.get_check_constraints(table)} for table in Base.metadata.tables
    }
