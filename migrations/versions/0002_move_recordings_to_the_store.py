"""Move the bytes of recordings from the database to the checkpoint store.

The store's `put_recording(key, content)` comes with Alembic's configuration. It returns once the bytes are durable, so
they are in the store before this migration commits. If the migration fails, they stay there without rows, and
`league admin gc` deletes them.
"""

import secrets
from collections.abc import Callable

import sqlalchemy as sa
from alembic import context, op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

REPLAYS = sa.table(
    "replays",
    sa.column("match_id", sa.BigInteger()),
    sa.column("key", sa.String()),
    sa.column("content", sa.LargeBinary()),
)


def upgrade() -> None:
    op.add_column("replays", sa.Column("key", sa.String(), nullable=True))
    connection = op.get_bind()
    for match_id in connection.scalars(sa.select(REPLAYS.c.match_id).order_by(REPLAYS.c.match_id)).all():
        this = REPLAYS.c.match_id == match_id
        key = f"{match_id}-{secrets.token_hex(8)}.json.gz"
        put_recording()(key, connection.scalar(sa.select(REPLAYS.c.content).where(this)))
        connection.execute(sa.update(REPLAYS).where(this).values(key=key))
    # In a batch, because SQLite cannot alter a column: Alembic copies the table instead.
    with op.batch_alter_table("replays") as replays:
        replays.alter_column("key", existing_type=sa.String(), nullable=False)
        replays.drop_column("content")


def put_recording() -> Callable[[str, bytes], None]:
    put: Callable[[str, bytes], None] | None = context.config.attributes.get("put_recording")
    if put is None:
        raise RuntimeError("the database has recordings: run `league db upgrade`, which moves them to the store")
    return put
