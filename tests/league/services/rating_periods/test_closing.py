"""When rating periods close, who closes them, and that every match is taken into one."""

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_history import recomputed
from league_scene import ON_SQLITE, Scene, result
from sqlalchemy import select
from sqlalchemy.orm import Session

from league import wire
from league.background.rating_periods import RatingPeriodTask
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Match
from league.services.audit import log as audit_log
from league.services.audit.log import Cause
from league.services.matches import log as match_log
from league.services.population import cache as population_cache
from league.services.rating_periods import closing as rating_periods_closing
from league.settings import Settings

Configure = Callable[..., Settings]


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
    assert (
        rating_periods_closing.close_if_due(database, settings, scene.environment, time.now + timedelta(days=1)) is None
    )
    scene.train(2)
    assert (
        rating_periods_closing.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=59))
        is None
    )
    period = rating_periods_closing.close_if_due(
        database, settings, scene.environment, time.now + timedelta(seconds=60)
    )
    assert period is not None
    assert (period.matches, period.reason.startswith("closed: the oldest result")) == (2, True)
    assert (
        rating_periods_closing.close_if_due(database, settings, scene.environment, time.now + timedelta(days=1)) is None
    )


def test_a_period_closes_by_itself_after_enough_games_per_player(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    settings = configure(period_games=15)
    scene.train(14)
    assert rating_periods_closing.close_if_due(database, settings, scene.environment, time.now) is None
    scene.train(1)
    period = rating_periods_closing.close_if_due(database, settings, scene.environment, time.now)
    assert period is not None
    assert (period.matches, period.reason) == (15, "closed: game threshold reached by 2 players (15 matches)")
    time.advance(settings.period_spacing_s)
    enough_for_everybody = math.ceil(15 * len(scene.client.players(scene.environment).items) / 2)
    scene.train(enough_for_everybody + 3)
    assert (
        rating_periods_closing.due(database, settings, scene.environment, time.now)
        == f"closed: game threshold ({enough_for_everybody} matches) reached"
    )


def test_periods_that_fill_at_once_are_spaced_out(
    scene: Scene, database: Database, configure: Configure, time: Any
) -> None:
    settings = configure(period_games=1, period_spacing_s=10)
    scene.train(1)
    assert rating_periods_closing.close_if_due(database, settings, scene.environment, time.now) is not None
    scene.train(1)
    assert (
        rating_periods_closing.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=9))
        is None
    )
    assert (
        rating_periods_closing.close_if_due(database, settings, scene.environment, time.now + timedelta(seconds=10))
        is not None
    )


def now() -> datetime:
    return datetime.now(UTC)


def test_the_aggregator_closes_due_periods_until_it_is_stopped(
    scene: Scene, database: Database, configure: Configure
) -> None:
    aggregator = RatingPeriodTask(database, configure(aggregation_interval_s=0.01, period_games=1), now)
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
    aggregator = RatingPeriodTask(nowhere, configure(aggregation_interval_s=0.01), now)
    aggregator.start()

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.threadName == RatingPeriodTask.name]

    waited = threading.Event()
    while len(told()) < 2:
        waited.wait(0.01)
    aggregator.stop()
    nowhere.close()
    assert "closing rating periods failed; retrying in 0.01 s" in told()


def give_own_trainers(*scenes: Scene) -> None:
    for each in scenes:
        each.trainer = each.worker(f"trainer-{each.environment}", "trainer")


