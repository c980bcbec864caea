"""Runs migrations on the connection that `league.db.schema` passes, or on LEAGUE_DATABASE_URL for a developer."""

from alembic import context
from sqlalchemy import Connection

from league.db.engine import Database
from league.db.models import Base
from league.settings import Settings
from league.storage.factory import open_store


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is None:
    settings = Settings.load()
    context.config.attributes["put_recording"] = open_store(settings).recordings.put
    with Database(settings.database_address).write_connection() as own:
        run(own)
else:
    run(given)
