"""Add runs of learners, and the run that published a snapshot."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "runs",
        sa.Column("id", ID, nullable=False),
        sa.Column("learner_id", ID, nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("origin", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["learner_id"], ["learners.id"], name=op.f("fk_runs_learner_id_learners")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint("learner_id", "key", name=op.f("uq_runs_learner_id_key")),
    )
    # Without a foreign key: SQLite can add one only by copying the table, which others refer to.
    op.add_column("players", sa.Column("run_id", sa.BigInteger(), nullable=True))
    op.create_index(op.f("ix_players_run_id"), "players", ["run_id"])
