"""Head to head: two players compared by results, predictions, sides and behaviour."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import InvalidRequestError
from league.services.leaderboard import head_to_head
from league.services.population.cache import PopulationCache


def text(page: str) -> str:
    """Return a page without tags."""
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))


@pytest.fixture
def pair(scene: Scene) -> tuple[wire.Player, wire.Player]:
    """Two snapshots, the second of which wins all matches at home and draws all others."""
    one, other = scene.publish(1), scene.publish(2)
    met = 0
    while met < 6:
        finished = []
        for lease in scene.rating_leases(60):
            home, away = lease.home.player_id, lease.away.player_id
            met += {home, away} == {one.id, other.id}
            finished.append(result(lease, score=1.0 if (home, away) == (other.id, one.id) else 0.5))
        scene.report(*finished, worker=scene.evaluator)
    scene.client.close_period()
    return one, other


def test_score_is_that_of_the_payoff_table_split_by_sides(
    league: LeagueClient, database: Database, pair: tuple[wire.Player, wire.Player]
) -> None:
    one, other = (each.id for each in pair)
    with database.read() as session:
        found = head_to_head.compare(session, PopulationCache(), one, other)
        turned = head_to_head.compare(session, PopulationCache(), other, one)
    assert found.score is not None
    assert turned.score is not None
    assert found.score.score == pytest.approx(1.0 - turned.score.score)
    assert found.score.low < found.score.score < found.score.high
    assert found.by_ratings == pytest.approx(1.0 - turned.by_ratings)
    assert found.predicted < 0.5
    home, away = turned.results.on_side(home=True), turned.results.on_side(home=False)
    assert (home and home.score, away and away.score) == (1.0, 0.5)
    wins, draws, losses = found.results.count()
    assert (wins, losses) == (0, turned.results.count()[0])
    assert draws + losses == found.score.matches


def test_matches_of_one_report_are_in_one_interval(database: Database, pair: tuple[wire.Player, wire.Player]) -> None:
    with database.read() as session:
        results = head_to_head.compare(session, PopulationCache(), *(each.id for each in pair)).results
    points = results.over_time()
    assert sum(score.matches for _, score in points) == results.score.size
    assert len({at for at, _ in points}) == len(points)


def test_a_player_against_itself_is_rejected(database: Database, pair: tuple[wire.Player, wire.Player]) -> None:
    with database.read() as session, pytest.raises(InvalidRequestError, match="itself"):
        head_to_head.compare(session, PopulationCache(), pair[0].id, pair[0].id)


def test_page_shows_score_predictions_and_matches(http: Any, pair: tuple[wire.Player, wire.Player]) -> None:
    one, other = (each.id for each in pair)
    page = http.get(f"/players/{one}/against/{other}").text
    for shown in ("main@1 v main@2", "Predicted by ratings", "By the pair model", "main@1 home", "main@1 away", "drew"):
        assert shown in text(page)
    assert f'href="/matches?pair={one}%2C{other}"' in page
    curve = http.get(f"/players/{one}/against/{other}/curve").json()
    assert len(curve["at"]) == len(curve["score"]) >= 1
    assert "No behaviour measured" in http.get(f"/players/{one}/against/{other}/behaviour").text
    for missing in (f"/players/{one}/against/999", f"/players/999/against/{other}"):
        assert http.get(missing).status_code == 404


def test_players_that_have_not_met_are_predicted(http: TestClient, scene: Scene) -> None:
    one, other = scene.publish(1).id, scene.publish(2).id
    page = text(http.get(f"/players/{one}/against/{other}").text)
    assert "no rated match" in page
    assert "50.0 %" in page
    assert "Score over time" not in page


def test_behaviour_of_both_is_compared(http: TestClient, scene: Scene) -> None:
    players = [scene.publish(step) for step in (1, 2)]
    finished = []
    for lease in scene.rating_leases(40):
        sides = [[float(each.player_id == players[0].id)] for each in (lease.home, lease.away)]
        behaviour = wire.Behaviour(measures=["caution"], home=sides[0], away=sides[1])
        finished.append(result(lease, behaviour=behaviour))
    scene.report(*finished, worker=scene.evaluator)
    page = text(http.get(f"/players/{players[0].id}/against/{players[1].id}/behaviour").text)
    assert "caution1 ± 0 0 ± 0" in page
