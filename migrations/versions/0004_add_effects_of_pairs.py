"""Add the effects of pairs to the newest fit of each environment's pair model.

Stored fits lack them and are deleted. The background process fits again after the next rating period.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DELETE FROM pair_models")
    # SQLite adds a column without a default only to a new table, even if there are no rows.
    with op.batch_alter_table("pair_models", recreate="always") as pair_models:
        pair_models.add_column(sa.Column("effect_variance", sa.Double(), nullable=False))
        pair_models.add_column(sa.Column("effects", sa.LargeBinary(), nullable=False))
