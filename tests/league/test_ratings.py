"""From matches to ratings: periods, standings, curves, payoffs, rebuild."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene, result
from sqlalchemy import select, update

from arena.glicko2 import Kind, Ratings, Results, rate_period
from league import wire
from league.aggregator import Aggregator
from league.client import LeagueClient
from league.config import Settings
from league.db.engine import Database
from league.db.models import Match, Payoff, Rating
from league.errors import InvalidRequestError, UnknownEnvironmentError, UnknownPeriodError, UnknownPlayerError
from league.services import events, match_log, periods
from league.services.rebuild import rebuild

Configure = Callable[..., Settings]


def ratings(scene: Scene) -> dict[int, tuple[float, float, float, int]]:
    return {
        player.id: (player.rating, player.deviation, player.volatility, player.games)
        for player in scene.client.players(scene.environment).items
    }


def test_training_matches_rate_only_the_learner(scene: Scene) -> None:
    scene.publish(1)
    before = ratings(scene)
    scene.train(12)
    period = scene.client.close_period()
    after = ratings(scene)
    own = scene.learner.player_id
    assert period.matches == 12
    assert after[own][0] > before[own][0]
    assert after[own][1] < before[own][1]
    assert after[own][3] == 12
    assert {player: rating for player, rating in after.items() if player != own} == {
        player: rating for player, rating in before.items() if player != own
    }


def test_rating_matches_rate_frozen_players_and_never_the_anchor(scene: Scene) -> None:
    snapshot, baseline = scene.publish(1), scene.baseline()
    before = ratings(scene)
    scene.evaluate(10, winner=snapshot.id)
    scene.client.close_period()
    after = ratings(scene)
    assert after[snapshot.id][0] > before[snapshot.id][0]
    assert after[baseline.id][:3] == before[baseline.id][:3]
    assert after[baseline.id][3] == after[snapshot.id][3] == 10
    assert after[scene.learner.player_id] == before[scene.learner.player_id]


def test_a_period_is_one_glicko_2_period_over_its_matches(scene: Scene, configure: Configure) -> None:
    """The stored rating is the arithmetic's own, bit for bit."""
    baseline = scene.baseline()
    scores = [1.0, 0.0, 0.5, 1.0, 1.0]
    for score in scores:
        scene.train(1, learner_score=score)
    scene.client.close_period()
    settings = configure()
    expected = rate_period(
        Ratings(
            rating=np.array([1500.0, baseline.rating]),
            deviation=np.array([350.0, baseline.deviation]),
            volatility=np.array([0.06, 0.06]),
        ),
        Results(home=np.zeros(5, int), away=np.ones(5, int), score=np.array(scores), games=np.ones(5, int)),
        tau=settings.tau,
        kinds=[Kind.LEARNER, Kind.OBSERVED],
        deviation_floor=30.0,
        deviation_cap=350.0,
        volatility_cap=0.1,
    )
    learner = scene.client.player(scene.learner.player_id)
    assert (learner.rating, learner.deviation, learner.volatility) == (
        expected.rating[0],
        expected.deviation[0],
        expected.volatility[0],
    )


def test_self_play_enters_the_log_and_rates_nobody(scene: Scene) -> None:
    before = ratings(scene)
    lease = next(lease for lease in scene.lease(count=20) if lease.branch == "self-play")
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert scene.client.close_period().matches == 1
    assert ratings(scene) == before


def test_an_idle_learner_grows_less_certain_and_a_frozen_player_does_not(scene: Scene) -> None:
    snapshot = scene.publish(1)
    scene.train(20)
    scene.evaluate(10, winner=snapshot.id)
    scene.client.close_period()
    before = ratings(scene)
    scene.client.close_period()
    after = ratings(scene)
    own = scene.learner.player_id
    assert after[own][1] > before[own][1]
    assert after[snapshot.id] == before[snapshot.id]


def test_a_snapshot_starts_with_its_learner_s_rating_and_a_wider_deviation(scene: Scene) -> None:
    for _ in range(6):
        scene.train(40, learner_score=0.5)
        scene.client.close_period()
    learner = scene.client.player(scene.learner.player_id)
    assert learner.deviation < 80
    snapshot = scene.publish(1)
    assert (snapshot.rating, snapshot.deviation, snapshot.games) == (learner.rating, 80.0, 0)
    assert not snapshot.provisional
    assert snapshot.conservative == snapshot.rating - 160


