"""The page of a player, and what an admin may do there."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, safetensors
from refused import assert_names

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.web.cookies import COOKIE

OWN = {"Sec-Fetch-Site": "same-origin"}
PIECE = {"HX-Request": "true"}


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def player(scene: Scene, league: LeagueClient) -> wire.Player:
    """A snapshot that played."""
    first = scene.publish(1)
    scene.publish(2)
    scene.evaluate(8, winner=first.id)
    league.close_period()
    return first


def test_player_page_shows_rating_matches_and_checkpoint(
    http: TestClient, league: LeagueClient, player: wire.Player
) -> None:
    page = http.get(f"/players/{player.id}").text
    now = league.player(player.id)
    assert f"{now.rating:.0f}" in page
    assert f"± {2 * now.deviation:.0f}" in page
    assert f'data-copy="{player.checkpoint}"' in page
    assert now.promotion_status is not None
    assert now.promotion_status in page
    for match in league.matches(player.id, limit=5).items:
        assert f'href="/matches/{match.id}"' in page
    assert http.get(f"/players/{player.id}/head").status_code == 200


def test_reports_are_shown_until_they_are_dismissed(
    http: TestClient, scene: Scene, league: LeagueClient, player: wire.Player
) -> None:
    lease = next(each for each in scene.rating_leases(64) if player.id in (each.home.player_id, each.away.player_id))
    named = [wire.UnplayablePlayer(player_id=player.id, reason="damaged <weights>")]
    league.release(wire.ReleaseRequest(worker_id=scene.evaluator.id, lease_ids=[lease.lease_id], unplayable=named))
    page = http.get(f"/players/{player.id}").text
    assert "reported as unplayable" in page
    assert "damaged &lt;weights&gt;" in page
    assert f'action="/players/{player.id}/dismiss"' in page
    answer = http.post(
        f"/players/{player.id}/dismiss", data={"reason": "it plays"}, headers=OWN, follow_redirects=False
    )
    assert answer.status_code == 303
    page = http.get(f"/players/{player.id}").text
    assert "reported as unplayable" not in page
    assert "it plays" in page


@pytest.mark.parametrize("part", ["", "/head", "/curve", "/opponents", "/descent", "/likeness"])
def test_missing_player_returns_404(http: TestClient, scene: Scene, part: str) -> None:
    answer = http.get(f"/players/999{part}")
    assert answer.status_code == 404
    assert_names(answer.text, 999)


def test_learners_and_baselines_have_pages_and_can_only_be_annotated(http: TestClient, scene: Scene) -> None:
    for one in (scene.learner.player_id, scene.baseline().id):
        page = http.get(f"/players/{one}").text
        assert page.count('id="dialog-') == page.count('id="dialog-annotate"') == 1
        for part in ("descent", "likeness", "opponents"):
            assert 'class="empty"' in http.get(f"/players/{one}/{part}").text


def test_the_curve_is_that_of_the_league(http: TestClient, league: LeagueClient, player: wire.Player) -> None:
    columns = http.get(f"/players/{player.id}/curve").json()
    points = league.ratings(player.id).items
    assert columns["period"] == [point.number for point in points] != []
    assert columns["rating"] == [point.rating for point in points]
    assert columns["high"] == [point.rating + 2 * point.deviation for point in points]
    assert columns["low"] == [point.rating - 2 * point.deviation for point in points]
    assert columns["at"] == [point.closed_at.timestamp() for point in points]


def test_the_lineage_is_drawn_with_links(http: TestClient, league: LeagueClient, player: wire.Player) -> None:
    drawing = http.get(f"/players/{player.id}/descent").text
    assert {f"/players/{each}" for each in re.findall(r'href="/players/(\d+)"', drawing)} == {
        f"/players/{each.id}" for each in league.players("rps", kind="snapshot").items
    }
    assert "<style" not in drawing


def test_a_checkpoint_is_downloaded_with_the_cookie(http: TestClient, player: wire.Player) -> None:
    answer = http.get(f"/checkpoints/{player.checkpoint}")
    assert answer.content == safetensors(1, signature="rps-1")
    assert http.get(f"/checkpoints/{'0' * 64}").status_code == 404


def test_player_page_reports_a_missing_checkpoint(http: TestClient, player: wire.Player, tmp_path: Path) -> None:
    (lost,) = (tmp_path / "checkpoints").rglob(f"*{player.checkpoint}*")
    lost.unlink()
    assert "not in the store" in http.get(f"/players/{player.id}").text


def test_user_text_is_escaped(http: TestClient, league: LeagueClient, player: wire.Player) -> None:
    league.retire(player.id, "<img src=x>")
    page = http.get(f"/players/{player.id}").text
    assert "<img src=x>" not in page
    assert "&lt;img src=x&gt;" in page
    assert "<img" not in http.get(f"/players/{player.id}/descent").text


# --- changes ---------------------------------------------------------------------------------------------------------


def post(http: TestClient, path: str, expected: str | int, **headers: str) -> tuple[int, str]:
    answer = http.post(
        path, data={"reason": "because", "expected": expected}, headers=OWN | headers, follow_redirects=False
    )
    return answer.status_code, answer.text


def test_every_change_is_made_with_its_reason_and_leads_back(
    http: TestClient, league: LeagueClient, player: wire.Player
) -> None:
    standing = league.player(player.id).standing
    for change in ("retire", "reinstate", "promote", "quarantine"):
        assert f'action="/players/{player.id}/{change}"' in http.get(f"/players/{player.id}").text
        assert post(http, f"/players/{player.id}/{change}", str(standing))[0] == 303
        standing = league.player(player.id).standing
        newest = league.events("rps", player.id, limit=1).items[0]
        assert (newest.kind, newest.reason) == (change, "because")
    assert standing == "quarantined"
    assert "because" in http.get(f"/players/{player.id}").text


def test_tags_and_note_are_edited_and_lead_to_the_standings(http: TestClient, player: wire.Player) -> None:
    values = {"reason": "for the paper", "tags": "best, paper 1,", "note": "figure <3>"}
    answer = http.post(f"/players/{player.id}/annotate", data=values, headers=OWN, follow_redirects=False)
    assert answer.status_code == 303
    page = http.get(f"/players/{player.id}").text
    assert 'value="best, paper 1"' in page
    assert 'href="/standings?q=paper+1"' in page
    assert "figure &lt;3&gt;" in page
    assert player.name in http.get("/standings/rows?q=paper+1").text.replace("<wbr>", "")
    refused = http.post(f"/players/{player.id}/annotate", data=values | {"tags": "a;b"}, headers=OWN)
    assert refused.status_code == 422
    assert_names(refused.text, "a;b")


def test_change_by_a_script_reloads_its_page(http: TestClient, player: wire.Player) -> None:
    answer = http.post(
        f"/players/{player.id}/retire", data={"reason": "old", "expected": "candidate"}, headers=OWN | PIECE
    )
    assert (answer.status_code, answer.headers["hx-refresh"]) == (204, "true")


def test_conflicting_change_shows_the_current_standing(
    http: TestClient, league: LeagueClient, player: wire.Player
) -> None:
    league.retire(player.id, "before")
    status, text = post(http, f"/players/{player.id}/promote", "candidate", **PIECE)
    assert status == 409
    assert "it is retired; promote requires candidate; from retired it allows reinstate, quarantine" in text


def test_champion_form_fails_if_the_champion_changed(
    http: TestClient, league: LeagueClient, player: wire.Player
) -> None:
    assert post(http, f"/players/{player.id}/champion", "")[0] == 303
    assert league.champion("rps").player.id == player.id
    assert "/champion" not in http.get(f"/players/{player.id}").text
    other = next(each for each in league.players("rps", kind="snapshot").items if each.id != player.id)
    status, text = post(http, f"/players/{other.id}/champion", "")
    assert status == 409
    assert "expected none" in text
    assert post(http, f"/players/{other.id}/champion", player.id)[0] == 303


def test_a_change_needs_a_reason_and_a_known_name(http: TestClient, player: wire.Player) -> None:
    address = f"/players/{player.id}/retire"
    blank = [{"expected": "candidate", "reason": reason} for reason in ("", "  ", "\n\t")]
    for form in ({"expected": "candidate"}, *blank, {"reason": "x"}):
        assert http.post(address, data=form, headers=OWN).status_code == 422
    assert http.post(f"/players/{player.id}/bless", data={"reason": "x"}, headers=OWN).status_code == 422


def test_a_reader_sees_no_buttons_and_is_refused(
    http: TestClient, league: LeagueClient, player: wire.Player, database: Database
) -> None:
    assert 'id="dialog-' in http.get(f"/players/{player.id}").text
    with database.write() as session:
        made = {scope: tokens.create(session, scope, scope, Cause("test", "", player.created_at)) for scope in
                ("read", "worker", "admin")}  # fmt: skip
    for scope, secret in made.items():
        http.cookies.set(COOKIE, secret)
        page = http.get(f"/players/{player.id}").text
        assert ('id="dialog-' in page) == (scope == "admin")
        assert secret not in page
        status, text = post(http, f"/players/{player.id}/retire", "candidate")
        assert status == (303 if scope == "admin" else 403)
        assert scope == "admin" or f"its scope is {scope}, but the call requires admin" in text


def test_changes_from_other_sites_are_refused_also_where_the_league_is_open(
    http: TestClient, league: LeagueClient, player: wire.Player
) -> None:
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://example.org"}):
        form = {"reason": "x", "expected": "candidate"}
        assert http.post(f"/players/{player.id}/retire", data=form, headers=headers).status_code == 403
    assert league.player(player.id).standing == "candidate"
