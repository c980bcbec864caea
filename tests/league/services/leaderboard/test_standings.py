"""Standings, rating curves, payoffs and matches, as they are asked for."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from refused import refused

from arena.ratings.glicko2 import Ratings, expected_score
from league import wire
from league.client import LeagueClient


def against_population(item: wire.StandingsItem, table: list[wire.StandingsItem]) -> float:
    """Return the mean of Glicko-2's expected scores against the other frozen players."""
    players = [item, *(each for each in table if each.kind != "learner" and each.id != item.id)]
    rating, deviation = (np.array([getattr(each, name) for each in players]) for name in ("rating", "deviation"))
    others = np.arange(1, len(players))
    ratings = Ratings(rating, deviation, np.zeros_like(rating))
    return float(expected_score(ratings, np.zeros_like(others), others).mean())


def test_standings_as_of_a_past_period_are_those_of_then(scene: Scene, time: Any) -> None:
    first = scene.publish(1)
    tables = []
    for winner in (first.id, scene.baseline().id, first.id):
        scene.evaluate(6, winner=winner)
        time.advance(60)
        period = scene.client.close_period()
        items = scene.client.standings(scene.environment).items
        tables.append((period.id, [item.model_copy(update={"rating_misleads": None}) for item in items]))
    time.advance(1)
    scene.publish(2)
    for period_id, table in tables:
        assert scene.client.standings(scene.environment, as_of=period_id).items == table
    assert len({item.rating for _, table in tables for item in table if item.id == first.id}) == 3


def test_standings_as_of_a_past_period_show_the_standings_of_then(scene: Scene, time: Any) -> None:
    snapshot = scene.publish(1)
    changes = [scene.client.promote, scene.client.retire, scene.client.reinstate, scene.client.quarantine]
    seen: list[tuple[int, wire.StandingsItem]] = []

    def close() -> None:
        time.advance(60)
        period = scene.client.close_period()
        now = next(item for item in scene.client.standings(scene.environment).items if item.id == snapshot.id)
        seen.append((period.id, now))

    close()
    for change in changes:
        time.advance(60)
        change(snapshot.id, "to see it change")
        close()
    assert [item.standing for _, item in seen] == ["candidate", "commander", "retired", "candidate", "quarantined"]
    for period_id, item in seen:
        then = scene.client.standings(scene.environment, standing=item.standing, as_of=period_id).items
        assert [(row.standing, row.call_sign) for row in then] == [(item.standing, item.call_sign)]
    others = scene.client.standings(scene.environment, as_of=seen[0][0]).items
    assert {row.standing for row in others if row.kind != "snapshot"} == {None}


@ON_SQLITE
def test_standings_of_unknown_environment_list_the_known_ones(scene: Scene) -> None:
    for call in (scene.client.standings, scene.client.payoff, scene.client.periods):
        with refused("unknown-environment", "nobody-plays-this", "rps"):
            call("nobody-plays-this")


def test_standings_rank_by_conservative_rating_and_page_through(scene: Scene) -> None:
    players = [scene.publish(step) for step in range(4)]
    scene.evaluate(24, winner=players[2].id)
    scene.client.close_period()
    table = scene.client.standings(scene.environment).items
    assert [item.rank for item in table] == [1, 2, 3, 4, 5, 6]
    assert [item.conservative for item in table] == sorted((item.conservative for item in table), reverse=True)
    winner = next(item for item in table if item.id == players[2].id)
    assert winner.win_rate == pytest.approx(against_population(winner, table))
    assert next(item for item in table if item.kind == "learner").win_rate is None
    paged: list[wire.StandingsItem] = []
    cursor = None
    while True:
        page = scene.client.standings(scene.environment, limit=4, cursor=cursor)
        paged += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert paged == table
    assert len(scene.client.standings(scene.environment, standing="candidate").items) == 4


def test_win_rate_does_not_depend_on_the_opponents_that_a_player_met(scene: Scene) -> None:
    strong, weak = (scene.publish(step) for step in range(2))
    scene.evaluate(24, winner=strong.id)
    scene.client.close_period()
    table = scene.client.standings(scene.environment).items
    rates = {item.id: item.win_rate for item in table if item.games}
    assert rates == pytest.approx({item.id: against_population(item, table) for item in table if item.games})
    scene.client.retire(weak.id)
    after = scene.client.standings(scene.environment).items
    left = next(item for item in after if item.id == strong.id)
    assert left.win_rate == pytest.approx(against_population(left, [item for item in after if item.id != weak.id]))
    assert left.win_rate != pytest.approx(rates[strong.id])


