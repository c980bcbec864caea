"""Add the standard error of a rating, which decides whether it is provisional; null in older rows."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("ratings", sa.Column("standard_error", sa.Double(), nullable=True))
