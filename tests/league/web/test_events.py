"""Events: the audit log on a page, filtered, with older lines and with those that come."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league.web import events


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def players(scene: Scene) -> list[int]:
    """Three snapshots that were promoted, of which the first was retired."""
    ids = [scene.publish(step).id for step in (1, 2, 3)]
    for each in ids:
        scene.client.promote(each, f"promoted {each}")
    scene.client.retire(ids[0], "<superseded> & gone")
    return ids


def lines(page: str) -> list[int]:
    return [int(each) for each in re.findall(r'<tr data-id="(\d+)"', page)]


def told(page: str) -> list[str]:
    """What lines say after their time, as text."""
    rows = re.findall(r"<tr data-id.*?</time></td>(.*?)</tr>", page, re.DOTALL)
    return [" ".join(re.sub("<[^>]+>", " ", row).split()) for row in rows]


def test_empty_event_page_explains_its_purpose(http: TestClient, scene: Scene) -> None:
    assert "No events fit these filters" in http.get("/events").text


def test_events_are_listed_newest_first_with_details(http: TestClient, players: list[int]) -> None:
    page = http.get("/events").text
    assert lines(page) == sorted(lines(page), reverse=True)
    assert len(lines(page)) == 4
    assert "&lt;superseded&gt; &amp; gone" in page
    assert "from <span>commander</span>" in page
    assert f'href="/players/{players[0]}"' in page


def test_players_that_details_are_about_are_named(http: TestClient, scene: Scene, players: list[int]) -> None:
    scene.client.set_champion(players[1], "the first", expected=None)
    scene.client.set_champion(players[2], "better", expected=players[1])
    names = {each: scene.client.player(each).call_sign for each in players}
    (line, *_) = told(http.get("/events?kind=champion").text)
    assert line == f"champion {names[players[2]]} by open better from {names[players[1]]}"
    assert f'from <span><a href="/players/{players[1]}">' in http.get("/events?kind=champion").text
    scene.client.retire(players[2], "done")
    (line, *_) = told(http.get("/events?kind=champion").text)
    assert line == f"champion {names[players[2]]} by open retire: done from {names[players[2]]} to none"
    story = http.get(f"/players/{players[2]}").text
    assert story.index("no longer champion") < story.index("<strong>champion</strong>")


def test_lines_are_chosen_by_kind_actor_and_player(http: TestClient, players: list[int]) -> None:
    assert len(lines(http.get("/events?kind=retire").text)) == 1
    assert len(lines(http.get(f"/events?player={players[0]}").text)) == 2
    assert len(lines(http.get("/events?actor=open&kind=").text)) == 4
    assert lines(http.get("/events?actor=nobody").text) == []


def test_closed_periods_come_when_they_are_asked_for(http: TestClient, scene: Scene, players: list[int]) -> None:
    scene.client.close_period()
    assert len(lines(http.get("/events").text)) == 4
    assert len(lines(http.get("/events?periods=on").text)) == 5
    assert len(lines(http.get("/events?kind=period").text)) == 1


def test_lines_of_the_whole_league_are_there_and_those_of_other_environments_are_not(
    http: TestClient, scene: Scene, players: list[int], time: Any
) -> None:
    other = Scene(scene.client, "recall", "recall-1")
    other.client.promote(other.publish(1).id)
    scene.client.quarantine_worker(other.trainer.id, time.now, "broken build")
    page = http.get("/events?environment=recall").text
    assert len(lines(page)) == 2
    assert "broken build" in page


def test_older_lines_follow_by_cursor(http: TestClient, players: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    everything = lines(http.get("/events").text)
    monkeypatch.setattr(events, "PAGE", 2)
    page = http.get("/events?actor=open").text
    (address,) = re.findall(r'hx-get="([^"]*older[^"]*)"', page)
    rest = http.get(address.replace("&amp;", "&")).text
    assert "actor=open" in address
    assert lines(page) + lines(rest) == everything
    assert "older" not in rest


def test_open_event_page_receives_new_events(http: TestClient, scene: Scene, players: list[int]) -> None:
    last = lines(http.get("/events").text)[0]
    assert lines(http.get(f"/events/newer?after={last}").text) == []
    scene.client.retire(players[1], "superseded")
    assert len(lines(http.get(f"/events/newer?after={last}").text)) == 1
    assert lines(http.get(f"/events/newer?after={last}&kind=promote").text) == []


def test_truncated_event_update_is_marked(
    http: TestClient, players: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PAGE", 3)
    page = http.get("/events").text
    assert 'data-most="3"' in page
    assert lines(http.get("/events/newer?after=0").text) == lines(page)
