"""Add tags and notes of players."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "player_tags",
        sa.Column("player_id", ID, autoincrement=False, nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["player_id"], ["players.id"], name=op.f("fk_player_tags_player_id_players")),
        sa.PrimaryKeyConstraint("player_id", "tag", name=op.f("pk_player_tags")),
    )
    op.create_index(op.f("ix_player_tags_tag"), "player_tags", ["tag"])
    op.add_column("players", sa.Column("note", sa.String(), nullable=True))
