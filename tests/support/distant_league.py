"""A league of this process that is reached over a network that a test can break."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from fastapi.testclient import TestClient
from fault_proxy import Address, Proxy, passing_on
from kills.witness import Memory
from live_server import listening
from sqlalchemy import select

from league.app import create_app
from league.db import schema
from league.db.engine import Database
from league.db.models import Match
from league.services.operations import integrity
from league.settings import Settings


class League:
    """A server on a port of its own, behind a proxy.

    Attributes:
        http: Calls without a network.
        url: Of the proxy.
    """

    def __init__(self, settings: Settings, stack: ExitStack) -> None:
        database = Database(settings.database_address)
        schema.upgrade(database)
        database.close()
        self._settings = settings
        app = create_app(settings)
        self.http: Any = stack.enter_context(TestClient(app, raise_server_exceptions=False))
        there = address(stack.enter_context(listening(app)))
        self.network: Proxy = stack.enter_context(passing_on(lambda: [there]))
        self.url = self.network.url

    def wrong(self, *memories: Memory) -> list[object]:
        """Close the last period; return what is not as witnesses remember it, and what is wrong with the books."""
        answer = self.http.post("/api/v1/rating-periods", json={})
        assert answer.is_success, answer.text
        database = Database(self._settings.database_address)
        try:
            store = self.http.app.state.league.store
            young = datetime.now(UTC) - timedelta(days=1)
            found: list[object] = [*integrity.check(database, store, unpublished_before=young)]
            with database.read() as session:
                log = session.execute(select(Match.lease_id, Match.sequence, Match.id)).all()
        finally:
            database.close()
        kept = {(lease_id, sequence): match_id for lease_id, sequence, match_id in log}
        for memory in memories:
            found += memory.broken
            found += [key for key, match_id in memory.matches.items() if kept.get(key) != match_id]
            found += [one for one, sha256 in memory.published.items() if self.checkpoint(one) != sha256]
        rated = self._rated()
        return found if rated == len(kept) else [*found, f"{len(kept)} accepted, {rated} counted"]

    def _rated(self) -> int:
        """Count the matches that periods took in, however many of these there are."""
        rated, asked = 0, {"limit": 1000}
        while True:
            page = self.http.get("/api/v1/rating-periods", params=asked).json()
            rated += sum(period["matches"] for period in page["items"])
            if page["next_cursor"] is None:
                return rated
            asked["cursor"] = page["next_cursor"]

    def checkpoint(self, player_id: int) -> str | None:
        """Return the hash of a player's checkpoint."""
        sha256: str | None = self.http.get(f"/api/v1/players/{player_id}").json()["checkpoint"]
        return sha256


def address(url: str) -> Address:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def until(fulfilled: Callable[[], object]) -> None:
    """Wait for as long as a test may take."""
    while not fulfilled():
        threading.Event().wait(0.01)
