"""The frame of all pages: headers, errors, navigation, files."""

import re
from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene
from refused import assert_names

from league import wire
from league.client import LeagueClient
from league.web.standings import Highlights

PAGE = {"Accept": "text/html"}
PIECE = {"HX-Request": "true"}


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_empty_league_shows_a_getting_started_command(http: TestClient) -> None:
    answer = http.get("/")
    assert answer.status_code == 200
    assert_names(answer.text, "--environment", "mech-duel", "--learner", "main")


def test_pages_have_a_strict_content_security_policy(http: TestClient, scene: Scene) -> None:
    for address in ("/", "/sign-in", "/static/style.css", "/nowhere"):
        policy = http.get(address, headers=PAGE).headers["content-security-policy"].split("; ")
        assert policy[0] == "default-src 'none'"
        assert {"script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"} <= {*policy}
        assert not any("unsafe" in each for each in policy)


def test_templates_hold_neither_script_nor_style() -> None:
    """Which the policy would not let run; nor may htmx evaluate anything."""
    folder = files("league.web").joinpath("templates")
    inline = re.compile(r"<script(?![^>]*src=)|<style|\sstyle=|\son[a-z]+=|hx-on|hx-vals=.js:|javascript:")
    for template in folder.iterdir():
        found = inline.search(template.read_text())
        assert found is None, f"{template.name}: {found and found[0]}"


def test_hashed_static_files_are_immutable_others_revalidated(http: TestClient, scene: Scene) -> None:
    page = http.get("/").text
    addresses = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert len(addresses) > 5
    for address in addresses:
        answer = http.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    bare = http.get("/static/style.css")
    assert bare.headers["cache-control"] == "no-cache"
    again = http.get("/static/style.css", headers={"If-None-Match": bare.headers["etag"]})
    assert again.status_code == 304


def test_pages_load_no_external_resources(http: TestClient, scene: Scene) -> None:
    assert re.findall(r'(?:href|src|action)="(?!/|#)[^"]*"', http.get("/").text) == []


def test_where_there_is_no_page_a_browser_gets_one_and_a_program_a_problem(http: TestClient) -> None:
    page = http.get("/nowhere", headers=PAGE)
    assert page.status_code == 404
    assert_names(page.text, "/nowhere")
    assert page.headers["content-type"].startswith("text/html")
    for address, headers in (("/nowhere", {}), ("/api/v1/nowhere", PAGE)):
        answer = http.get(address, headers=headers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"


def test_overloaded_server_returns_retry_after_and_pages_reload(
    serve: Callable[..., TestClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    http = serve(concurrency={"reads_running": 1, "reads_waiting": 0})
    Scene(LeagueClient(http=http))
    asked = (("/events", PAGE), ("/events", PIECE), ("/events", {}), ("/api/v1/players", PAGE))
    answers = []

    def ask_others(*_: object) -> Highlights:
        answers.extend(http.get(address, headers=headers) for address, headers in asked)
        return Highlights(None, None, None)

    monkeypatch.setattr("league.web.standings._highlights", ask_others)
    assert http.get("/standings/highlights").status_code == 200
    page, piece, *problems = answers
    assert all(answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1 for answer in answers)
    assert page.headers["refresh"] == page.headers["retry-after"]
    assert f"reloads in {page.headers['retry-after']} s" in page.text
    assert "content-security-policy" in page.headers
    assert piece.text.startswith("<p")
    assert "refresh" not in piece.headers
    assert [answer.headers["content-type"] for answer in problems] == ["application/problem+json"] * 2


def test_an_error_is_a_page_or_a_piece_of_one_and_is_escaped(http: TestClient, scene: Scene) -> None:
    asked = {"environment": "<b>chess</b>"}
    page = http.get("/", params=asked)
    assert page.status_code == 404
    assert "&lt;b&gt;chess" in page.text
    assert "<b>chess" not in page.text
    assert "the league has rps" in page.text
    piece = http.get("/", params=asked, headers=PIECE)
    assert piece.status_code == 404
    assert piece.text.startswith("<p")


def test_internal_error_is_shown_as_a_page_and_logged(
    http: TestClient, scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr("league.web.standings._lines", fail)
    answer = http.get("/standings")
    assert answer.status_code == 500
    assert "ZeroDivisionError in the server" in answer.text
    assert "secret" not in answer.text
    assert "GET /standings failed" in caplog.text


def test_a_page_of_many_environments_offers_those_played_last_and_takes_any_name(http: TestClient) -> None:
    client = LeagueClient(http=http)
    sizes = {}
    for number in range(120):
        name = f"game-{number:03}"
        client.register_learner(wire.LearnerCreate(name="main", role="main", environment=name, signature=name))
        sizes[number + 1] = len(http.get("/").content)
    assert sizes[120] == sizes[100], "it grows no more"
    page = http.get("/", params={"environment": "game-000"}).text
    assert 'value="game-000"' in page
    assert "One of 120 environments" in page
    assert page.count("<option>game-") == 51
    wrong = http.get("/", params={"environment": "game-00"}, headers=PAGE)
    assert (wrong.status_code, wrong.text.count("game-")) == (404, 6)
    assert len(wrong.content) < 5_000


def test_the_filter_by_lineage_offers_the_newest_and_the_chosen_one(http: TestClient, scene: Scene) -> None:
    first = scene.learner.id
    for number in range(60):
        request = wire.LearnerCreate(name=f"lineage-{number}", role="main", environment="rps", signature="rps-1")
        scene.client.register_learner(request)
    page = http.get("/standings").text
    assert len(re.findall(r'<option value="\d+"', page)) == 50
    chosen = http.get("/standings", params={"lineage": first}).text
    assert f'<option value="{first}" selected>main' in re.sub(r"\s+", " ", chosen)


def test_with_several_environments_the_one_played_last_is_shown_and_others_can_be_chosen(
    http: TestClient, league: LeagueClient, time: Any
) -> None:
    Scene(league, "rps")
    time.now += timedelta(seconds=1)
    assert "data-submit-on-change" not in http.get("/standings").text
    other = Scene(league, "recall", "recall-1")
    assert 'data-environment="recall"' in http.get("/standings").text  # the newest
    played = Scene(league, "rps")
    played.publish(1)
    played.train(1)
    page = http.get("/standings").text
    assert 'data-environment="rps"' in page
    assert "<option selected>rps</option>" in re.sub(r"\s+>", ">", page)
    assert 'data-environment="recall"' in http.get("/standings", params={"environment": other.environment}).text


def test_pages_are_not_part_of_the_interface(http: TestClient, serve: Callable[..., TestClient]) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    assert all(path.startswith("/api/v1/") or path in ("/healthz", "/readyz", "/metrics") for path in paths)


def test_going_back_loads_a_whole_page_and_browsers_keep_none(http: TestClient, scene: Scene) -> None:
    """A script's own history would keep what a token opened, and be given a piece where it wants a page."""
    page = http.get("/standings", headers=PIECE | {"HX-History-Restore-Request": "true"})
    assert page.text.startswith("<!doctype html>")
    assert '"historyCacheSize": 0' in page.text
    assert '"refreshOnHistoryMiss": true' in page.text


def test_a_form_that_cannot_be_read_is_a_refusal_and_no_defect(
    http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Sec-Fetch-Site": "same-origin", "Content-Type": "multipart/form-data"}
    answer = http.post("/sign-in", content=b"--", headers=headers)
    assert answer.status_code == 422
    assert "boundary" in answer.text
    assert "failed" not in caplog.text