def test_failing_period_of_one_environment_does_not_delay_others(
    scene: Scene,
    database: Database,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    others = [Scene(scene.client, name, f"{name}-1") for name in ("aardvark", "zebra")]
    give_own_trainers(scene, *others)
    close, tried, seconds = rating_periods_closing.close_if_due, list[str](), [0.0]

    def close_unless_ill(database: Database, settings: Settings, environment: str, *rest: Any) -> Any:
        tried.append(environment)
        if environment == scene.environment and seconds[0] < 100.0:
            raise ValueError("its log\ncannot be read")
        return close(database, settings, environment, *rest)

    monkeypatch.setattr(rating_periods_closing, "close_if_due", close_unless_ill)
    settings = configure(aggregation_interval_s=2.0, period_games=1, period_spacing_s=0.0)
    aggregator = RatingPeriodTask(database, settings, now, lambda: seconds[0])
    for look in range(5):
        for each in (scene, *others):
            each.train(20)
        aggregator.run_once()
        seconds[0] += 2.0
        for each in others:
            assert scene.client.player(each.learner.player_id).games == 20 * (look + 1)
    assert tried.count(scene.environment) == 3, "after 0, 2 and 6 s: the pause doubles"
    lines = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in lines] == [
        f"closing the rating period of rps failed (ValueError: its log); retrying in {pause} s" for pause in (2, 4, 8)
    ]
    assert not any(record.exc_info for record in lines), "a line each, no traceback"
    seconds[0] = 100.0
    aggregator.run_once()
    assert scene.client.player(scene.learner.player_id).games == 100


