"""Who may call what."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, safetensors, sha256
from refused import refused

from league import wire
from league.auth import Scope
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import (
    ForbiddenError,
)
from league.services.audit.log import Cause
from league.services.auth import tokens

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SCOPES = Path(__file__).parents[1] / "snapshots" / "http-scopes.txt"
UNDESCRIBED = {("HEAD", "/api/v1/checkpoints/{sha256}"), ("GET", "/openapi.json"), ("GET", "/docs")}

Call = tuple[str, str]


def intended_scopes() -> dict[Call, Scope | None]:
    """Return the intended scope of every call."""
    scopes: dict[str, Scope | None] = {"none": None, **{scope.word: scope for scope in Scope}}
    rows = (line.split() for line in SCOPES.read_text().splitlines())
    return {(method, path): scopes[word] for word, method, path in rows}


def make(database: Database, scope: str, name: str | None = None) -> str:
    with database.write() as session:
        return tokens.create(session, name or scope, scope, Cause("test", "", NOW))


def openapi_scopes(http: TestClient) -> dict[Call, Scope | None]:
    """Return the scope of every call in the OpenAPI description."""
    scopes: dict[Call, Scope | None] = {}
    for path, operations in http.get("/openapi.json").json()["paths"].items():
        for method, operation in operations.items():
            words = [word for way in operation.get("security", ()) for word in way["token"]]
            assert len(words) <= 1
            scopes[method.upper(), path] = Scope[words[0].upper()] if words else None
    return scopes


def attempt(http: TestClient, call: Call, secret: str | None) -> int:
    """Make a call without a sensible body, on a scope that is checked before anything else is."""
    method, path = call
    path = re.sub(r"\{(\w+)\}", lambda found: "0" * 64 if found[1] == "sha256" else "1", path)
    headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    if path.endswith("/events"):
        headers["Last-Event-ID"] = "nonsense"  # answers at once, once allowed
    return http.request(method, path, headers=headers).status_code


@ON_SQLITE
def test_openapi_has_the_intended_scopes(http: TestClient) -> None:
    intended, found = intended_scopes(), openapi_scopes(http)
    differing = {call for call, _scope in intended.items() ^ found.items()} - UNDESCRIBED
    assert differing == set(), f"list the scope of each call in {SCOPES}"
    assert intended.keys() >= UNDESCRIBED


@ON_SQLITE
def test_every_call_needs_its_scope_and_no_more(http: TestClient, database: Database, time: Any) -> None:
    secrets = {scope: make(database, scope.word) for scope in Scope}
    assert len(intended_scopes()) > 35
    for call, scope in intended_scopes().items():
        time.advance(1)  # refused calls are counted
        assert (attempt(http, call, None) == 401) == (scope is not None), call
        assert (attempt(http, call, "unknown") == 401) == (scope is not None), call
        for held, secret in secrets.items():
            allowed = scope is None or held >= scope
            status = attempt(http, call, secret)
            assert (status == 403) == (not allowed), (call, held, status)
            assert status not in (401, 405, 429, 500), (call, held, status)


def test_a_server_is_open_until_the_first_token_and_closed_for_good_after_it(
    http: TestClient, league: LeagueClient, database: Database
) -> None:
    assert league.players().items == []
    secret = make(database, "read", "wall")
    with refused("unauthenticated"):
        league.players()
    assert LeagueClient(http=http, token=secret).players().items == []
    with database.write() as session:
        tokens.revoke(session, "wall", Cause("test", "", NOW))
    with refused("unauthenticated"):
        LeagueClient(http=http, token=secret).players()
    with refused("unauthenticated"):
        league.players()


def test_a_scope_that_does_not_suffice_is_named_with_the_one_that_does(http: TestClient, database: Database) -> None:
    worker = LeagueClient(http=http, token=make(database, "worker", "trainer-7"))
    player = Scene(worker).publish(1)
    with refused("forbidden", "trainer-7"):
        worker.promote(player.id)
    admin = LeagueClient(http=http, token=make(database, "admin", "boss"))
    assert admin.promote(player.id).standing == "commander"


def test_a_token_is_stored_as_its_hash_alone(database: Database) -> None:
    secret = make(database, "admin")
    with database.read() as session:
        (listed,) = tokens.listing(session)
        dump = str([dict(row._mapping) for row in session.connection().exec_driver_sql("SELECT * FROM tokens")])
    assert (listed.name, listed.scope, listed.revoked_at) == ("admin", "admin", None)
    assert secret not in dump
    assert len(secret) >= 43


@ON_SQLITE
def test_tokens_have_a_known_scope_and_a_name_of_their_own(database: Database) -> None:
    make(database, "read", "a")
    with refused("name-taken", "a"):
        make(database, "read", "a")
    with refused("invalid-request", "king", "read, worker, admin"):
        make(database, "king")
    with database.write() as session, refused("unknown-token", "nobody"):
        tokens.revoke(session, "nobody", Cause("test", "", NOW))


@ON_SQLITE
@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.7", "league.example.org"])
def test_beyond_loopback_a_server_without_a_token_refuses_to_start(
    serve: Callable[..., TestClient], database: Database, host: str
) -> None:
    with refused("open-server", host):
        serve(host=host)
    make(database, "admin")
    assert serve(host=host).get("/healthz").status_code == 200


@ON_SQLITE
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.53"])
def test_on_loopback_a_server_without_a_token_is_open(serve: Callable[..., TestClient], host: str) -> None:
    assert serve(host=host).get("/api/v1/players").status_code == 200


@ON_SQLITE
def test_an_open_server_refuses_the_pages_of_other_sites_and_serves_its_own(
    http: TestClient, database: Database
) -> None:
    for origin in ("https://example.org", "null", "http://127.0.0.1.example.org", "http://["):
        answer = http.post("/api/v1/rating-periods", headers={"Origin": origin})
        assert answer.status_code == 403
        assert origin in answer.json()["detail"]
        assert "league token create" in answer.json()["remedy"]
    for origin in ("http://127.0.0.1:8000", "http://localhost:5173", "http://[::1]:8000"):
        assert http.get("/api/v1/players", headers={"Origin": origin}).status_code == 200
    token = make(database, "read")
    headers = {"Origin": "https://example.org", "Authorization": f"Bearer {token}"}
    assert http.get("/api/v1/players", headers=headers).status_code == 200


@ON_SQLITE
def test_an_open_server_is_not_called_by_a_name_of_a_network(http: TestClient, database: Database) -> None:
    """A name of theirs that somebody lets lead to this machine makes a page of theirs the server's own."""
    for host in ("rebound.example.org", "rebound.example.org:8000", "192.0.2.7", "intranet", "localhost.example.org"):
        answer = http.get("/api/v1/players", headers={"Host": host})
        assert answer.status_code == 403
        assert host.partition(":")[0] in answer.json()["detail"]
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
        assert http.get("/api/v1/players", headers={"Host": host}).status_code == 200
    headers = {"Host": "league.example.org", "Authorization": f"Bearer {make(database, 'read')}"}
    assert http.get("/api/v1/players", headers=headers).status_code == 200


@ON_SQLITE
def test_uploads_need_the_worker_scope_before_a_byte_is_taken(http: TestClient, database: Database) -> None:
    data = safetensors(1)
    reader = LeagueClient(http=http, token=make(database, "read"))
    with pytest.raises(ForbiddenError):
        reader.upload(data, sha256(data))
    assert isinstance(reader.health(), wire.Health)
