"""Add the delivery state of webhooks, and the time at which a worker was recorded as lost."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("hook", sa.String(), nullable=False),
        sa.Column("event_id", ID, nullable=False),
        sa.PrimaryKeyConstraint("hook", name=op.f("pk_webhooks")),
    )
    op.add_column("workers", sa.Column("lost_at", sa.DateTime(timezone=True), nullable=True))
    # Otherwise every worker of the past would be reported as lost after the upgrade.
    op.execute("UPDATE workers SET lost_at = seen_at")
