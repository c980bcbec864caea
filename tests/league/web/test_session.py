"""Signing in: the token is kept in a cookie, works there, and appears nowhere else."""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from league_scene import Scene

from league.api.dependencies import clock
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.web.cookies import COOKIE, cookie_at, visitor_validity

OWN = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def secret(scene: Scene, database: Database, time: Any) -> Callable[[str], str]:
    """Make a token of a scope, which closes the league."""

    def make(scope: str) -> str:
        with database.write() as session:
            return tokens.create(session, scope, scope, Cause("test", "", time.now))

    return make


def sign_in(http: TestClient, token: str, goal: str = "/", **headers: str) -> Any:
    return http.post("/sign-in", data={"token": token, "next": goal}, headers=OWN | headers, follow_redirects=False)


def test_an_open_league_asks_for_nothing(http: TestClient, scene: Scene) -> None:
    assert "Sign out" not in http.get("/").text
    answer = http.get("/sign-in", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


def test_sign_in_redirects_to_the_requested_page(http: TestClient, secret: Callable[[str], str]) -> None:
    token = secret("read")
    asked = http.get("/", params={"sort": "games"}, follow_redirects=False)
    assert asked.status_code == 303
    assert asked.headers["location"] == "/sign-in?next=/%3Fsort%3Dgames"
    form = http.get(asked.headers["location"])
    assert 'name="next" value="/?sort=games"' in form.text
    answer = sign_in(http, token, "/?sort=games")
    assert (answer.status_code, answer.headers["location"]) == (303, "/?sort=games")
    assert http.get("/").status_code == 200
    assert "Sign out" in http.get("/").text


def test_the_token_of_another_league_is_as_good_as_none(
    http: TestClient, scene: Scene, secret: Callable[[str], str]
) -> None:
    """Another league may have been served at this address before."""
    http.cookies.set(COOKIE, "of-another-league")
    assert http.get("/").status_code == 200
    player = scene.publish(1)
    change = {"reason": "strong", "expected": "candidate"}
    promoted = http.post(f"/players/{player.id}/promote", data=change, headers=OWN, follow_redirects=False)
    assert promoted.status_code == 303
    assert http.get("/live", headers={"Last-Event-ID": "nonsense"}).status_code == 422
    secret("read")
    assert http.get("/", follow_redirects=False).headers["location"] == "/sign-in"


def test_leagues_of_one_machine_keep_their_tokens_apart(http: TestClient, secret: Callable[[str], str]) -> None:
    """A browser sends what one of them had it keep to all, and lets each overwrite the others'."""
    token = secret("read")
    kept = []
    for port in ("8000", "8001"):
        http.headers["Host"] = f"league.example:{port}"
        assert http.get("/", follow_redirects=False).status_code == 303
        kept.append(sign_in(http, token).headers["set-cookie"].partition("=")[0])
        assert http.get("/").status_code == 200
    assert kept == [cookie_at(8000), cookie_at(8001)]
    http.post("/sign-out", headers=OWN, follow_redirects=False)
    assert http.get("/", follow_redirects=False).status_code == 303
    http.headers["Host"] = "league.example:8000"
    assert http.get("/").status_code == 200


def test_pages_are_followed_for_as_long_as_the_league_is_open(
    scene: Scene, http: TestClient, secret: Callable[[str], str]
) -> None:
    headers = [(b"cookie", f"{COOKIE}=of-another-league".encode())]
    request = Request({"type": "http", "path": "/live", "query_string": b"", "headers": headers})

    async def follow() -> tuple[bool, bool]:
        lasts = await visitor_validity(request, http.app.state.league, clock)
        while_open = await lasts()
        secret("read")
        return while_open, await lasts()

    assert asyncio.run(follow()) == (True, False)


def test_an_address_too_long_to_come_back_to_still_leads_to_the_form(
    http: TestClient, secret: Callable[[str], str]
) -> None:
    secret("read")
    asked = http.get("/", params={"q": "é" * 199, "environment": "x" * 2000}, follow_redirects=False)
    assert asked.headers["location"] == "/sign-in"
    asked = http.get("/", params={"q": "é" * 199}, follow_redirects=False)
    assert asked.headers["location"].startswith("/sign-in?next=/%3Fq%3D")
    assert http.get(asked.headers["location"]).status_code == 200


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(
    http: TestClient, secret: Callable[[str], str]
) -> None:
    token = secret("read")
    plain = sign_in(http, token).headers["set-cookie"]
    assert plain.startswith(f"{COOKIE}={token}; ")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {*plain.split("; ")}
    assert "Secure" not in plain
    over_tls = http.post("https://testserver/sign-in", data={"token": token}, headers=OWN, follow_redirects=False)
    assert "Secure" in over_tls.headers["set-cookie"].split("; ")


def test_unknown_token_is_rejected_at_sign_in(http: TestClient, secret: Callable[[str], str]) -> None:
    secret("read")
    answer = sign_in(http, "wrong")
    assert answer.status_code == 401
    assert "unknown or revoked" in answer.text
    assert "set-cookie" not in answer.headers


def test_signing_out_drops_the_cookie(http: TestClient, secret: Callable[[str], str]) -> None:
    sign_in(http, secret("read"))
    assert http.post("/sign-out", headers=OWN, follow_redirects=False).headers["location"] == "/sign-in"
    assert http.get("/", follow_redirects=False).status_code == 303


def test_revoking_a_token_ends_the_session(
    http: TestClient, secret: Callable[[str], str], database: Database, time: Any
) -> None:
    sign_in(http, secret("read"))
    with database.write() as session:
        tokens.revoke(session, "read", Cause("test", "", time.now))
    assert http.get("/", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("goal", ["https://example.org/", "//example.org", "/\\example.org", "javascript:alert(1)"])
def test_signing_in_leads_nowhere_else(http: TestClient, secret: Callable[[str], str], goal: str) -> None:
    assert sign_in(http, secret("read"), goal).headers["location"] == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": "http://["},
    ],
)
def test_forms_of_other_sites_are_refused(
    http: TestClient, secret: Callable[[str], str], headers: dict[str, str]
) -> None:
    answer = http.post("/sign-in", data={"token": secret("read")}, headers=headers, follow_redirects=False)
    assert answer.status_code == 403


