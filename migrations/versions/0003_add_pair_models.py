"""Add the newest fit of each environment's pair model."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "pair_models",
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("period_id", ID, nullable=True),
        sa.Column("matches", sa.BigInteger(), nullable=False),
        sa.Column("components", sa.BigInteger(), nullable=False),
        sa.Column("players", sa.LargeBinary(), nullable=False),
        sa.Column("parameters", sa.LargeBinary(), nullable=False),
        sa.Column("report", sa.JSON(), nullable=False),
        sa.Column("fitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["period_id"], ["periods.id"], name=op.f("fk_pair_models_period_id_periods")),
        sa.PrimaryKeyConstraint("environment", name=op.f("pk_pair_models")),
    )