def test_standings_as_of_a_past_period_are_those_of_then(scene: Scene, time: Any) -> None:
    first = scene.publish(1)
    tables = []
    for winner in (first.id, scene.baseline().id, first.id):
        scene.evaluate(6, winner=winner)
        time.advance(60)
        period = scene.client.close_period()
        tables.append((period.id, scene.client.standings(scene.environment).items))
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
def test_an_environment_that_nobody_plays_is_refused_naming_the_known_ones(scene: Scene) -> None:
    for call in (scene.client.standings, scene.client.payoff, scene.client.periods):
        with pytest.raises(UnknownEnvironmentError, match=r"nobody-plays-this: the league plays rps"):
            call("nobody-plays-this")


def test_standings_rank_by_conservative_rating_and_page_through(scene: Scene) -> None:
    players = [scene.publish(step) for step in range(4)]
    scene.evaluate(24, winner=players[2].id)
    scene.client.close_period()
    table = scene.client.standings(scene.environment).items
    assert [item.rank for item in table] == [1, 2, 3, 4, 5, 6]
    assert [item.conservative for item in table] == sorted((item.conservative for item in table), reverse=True)
    winner = next(item for item in table if item.id == players[2].id)
    assert winner.win_rate == 1.0
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


def test_a_payoff_of_some_players_says_how_many_there_are(scene: Scene) -> None:
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


def test_rebuild_gives_the_same_ratings_bit_for_bit(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time)
    before = ratings(scene)
    (told,) = rebuild(database, time.now)
    assert (told.environment, told.periods, told.differing) == (scene.environment, 6, 0)
    assert told.ratings > 10
    assert ratings(scene) == before


def test_rebuild_mends_ratings_and_payoffs_that_somebody_changed(scene: Scene, database: Database, time: Any) -> None:
    play_periods(scene, time)
    before = ratings(scene), scene.client.payoff(scene.environment)
    with database.write() as session:
        session.execute(update(Rating).values(rating=Rating.rating + 1e-9))
        session.execute(update(Payoff).values(points=0.0))
    assert ratings(scene) != before[0]
    (seen,) = recomputed(database)
    assert ratings(scene) != before[0]
    (told,) = rebuild(database, time.now, scene.environment)
    assert seen == told
    assert told.differing > told.ratings
    assert (ratings(scene), scene.client.payoff(scene.environment)) == before
    assert recomputed(database)[0].differing == 0


def test_two_servers_closing_at_once_take_each_match_into_one_period(serve: Callable[..., TestClient]) -> None:
    servers = [serve(automatic_promotion=False) for _ in range(2)]
    scene = Scene(LeagueClient(http=servers[0]))
    scene.train(40)
    with ThreadPoolExecutor(8) as pool:
        closed = list(pool.map(lambda place: LeagueClient(http=servers[place % 2]).close_period(), range(8)))
    assert sorted(period.number for period in closed) == list(range(1, 9))
    assert sum(period.matches for period in closed) == 40
    assert scene.client.player(scene.learner.player_id).games == 40


def test_results_that_come_in_while_periods_close_are_all_rated_once(
    serve: Callable[..., TestClient], database: Database
) -> None:
    servers = [serve() for _ in range(2)]
    scene = Scene(LeagueClient(http=servers[0]))
    leases = scene.opponent_leases(8, budget=25)
    finished = threading.Event()

    def play(place: int) -> None:
        client = LeagueClient(http=servers[place % 2])
        for sequence in range(25):
            client.report(wire.ResultBatch(worker_id=scene.trainer.id, results=[result(leases[place], sequence)]))

    def close() -> int:
        rated = 0
        while not finished.is_set():
            rated += LeagueClient(http=servers[1]).close_period().matches
        return rated + scene.client.close_period().matches

    with ThreadPoolExecutor(9) as pool:
        closing = pool.submit(close)
        list(pool.map(play, range(8)))
        finished.set()
        assert closing.result() == 200
    assert scene.client.player(scene.learner.player_id).games == 200
    assert recomputed(database)[0].differing == 0