def test_a_browser_that_names_the_origin_alone_is_believed(http: TestClient, secret: Callable[[str], str]) -> None:
    headers = {"Origin": "http://testserver"}
    answer = http.post("/sign-in", data={"token": secret("read")}, headers=headers, follow_redirects=False)
    assert answer.status_code == 303


def test_link_from_another_site_reloads_the_page_once(http: TestClient, secret: Callable[[str], str]) -> None:
    """The browser sends no cookie with such a visit, but with the next one from the page itself."""
    secret("read")
    answer = http.get("/", headers={"Sec-Fetch-Site": "cross-site"}, follow_redirects=False)
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' in answer.text


def test_script_of_an_expired_session_is_redirected_to_sign_in(http: TestClient, secret: Callable[[str], str]) -> None:
    secret("read")
    answer = http.get("/", headers={"HX-Request": "true"}, follow_redirects=False)
    assert answer.status_code == 401
    assert answer.headers["hx-redirect"] == "/sign-in"


@pytest.mark.parametrize(
    ("page", "form"),
    [
        ("http://testserver/events?kind=gate", "/sign-in?next=/events%3Fkind%3Dgate"),
        ("http://testserver/", "/sign-in"),
        ("http://[", "/sign-in"),
    ],
)
def test_sign_in_returns_to_the_page_whose_script_was_redirected(
    http: TestClient, secret: Callable[[str], str], page: str, form: str
) -> None:
    secret("read")
    answer = http.get("/", headers={"HX-Request": "true", "HX-Current-URL": page}, follow_redirects=False)
    assert answer.headers["hx-redirect"] == form


def test_the_interface_takes_no_cookie(http: TestClient, secret: Callable[[str], str]) -> None:
    """So that no page of another site can make a signed-in browser call it."""
    sign_in(http, secret("admin"))
    assert http.get("/api/v1/players").status_code == 401
    assert http.get("/api/v1/events").status_code == 401
    assert http.post("/api/v1/rating-periods").status_code == 401


def test_the_token_is_in_no_page_and_no_log(
    http: TestClient, secret: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = secret("admin")
    sign_in(http, token)
    sign_in(http, f"{token}x")
    pages = [http.get(address).text for address in ("/", "/sign-in", "/nowhere")]
    pages.append(sign_in(http, f"{token}x").text)
    assert not any(token in page for page in pages)
    assert token not in re.sub(r"set-cookie[^\n]*", "", caplog.text)