def test_an_environment_that_ends_the_process_each_time_is_the_last_to_be_looked_at(
    scene: Scene, database: Database, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next process closes all others before it comes to that one."""
    other = Scene(scene.client, "zebra", "zebra-1")
    give_own_trainers(scene, other)
    settings, close = (
        configure(period_games=1, period_spacing_s=0.0, aggregation_term_s=0.01),
        rating_periods_closing.close_if_due,
    )

    def close_or_die(database: Database, settings: Settings, environment: str, *rest: Any) -> Any:
        if environment == scene.environment:
            raise SystemExit("killed")
        return close(database, settings, environment, *rest)

    monkeypatch.setattr(rating_periods_closing, "close_if_due", close_or_die)
    other.client.close_period("zebra")
    for life in range(3):
        for each in (scene, other):
            each.train(20)
        with pytest.raises(SystemExit):
            RatingPeriodTask(database, settings, lambda: now() + timedelta(seconds=len(scene.environment))).run_once()
        assert scene.client.player(other.learner.player_id).games == 20 * (life + 1)


def test_an_aggregator_that_fails_leaves_the_work_to_another(
    scene: Scene, database: Database, configure: Configure, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = configure(aggregation_interval_s=0.01, period_games=1, aggregation_term_s=3600.0)
    close = rating_periods_closing.close_if_due
    tried: list[str] = []

    def close_unless_ill(*arguments: Any) -> Any:
        tried.append(threading.current_thread().name)
        if tried[-1] == "ill":
            raise OSError("disk full")
        return close(*arguments)

    monkeypatch.setattr(rating_periods_closing, "close_if_due", close_unless_ill)
    scene.train(5)
    ill, sound = (RatingPeriodTask(database, settings, now) for _ in range(2))
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
    aggregators = [RatingPeriodTask(own, settings, now) for own in databases]
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
    draft = rating_periods_closing._prepare

    def overtaken(*arguments: Any) -> Any:
        outcome = draft(*arguments)
        monkeypatch.setattr(rating_periods_closing, "_prepare", draft)
        scene.client.close_period()
        return outcome

    monkeypatch.setattr(rating_periods_closing, "_prepare", overtaken)
    assert rating_periods_closing.close_if_due(database, configure(period_games=1), scene.environment, time.now) is None
    assert [period.matches for period in scene.client.periods().items] == [20]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have something done just before, or just after, the next closing finds how far the log goes."""

    def arrange(*, before: Callable[[], Any] | None = None, after: Callable[[], Any] | None = None) -> None:
        watermark = rating_periods_closing._watermark

        def disturbed(*arguments: Any) -> int:
            monkeypatch.setattr(rating_periods_closing, "_watermark", watermark)
            if before is not None:
                before()
            found = watermark(*arguments)
            if after is not None:
                after()
            return found

        monkeypatch.setattr(rating_periods_closing, "_watermark", disturbed)

    return arrange


def test_automatic_closing_skips_a_period_that_was_closed_manually(
    scene: Scene, database: Database, configure: Configure, time: Any, meanwhile: Callable[..., None]
) -> None:
    settings, later = configure(period_age_s=60), time.now + timedelta(seconds=60)
    scene.train(3)
    assert rating_periods_closing.due(database, settings, scene.environment, later) is not None
    for moment in ("before", "after"):
        scene.train(3)
        meanwhile(**{moment: scene.client.close_period})
        assert rating_periods_closing.close_if_due(database, settings, scene.environment, later) is None
    assert [period.matches for period in scene.client.periods().items] == [3, 6]


def test_results_that_a_period_cannot_include_do_not_make_it_due(
    scene: Scene, database: Database, configure: Configure, time: Any, meanwhile: Callable[..., None]
) -> None:
    settings = configure(period_games=15)
    scene.train(14)
    meanwhile(after=lambda: scene.train(1))
    assert rating_periods_closing.close_if_due(database, settings, scene.environment, time.now) is None
    period = rating_periods_closing.close_if_due(database, settings, scene.environment, time.now)
    assert period is not None
    assert period.matches == 15


@pytest.mark.parametrize("promoted_meanwhile", [False, True])
def test_promotion_rules_see_the_ratings_after_the_period(
    scene: Scene, database: Database, configure: Configure, time: Any, monkeypatch: pytest.MonkeyPatch,
    promoted_meanwhile: bool,
) -> None:  # fmt: skip
    """Ratings of the period that is being written, standings as they are at that moment."""
    scene.train(20)
    draft, write, seen = rating_periods_closing._prepare, rating_periods_closing.promotion_rules.apply, []

    def overtaken(*arguments: Any) -> Any:
        outcome = draft(*arguments)
        if promoted_meanwhile:
            snapshot = scene.publish(step=1)
            scene.client.promote(snapshot.id, "by hand")
        return outcome

    def compared(session: Session, settings: Settings, everybody: population_cache.Population, now: datetime) -> None:
        present = population_cache.load(session, everybody.environment)
        for one in (everybody, present):
            ratings = one.ratings
            seen.append((one.members, one.games.tolist(), *(column.tolist() for column in astuple(ratings))))
        write(session, settings, everybody, now)

    monkeypatch.setattr(rating_periods_closing, "_prepare", overtaken)
    monkeypatch.setattr(rating_periods_closing.promotion_rules, "apply", compared)
    assert (
        rating_periods_closing.close_if_due(database, configure(period_games=1), scene.environment, time.now)
        is not None
    )
    given, present = seen
    assert given == present
    assert any(member.standing == "commander" for member in given[0]) == promoted_meanwhile


def test_period_is_recomputed_if_trust_changed_during_closing(
    scene: Scene, database: Database, configure: Configure, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What concerns no player in particular, such as a worker whose results do not count, may change any rating."""
    scene.train(20)
    draft, drafts = rating_periods_closing._prepare, []

    def disturbed(*arguments: Any) -> Any:
        drafts.append(draft(*arguments))
        if len(drafts) == 1:
            with database.write() as session:
                audit_log.record(session, "something", Cause("me", "", time.now))
        return drafts[-1]

    monkeypatch.setattr(rating_periods_closing, "_prepare", disturbed)
    closed = rating_periods_closing.close(database, configure(), scene.environment, Cause("me", "", time.now))
    assert len(drafts) == 2
    assert closed.matches == 20


@ON_SQLITE
def test_an_empty_period_is_closed_by_hand_only(scene: Scene, time: Any) -> None:
    scene.publish(1)
    period = scene.client.close_period(scene.environment, "just so")
    assert (period.matches, period.players, period.number, period.reason) == (0, 0, 1, "just so")
    assert period.closed_at == time.now
    assert scene.client.periods(scene.environment).items == [period]


def test_the_log_is_read_in_the_order_it_was_written(scene: Scene, database: Database) -> None:
    scene.train(3)
    with database.read() as session:
        games = match_log.read(session, scene.environment, 0, None)
        rows = session.execute(select(Match.home_id, Match.score).order_by(Match.id)).all()
        assert match_log.end(session, scene.environment) == session.scalar(select(Match.id).order_by(Match.id.desc()))
    assert games.home.tolist() == [row[0] for row in rows]
    assert games.score.tolist() == [row[1] for row in rows]
    assert games.training.all()