def test_a_period_closes_by_itself_when_old_enough_and_only_with_results(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    settings = configure(period_age_s=60, period_games=1000)
    assert periods.close_if_due(database, settings, scene.environment, time.now + timedelta(days=1)) is None
    scene.train(2)
    assert periods.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=59)) is None
    period = periods.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=60))
    assert period is not None
    assert (period.matches, period.reason.split(":")[0]) == (2, "age")
    assert periods.close_if_due(database, settings, scene.environment, time.now + timedelta(days=1)) is None


def test_a_period_closes_by_itself_after_enough_games_per_player(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    settings = configure(period_games=15)
    scene.train(14)
    assert periods.close_if_due(database, settings, scene.environment, time.now) is None
    scene.train(1)
    period = periods.close_if_due(database, settings, scene.environment, time.now)
    assert period is not None
    assert (period.matches, period.reason) == (15, "games: 15 matches of 2 players")


def test_periods_that_fill_at_once_are_spaced_out(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    settings = configure(period_games=1, period_spacing_s=10)
    scene.train(1)
    assert periods.close_if_due(database, settings, scene.environment, time.now) is not None
    scene.train(1)
    assert periods.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=9)) is None
    assert periods.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=10)) is not None


def now() -> datetime:
    return datetime.now(UTC)


def test_the_aggregator_closes_due_periods_until_it_is_stopped(
    scene: Scene, database: Database, configure: Configure
) -> None:
    aggregator = Aggregator(database, configure(aggregation_interval_s=0.01, period_games=1), now)
    aggregator.start()
    scene.train(5)
    waited = threading.Event()
    while not scene.client.periods(scene.environment).items:
        waited.wait(0.01)
    aggregator.stop()
    assert sum(period.matches for period in scene.client.periods().items) <= 5
    scene.train(5)
    assert scene.client.player(scene.learner.player_id).games <= 5


