"""Tokens of a league whose server does not run yet."""

from datetime import UTC, datetime

from league.db import schema
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens


def make_token(url: str) -> str:
    """Make a database, and a token for everything; return it."""
    database = Database(url)
    schema.upgrade(database)
    with database.write() as session:
        secret = tokens.create(session, "test", "admin", Cause("test", "", datetime.now(UTC)))
    database.close()
    return secret
