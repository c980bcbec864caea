"""Tokens end, are renewed, and leave a trace."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE
from refused import refused

from league.api.token_cache import USE_RECORD_INTERVAL
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import (
    InvalidRequestError,
    UnauthenticatedError,
)
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.auth import tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)

Connect = Callable[..., LeagueClient]


def test_expired_token_is_rejected_with_its_expiry_time(connect: Connect, time: Any) -> None:
    client = connect("read", "wall", expires_at=NOW + timedelta(hours=1))
    time.advance(3599)
    assert client.players().items == []
    time.advance(1)
    with refused("unauthenticated", "wall", "2030-01-01", "01:00", "UTC", "league token renew"):
        client.players()


@pytest.mark.parametrize("ended", ["revoked", "expired", "in use"])
def test_a_renewed_token_has_a_new_secret_alone(
    connect: Connect, http: TestClient, database: Database, time: Any, ended: str
) -> None:
    old = connect("read", "wall", expires_at=NOW + timedelta(hours=1))
    if ended == "revoked":
        with database.write() as session:
            tokens.revoke(session, "wall", Cause("test", "", NOW))
    time.advance(7200 if ended == "expired" else 0)
    with database.write() as session:
        renewed = tokens.renew(session, "wall", Cause("test", "", time.now))
    assert LeagueClient(http=http, token=renewed).players().items == []
    with refused("unauthenticated"):
        old.players()
    with database.read() as session:
        (listed,) = tokens.listing(session)
    assert (listed.expires_at, listed.revoked_at) == (None, None)


@ON_SQLITE
def test_a_token_cannot_end_before_it_begins(database: Database, connect: Connect) -> None:
    with refused("invalid-request", "2030-01-01", "00:00", "UTC"):
        connect("read", expires_at=NOW)
    connect("read", "wall")
    with database.write() as session, pytest.raises(InvalidRequestError):
        tokens.renew(session, "wall", Cause("test", "", NOW), expires_at=NOW)
    connect("read", "my wall")
    for name, quoted in (("wall", "wall"), ("my wall", "'my wall'")):
        with refused("name-taken", "league token renew", quoted):
            connect("read", name)


def test_the_last_use_of_a_token_is_noted_now_and_then(connect: Connect, database: Database, time: Any) -> None:
    client = connect("read", "wall")
    seen = []
    for _ in range(4):
        client.players()
        with database.read() as session:
            seen.append(tokens.listing(session)[0].used_at)
        time.advance(USE_RECORD_INTERVAL.total_seconds() / 2)
    assert seen == [NOW, NOW, NOW + USE_RECORD_INTERVAL, NOW + USE_RECORD_INTERVAL]


def test_every_change_of_a_token_is_in_the_audit_log(database: Database) -> None:
    with database.write() as session:
        tokens.create(session, "wall", "read", Cause("ann", "", NOW), expires_at=NOW + timedelta(days=1))
        tokens.renew(session, "wall", Cause("bob", "", NOW))
        for _ in range(2):
            tokens.revoke(session, "wall", Cause("cat", "", NOW))
    with database.read() as session:
        log = audit_log.read_after(session, 0, 100)
    assert [(event.kind, event.actor, event.details["change"]) for event in log] == [
        ("token", "ann", "created"),
        ("token", "bob", "renewed"),
        ("token", "cat", "revoked"),
    ]
    assert log[0].details == {
        "change": "created",
        "token": "wall",
        "scope": "read",
        "expires_at": "2030-01-02T00:00:00+00:00",
    }


@ON_SQLITE
def test_tokens_take_effect_within_the_cache_lifetime(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=1.0)
    everybody = LeagueClient(http=http)
    everybody.players()
    with database.write() as session:
        secret = tokens.create(session, "wall", "read", Cause("test", "", NOW))
    client = LeagueClient(http=http, token=secret)
    for call in (everybody.players, client.players):
        call()
    time.advance(1)
    with refused("unauthenticated"):
        everybody.players()
    client.players()
    with database.write() as session:
        tokens.revoke(session, "wall", Cause("test", "", NOW))
    time.advance(0.5)
    client.players()
    time.advance(0.5)
    with refused("unauthenticated"):
        client.players()


@ON_SQLITE
def test_a_clock_that_is_set_back_makes_no_token_last_longer(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=60.0)
    with database.write() as session:
        client = LeagueClient(http=http, token=tokens.create(session, "wall", "read", Cause("test", "", NOW)))
    client.players()
    with database.write() as session:
        tokens.revoke(session, "wall", Cause("test", "", NOW))
    client.players()
    time.advance(-3600)
    with refused("unauthenticated"):
        client.players()


@ON_SQLITE
def test_a_token_expires_at_once_and_a_new_one_works_at_once(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    http = serve(token_memory_s=60.0)
    with database.write() as session:
        ends = tokens.create(session, "a", "read", Cause("test", "", NOW), expires_at=NOW + timedelta(seconds=1))
        first = tokens.create(session, "b", "read", Cause("test", "", NOW))
    client, later = LeagueClient(http=http, token=ends), LeagueClient(http=http, token=first)
    client.players()
    time.advance(1)
    with refused("unauthenticated", "expired"):
        client.players()
    with database.write() as session:
        second = tokens.renew(session, "b", Cause("test", "", NOW))
    again = LeagueClient(http=http, token=second)
    with pytest.raises(UnauthenticatedError):
        LeagueClient(http=http, token=f"{second}x").players()
    again.players()
    with pytest.raises(UnauthenticatedError):
        later.players()