def test_the_aggregator_survives_a_failure(
    scene: Scene, database: Database, configure: Configure, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = Database(str(database.url.set(database=f"{database.url.database}-gone")))
    aggregator = Aggregator(nowhere, configure(aggregation_interval_s=0.01), now)
    aggregator.start()
    waited = threading.Event()
    while len(caplog.records) < 2:
        waited.wait(0.01)
    aggregator.stop()
    nowhere.close()
    told = [record.getMessage() for record in caplog.records if record.name == "league.duty"]
    assert set(told) == {"closing rating periods failed; trying again in 0.01 s"}


def test_an_aggregator_that_fails_leaves_the_work_to_another(
    scene: Scene, database: Database, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configure(aggregation_interval_s=0.01, period_games=1, aggregation_term_s=3600.0)
    close = periods.close_if_due
    tried: list[str] = []

    def close_unless_ill(*arguments: Any) -> Any:
        tried.append(threading.current_thread().name)
        if tried[-1] == "ill":
            raise OSError("disk full")
        return close(*arguments)

    monkeypatch.setattr(periods, "close_if_due", close_unless_ill)
    scene.train(5)
    ill, sound = (Aggregator(database, settings, now) for _ in range(2))
    ill._thread.name = "ill"
    waited = threading.Event()
    ill.start()
    while not tried:
        waited.wait(0.01)
    sound.start()
    while not scene.client.periods(scene.environment).items:
        waited.wait(0.01)
    ill.stop()
    sound.stop()
    assert scene.client.player(scene.learner.player_id).games == 5


def test_two_racing_aggregators_rate_every_match_once(
    scene: Scene, database: Database, database_url: str, configure: Configure
) -> None:
    """Both look all the time, on connections of their own, while results come in."""
    settings = configure(aggregation_interval_s=0.001, period_games=1, period_spacing_s=0.0, aggregation_term_s=0.02)
    databases = [Database(database_url) for _ in range(2)]
    aggregators = [Aggregator(own, settings, now) for own in databases]
    for aggregator in aggregators:
        aggregator.start()
    for _ in range(10):
        scene.train(6)
    waited = threading.Event()
    while sum(period.matches for period in scene.client.periods(limit=1000).items) < 60:
        waited.wait(0.01)
    for aggregator, own in zip(aggregators, databases, strict=True):
        aggregator.stop()
        own.close()
    periods_closed = scene.client.periods(limit=1000).items
    assert sum(period.matches for period in periods_closed) == 60
    assert [period.number for period in periods_closed] == list(range(len(periods_closed), 0, -1))
    assert scene.client.player(scene.learner.player_id).games == 60
    assert recomputed(database)[0].differing == 0


def test_a_period_that_another_process_closed_meanwhile_is_not_closed_twice(
    scene: Scene, database: Database, configure: Configure, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.train(20)
    draft = periods._draft

    def overtaken(*arguments: Any) -> Any:
        outcome = draft(*arguments)
        monkeypatch.setattr(periods, "_draft", draft)
        scene.client.close_period()
        return outcome

    monkeypatch.setattr(periods, "_draft", overtaken)
    assert periods.close_if_due(database, configure(period_games=1), scene.environment, time.now) is None
    assert [period.matches for period in scene.client.periods().items] == [20]


def test_a_period_is_computed_anew_where_the_log_s_meaning_changed_meanwhile(
    scene: Scene, database: Database, configure: Configure, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What concerns no player in particular, such as a worker whose results do not count, may change any rating."""
    scene.train(20)
    draft, drafts = periods._draft, []

    def disturbed(*arguments: Any) -> Any:
        drafts.append(draft(*arguments))
        if len(drafts) == 1:
            with database.write() as session:
                about = {"environment": None, "player_id": None, "actor": "me", "reason": "", "details": {}}
                events.record(session, "something", **about, now=time.now)
        return drafts[-1]

    monkeypatch.setattr(periods, "_draft", disturbed)
    closed = periods.close(database, configure(), scene.environment, actor="me", reason="", now=time.now)
    assert len(drafts) == 2
    assert closed.matches == 20


@ON_SQLITE
def test_an_empty_period_is_closed_by_hand_only(scene: Scene, time: Any) -> None:
    scene.publish(1)
    period = scene.client.close_period(scene.environment, "just so")
    assert (period.matches, period.players, period.number, period.reason) == (0, 0, 1, "just so")
    assert period.closed_at == time.now
    assert scene.client.periods(scene.environment).items == [period]


@ON_SQLITE
def test_the_only_environment_needs_no_name_and_several_do(scene: Scene, http: TestClient) -> None:
    assert http.post("/api/v1/rating-periods").json()["environment"] == scene.environment
    assert scene.client.standings() == scene.client.standings(scene.environment)
    assert scene.client.payoff() == scene.client.payoff(scene.environment)
    Scene(scene.client, "recall", "recall-1")
    with pytest.raises(InvalidRequestError, match="recall, rps"):
        scene.client.standings()
    with pytest.raises(InvalidRequestError, match="recall, rps"):
        scene.client.close_period()
    with pytest.raises(UnknownEnvironmentError, match="chess"):
        scene.client.close_period("chess")


@ON_SQLITE
def test_who_and_when_unknown_is_named(scene: Scene) -> None:
    with pytest.raises(UnknownPlayerError, match="999"):
        scene.client.ratings(999)
    with pytest.raises(UnknownPeriodError, match="77"):
        scene.client.standings(scene.environment, as_of=77)
    other = Scene(scene.client, "recall", "recall-1")
    period = other.client.close_period("recall")
    with pytest.raises(InvalidRequestError, match="a period of recall"):
        scene.client.standings(scene.environment, as_of=period.id)


def test_the_log_is_read_in_the_order_it_was_written(scene: Scene, database: Database) -> None:
    scene.train(3)
    with database.read() as session:
        games = match_log.read(session, scene.environment, 0, None)
        rows = session.execute(select(Match.home_id, Match.score).order_by(Match.id)).all()
        assert match_log.end(session, scene.environment) == session.scalar(select(Match.id).order_by(Match.id.desc()))
    assert games.home.tolist() == [row[0] for row in rows]
    assert games.score.tolist() == [row[1] for row in rows]
    assert games.training.all()