def test_a_rating_curve_has_a_point_per_period_that_changed_it(scene: Scene, time: Any) -> None:
    snapshot = scene.publish(1)
    for _ in range(3):
        scene.evaluate(4, winner=snapshot.id)
        time.advance(60)
        scene.client.close_period()
    curve = scene.client.ratings(snapshot.id).items
    assert [point.number for point in curve] == [1, 2, 3]
    assert [point.games for point in curve] == [4, 8, 12]
    assert curve[-1].rating == scene.client.player(snapshot.id).rating
    assert curve[1].closed_at - curve[0].closed_at == timedelta(seconds=60)
    first = scene.client.ratings(snapshot.id, limit=2)
    assert scene.client.ratings(snapshot.id, limit=2, cursor=first.next_cursor).items == curve[2:]


def test_truncated_payoff_reports_the_total(scene: Scene) -> None:
    snapshots = [scene.publish(step) for step in range(4)]
    scene.client.retire(snapshots[0].id)
    whole = scene.client.payoff(scene.environment)
    assert whole.total == len(whole.players) == 5
    part = scene.client.payoff(scene.environment, limit=2)
    assert part.total == 5
    assert part.players == whole.players[:2]
    assert [len(row) for row in part.win_rates] == [2, 2]


def test_payoffs_count_both_kinds_of_match_at_once(scene: Scene) -> None:
    snapshot, baseline = scene.publish(1), scene.baseline()
    scene.evaluate(6, winner=snapshot.id)

    def cell() -> tuple[int, int, float]:
        payoff = scene.client.payoff(scene.environment)
        ids = [player.player_id for player in payoff.players]
        row, column = ids.index(snapshot.id), ids.index(baseline.id)
        assert payoff.win_rates[row][column] == pytest.approx(1 - payoff.win_rates[column][row])
        return payoff.counts[row][column], payoff.counts[column][row], payoff.win_rates[row][column]

    unrated = cell()
    assert unrated[:2] == (6, 6)
    assert unrated[2] > 0.5
    scene.client.close_period()
    assert cell()[:2] == (6, 6)
    scene.evaluate(4, winner=snapshot.id)
    assert cell()[0] == 10


def test_a_player_s_matches_are_listed_newest_first_from_both_sides(scene: Scene) -> None:
    scene.train(9)
    period = scene.client.close_period()
    scene.train(3)
    log = scene.client.matches(scene.learner.player_id).items
    assert [match.id for match in log] == sorted((match.id for match in log), reverse=True)
    assert len(log) == 12
    assert {match.home.name for match in log} == {"main", "random"}
    assert [match.period_id for match in log] == [None] * 3 + [period.id] * 9
    page = scene.client.matches(scene.learner.player_id, limit=5)
    assert page.items == log[:5]
    assert scene.client.matches(scene.learner.player_id, limit=5, cursor=page.next_cursor).items == log[5:10]


@ON_SQLITE
def test_the_only_environment_needs_no_name_and_several_do(scene: Scene, http: TestClient) -> None:
    assert http.post("/api/v1/rating-periods").json()["environment"] == scene.environment
    assert scene.client.standings() == scene.client.standings(scene.environment)
    assert scene.client.payoff() == scene.client.payoff(scene.environment)
    Scene(scene.client, "recall", "recall-1")
    with refused("invalid-request", "recall", "rps"):
        scene.client.standings()
    with refused("invalid-request", "recall", "rps"):
        scene.client.close_period()
    with refused("unknown-environment", "chess"):
        scene.client.close_period("chess")


@ON_SQLITE
def test_unknown_player_or_period_is_named(scene: Scene) -> None:
    with refused("unknown-player", 999):
        scene.client.ratings(999)
    with refused("unknown-period", 77):
        scene.client.standings(scene.environment, as_of=77)
    other = Scene(scene.client, "recall", "recall-1")
    period = other.client.close_period("recall")
    with refused("invalid-request", "recall"):
        scene.client.standings(scene.environment, as_of=period.id)


@pytest.mark.parametrize("max_interval", [150.0, 319.0, 320.0])
def test_snapshots_are_provisional_until_the_promotion_rule_accepts_their_interval(
    serve: Callable[..., TestClient], time: Any, max_interval: float
) -> None:
    scene = Scene(LeagueClient(http=serve(snapshot_deviation=80.0, promotion={"max_interval": max_interval})))
    scene.train(300, learner_score=0.5)
    scene.client.close_period()
    snapshot = scene.publish(1)
    assert (snapshot.deviation, snapshot.games) == (80.0, 0)
    time.advance(60)
    period = scene.client.close_period()
    marked = [snapshot.id] if max_interval < 320.0 else []
    for as_of in (None, period.id):
        table = scene.client.standings(scene.environment, as_of=as_of).items
        assert snapshot.id in {item.id for item in table}
        assert [item.id for item in table if item.provisional] == marked
    assert scene.client.player(snapshot.id).provisional == bool(marked)
