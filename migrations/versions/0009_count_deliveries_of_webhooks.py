"""Count the deliveries of webhooks, and record the time of the last one."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("webhooks", sa.Column("delivered", COUNT, nullable=False, server_default="0"))
    op.add_column("webhooks", sa.Column("failed", COUNT, nullable=False, server_default="0"))
    op.add_column("webhooks", sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True))
