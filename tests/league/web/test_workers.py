"""Workers: how busy they are, whose results do not fit, and what admins have them do."""

from itertools import cycle
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result
from sqlalchemy import delete

from league.db.engine import Database
from league.db.models import Match
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.services.trust import review
from league.services.workers import activity
from league.web.cookies import COOKIE

FROM_PAGE = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_workers_are_listed_with_rate_leases_and_state(http: TestClient, scene: Scene, time: Any) -> None:
    played, _ = scene.opponent_leases(2, budget=2)
    scene.report(result(played))
    page = http.get("/workers").text
    for shown in ("trainer-1", "evaluator-1", "attached", "leases open"):
        assert shown in page
    states = []
    for passed_s in (150, 1, 209, 1):  # a beat is 120 s
        time.advance(passed_s)
        page = http.get("/workers/now").text
        states.append(next(state for state in ("attached", "overdue", "away") if page.count(f">{state}<") == 2))
    assert states == ["attached", "overdue", "overdue", "away"]


def test_a_rate_is_that_of_the_last_ten_minutes(scene: Scene, database: Database, time: Any) -> None:
    leases = scene.opponent_leases(4)
    scene.report(*(result(lease) for lease in leases[:3]))
    time.advance(30)
    with database.read() as session:
        (busy,) = activity.of_workers(session, time.now).values()
    assert busy.matches_per_s == pytest.approx(3 / 600)
    assert busy.open_leases >= 4
    time.advance(600)
    with database.read() as session:
        assert activity.of_workers(session, time.now).get(scene.trainer.id) is None


def report_every_five_seconds(scene: Scene, time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report four matches, of which a rate looks at the last two."""
    monkeypatch.setattr(activity, "MATCHES_MAX", 2)
    for lease in scene.opponent_leases(4):
        scene.report(result(lease))
        time.advance(5)


def test_a_rate_of_many_matches_is_that_of_the_time_that_they_took(
    scene: Scene, database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_every_five_seconds(scene, time, monkeypatch)
    with database.read() as session:
        busy = activity.of_workers(session, time.now)[scene.trainer.id]
    assert busy.matches_per_s == pytest.approx(2 / 10)


def test_ids_without_a_match_make_no_rate_slower(
    scene: Scene, database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_every_five_seconds(scene, time, monkeypatch)
    with database.write() as session:
        session.execute(delete(Match).where(Match.id == 3))
        busy = activity.of_workers(session, time.now)[scene.trainer.id]
    assert busy.matches_per_s == pytest.approx(1 / 5)


def test_an_admin_quarantines_and_reinstates_with_a_reason(http: TestClient, scene: Scene) -> None:
    path = f"/workers/{scene.evaluator.id}"
    answer = http.post(
        f"{path}/quarantine",
        data={"reason": "broken build", "since_h": "24"},
        headers=FROM_PAGE,
        follow_redirects=False,
    )
    assert (answer.status_code, answer.headers["location"]) == (303, "/workers")
    page = http.get("/workers").text
    assert "broken build" in page
    assert "Reinstate" in page
    http.post(f"{path}/reinstate", data={"reason": "a false alarm", "restore": "true"}, headers=FROM_PAGE)
    assert "broken build" not in http.get("/workers").text
    told = [(event.kind, event.reason) for event in scene.client.events().items]
    assert told == [("reinstate-worker", "a false alarm"), ("quarantine-worker", "broken build")]


def test_drain_command_is_sent_and_logged_with_its_actor(http: TestClient, scene: Scene) -> None:
    http.post(
        f"/workers/{scene.trainer.id}/command", data={"command": "drain", "reason": "new version"}, headers=FROM_PAGE
    )
    assert scene.client.heartbeat(scene.trainer.id).command == "drain"
    (line,) = scene.client.events().items
    assert (line.kind, line.actor, line.reason) == ("drain-worker", "open", "new version")
    assert line.details == {"worker_id": scene.trainer.id, "worker": "trainer-1", "from": "continue"}
    assert "draining" in http.get("/workers").text
    assert "Cancel the drain" in http.get("/workers").text


def test_other_sites_change_nothing(http: TestClient, scene: Scene) -> None:
    path, form = f"/workers/{scene.trainer.id}/command", {"command": "stop", "reason": "because"}
    assert http.post(path, data=form, headers={"Origin": "https://elsewhere.example"}).status_code == 403
    assert http.post(path, data=form).status_code == 403
    assert scene.client.heartbeat(scene.trainer.id).command == "continue"


def test_readers_see_no_buttons_and_are_refused(http: TestClient, scene: Scene, database: Database, time: Any) -> None:
    with database.write() as session:
        secret = tokens.create(session, "reader", "read", Cause("test", "", time.now))
    http.cookies.set(COOKIE, secret)
    page = http.get("/workers").text
    assert "trainer-1" in page
    assert "Quarantine" not in page
    path, form = f"/workers/{scene.trainer.id}/command", {"command": "stop", "reason": "because"}
    assert http.post(path, data=form, headers=FROM_PAGE).status_code == 403


def test_conflicting_worker_change_shows_the_current_state(http: TestClient, scene: Scene) -> None:
    form = {"reason": "a false alarm"}
    answer = http.post(f"/workers/{scene.trainer.id}/reinstate", data=form, headers=FROM_PAGE | {"HX-Request": "true"})
    assert answer.status_code == 409
    assert "it is not quarantined" in answer.text


def test_only_workers_of_a_kind_are_shown(http: TestClient, scene: Scene) -> None:
    page = http.get("/workers?kind=trainer").text
    assert "trainer-1" in page
    assert "evaluator-1" not in page


def test_suspicious_worker_is_shown_with_evidence(http: TestClient, scene: Scene) -> None:
    for step in (1, 2):
        scene.publish(step)
    for fair in (scene.worker("evaluator-2", "evaluator"), scene.worker("evaluator-3", "evaluator")):
        scores = cycle((0.0, 1.0, 1.0, 0.0))
        leases = scene.rating_leases(400, worker=fair)
        scene.report(*(result(lease, score=next(scores)) for lease in leases), worker=fair)
    scene.report(*(result(lease, score=1.0) for lease in scene.rating_leases(400)), worker=scene.evaluator)
    page = http.get("/workers").text
    assert "suspect" in page
    assert "<strong>score</strong> in rating matches of rps" in page
    assert page.index("evaluator-1") < page.index("trainer-1")


def test_open_pages_share_a_look_at_the_last_matches(
    http: TestClient, scene: Scene, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    monkeypatch.setattr(review, "_checks", lambda *_: looks.append(1) or ())
    scene.publish(1)

    def played() -> int:
        scene.report(*(result(lease) for lease in scene.opponent_leases(2)))
        looks.clear()
        for _ in range(3):
            assert http.get("/workers/now").status_code == 200
        return len(looks)

    assert played() == 1
    assert played() == 0, "a moment ago"
    time.advance(15)
    assert played() == 1
    scene.client.close_period()
    assert played() == 1, "ratings have changed"
