"""Rename the task of a leader lease, and the recent win rates in the evidence of snapshot decisions."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

OLD, NEW = '"of_late"', '"recent_win_rate"'


def upgrade() -> None:
    op.execute("ALTER TABLE leader_leases RENAME COLUMN duty TO task")
    # PostgreSQL has a type for JSON. In SQLite it is text, and a cast to JSON would make a number of it.
    renamed = f"replace(details, '{OLD}', '{NEW}')"
    if op.get_bind().dialect.name == "postgresql":
        renamed = f"replace(details::text, '{OLD}', '{NEW}')::json"
    op.execute(f"UPDATE events SET details = {renamed} WHERE kind = 'snapshot'")  # noqa: S608 - constants
