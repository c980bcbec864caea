"""Every address of the dashboard needs its intended scope, and no more."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league import web
from league.auth import Scope
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.web.cookies import COOKIE
from league.web.layout import PageRoute

SCOPES = Path(__file__).parents[2] / "snapshots" / "dashboard-scopes.txt"
OWN = {"Sec-Fetch-Site": "same-origin"}
FILLED = {"sha256": "0" * 64, "change": "retire"}

Call = tuple[str, str]


@pytest.fixture
def backend() -> str:
    return "sqlite"


def intended_scopes() -> dict[Call, str]:
    rows = (line.split() for line in SCOPES.read_text().splitlines())
    return {(method, path): scope for scope, method, path in rows}


def served() -> set[Call]:
    routes = [route for router in web.ROUTERS for route in router.routes]
    assert all(isinstance(route, PageRoute) for route in routes)
    return {(method, route.path) for route in routes for method in route.methods}  # type: ignore[attr-defined]


def attempt(http: TestClient, call: Call, headers: dict[str, str]) -> tuple[int, str]:
    method, path = call
    path = re.sub(r"\{(\w+)\}", lambda found: FILLED.get(found[1], "1"), path)
    headers = headers | ({"Last-Event-ID": "nonsense"} if path == "/live" else {})
    answer = http.request(method, path, headers=headers, follow_redirects=False)
    return answer.status_code, answer.headers.get("location", "")


def test_every_address_has_an_intended_scope() -> None:
    assert intended_scopes().keys() == served(), f"list the scope of each address in {SCOPES}"


def test_every_address_needs_its_scope_and_no_more(
    serve: Callable[..., TestClient], scene: Scene, database: Database
) -> None:
    http = serve(rate_burst=1_000_000)  # each refused call counts as a hundred, and the clock stands still
    with database.write() as session:
        made = {scope: tokens.create(session, scope.word, scope.word, Cause("test", "", scene.learner.created_at))
                for scope in Scope}  # fmt: skip
    for call, needed in intended_scopes().items():
        for secret in (None, "unknown"):
            http.cookies.clear()
            if secret is not None:
                http.cookies.set(COOKIE, secret)
            status, location = attempt(http, call, OWN)
            sent_to_form = status == 303 and location.startswith("/sign-in") and call != ("POST", "/sign-out")
            assert sent_to_form == (needed != "none"), (call, status)
        for scope, secret in made.items():
            http.cookies.set(COOKIE, secret)
            status, location = attempt(http, call, OWN)
            assert (status == 403) == (needed == "admin" and scope < Scope.ADMIN), (call, scope, status)
            assert call == ("POST", "/sign-out") or not location.startswith("/sign-in"), (call, scope)
            assert status not in (405, 429, 500), (call, scope, status)


def test_no_form_is_taken_from_another_site(http: TestClient, scene: Scene) -> None:
    for call in intended_scopes():
        if call[0] == "POST":
            status, _ = attempt(http, call, {"Sec-Fetch-Site": "cross-site"})
            # a form that lacks fields is refused before anybody asks where it is from
            assert status in (403, 422), call
