"""Payoff: the heat map's cells, circles that are named, weights beside ratings, and the same as tables."""

from collections.abc import Sequence

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene, result

from league import wire
from league.db.engine import Database
from league.services.leaderboard import payoff_matrix
from league.services.leaderboard.payoff_matrix import PayoffFilter, PayoffMatrix
from league.services.population.cache import PopulationCache
from league.settings import Settings


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def trio(scene: Scene) -> Sequence[wire.Player]:
    """Three snapshots each of whom beats the next, in 16 matches of each two at least, rated."""
    players = [scene.publish(step) for step in (1, 2, 3)]
    ids = [player.id for player in players]
    beats = set(zip(ids, [*ids[1:], ids[0]], strict=True))
    reported = dict.fromkeys(beats, 0)
    while min(reported.values()) < 16:
        finished = []
        for lease in scene.rating_leases(120):
            home, away = lease.home.player_id, lease.away.player_id
            score = 1.0 if (home, away) in beats else 0.0 if (away, home) in beats else 0.5
            finished.append(result(lease, score=score))
            for pair in ((home, away), (away, home)):
                if pair in reported:
                    reported[pair] += 1
        scene.report(*finished, worker=scene.evaluator)
    scene.client.close_period()
    return players


def drawn(database: Database, most: int = 50) -> PayoffMatrix:
    with database.read() as session:
        wanted = PayoffFilter(most)
        return payoff_matrix.get_payoff_matrix(session, Settings(), PopulationCache(), "rps", wanted)


def test_a_circle_is_found_and_its_players_are_marked(trio: Sequence[wire.Player], database: Database) -> None:
    found = drawn(database)
    (cycle,) = found.cycles
    ids = [found.players[place].id for place in cycle.players]
    assert (cycle.tangled, found.triples) == (3, 1)
    assert {(one, other) for one, other in zip(ids, [*ids[1:], ids[0]], strict=True)} == {
        (trio[0].id, trio[1].id),
        (trio[1].id, trio[2].id),
        (trio[2].id, trio[0].id),
    }
    assert {each.id for each in found.players if each.tangled} == {player.id for player in trio}
    assert found.cyclic > 0.3


def test_nash_weights_are_an_unbeaten_mixture(trio: Sequence[wire.Player], database: Database) -> None:
    found = drawn(database)
    weights = [each.weight or 0.0 for each in found.players]
    assert sum(weights) == pytest.approx(1.0)
    worst = min(sum(w * rate for w, rate in zip(weights, 1.0 - column, strict=True)) for column in found.win_rate)
    assert worst > 0.5 - 1e-6


def test_the_map_is_ordered_by_the_cautious_rating_and_cut(trio: Sequence[wire.Player], database: Database) -> None:
    found = drawn(database)
    cautious = [each.rating - 2 * each.deviation for each in found.players]
    assert cautious == sorted(cautious, reverse=True)
    assert found.total == len(found.players)
    few = drawn(database, most=2)
    assert [each.id for each in few.players] == [each.id for each in found.players[:2]]
    assert few.total == found.total


def test_learners_may_be_left_out(trio: Sequence[wire.Player], http: TestClient, scene: Scene) -> None:
    own = f'data-id="{scene.learner.player_id}"'
    assert own in http.get("/payoff").text
    page = http.get("/payoff?who=frozen&most=20").text
    assert own not in page
    assert "/payoff/cells?most=20&amp;who=frozen" in page


def test_cells_are_those_of_the_matrix_above_its_diagonal(
    trio: Sequence[wire.Player], http: TestClient, database: Database
) -> None:
    cells, found = http.get("/payoff/cells?most=20").json(), drawn(database)
    size = len(found.players)
    pairs = [(row, column) for row in range(size) for column in range(row + 1, size)]
    assert cells["matches"] == [found.matches[pair] for pair in pairs]
    assert cells["win_rate"] == [round(1000 * found.win_rate[pair]) for pair in pairs]
    met = [pair for pair in pairs if found.matches[pair]]
    assert 0 < len(met) < len(pairs)
    assert cells["low"] == [round(1000 * found.low[pair]) for pair in met]
    assert cells["high"] == [round(1000 * found.high[pair]) for pair in met]


def test_payoff_page_shows_cycles_without_inactive_players(
    trio: Sequence[wire.Player], http: TestClient, scene: Scene
) -> None:
    page = http.get("/payoff").text
    assert "⟳ cycle" in page
    assert "3 players are in this group" in page
    assert f'data-id="{trio[0].id}"' in page
    scene.client.quarantine(trio[0].id)
    page = http.get("/payoff").text
    assert f'data-id="{trio[0].id}"' not in page
    assert "No significant cycle among these players" in page


def test_a_row_is_a_table_with_links_to_the_pairs(trio: Sequence[wire.Player], http: TestClient) -> None:
    row = http.get(f"/payoff/against?player={trio[0].id}").text
    assert f"/players/{trio[0].id}/against/{trio[1].id}" in row
    assert "predicted" in row  # nobody has played the learner
    assert http.get("/payoff/against?player=999").status_code == 404


def test_payoff_page_has_an_empty_state(http: TestClient, scene: Scene) -> None:
    page = http.get("/payoff").text
    assert "league close-period" in page
    assert "<canvas" not in page


def test_another_size_is_refused(http: TestClient, scene: Scene) -> None:
    assert http.get("/payoff?most=7").status_code == 422
