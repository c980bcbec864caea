"""A new league out of the past of another: what was known when a period had closed, and nothing else."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene, result
from refused import assert_names, refused
from sqlalchemy import select

from league import wire
from league.api.dependencies import clock
from league.app import create_app
from league.cli import main
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Base, Payoff, Rating
from league.services.audit.log import Cause
from league.services.operations import fork as operations_fork
from league.services.operations import integrity
from league.services.operations.fork import League
from league.settings import Settings
from league.storage.local import DirectoryStore


def silent(_what: str, _done: int, _of: int) -> None:
    """Hear of no progress."""


@pytest.fixture
def fork(
    database: Database, twin_database_url: str, tmp_path: Path, time: Any
) -> Iterator[Callable[[int], tuple[Database, DirectoryStore]]]:
    """Fork the test's league at a period into an empty one."""
    twin = Database(twin_database_url)

    def make(period_id: int) -> tuple[Database, DirectoryStore]:
        here = League(database, DirectoryStore(tmp_path / "checkpoints", 2**20))
        there = League(twin, DirectoryStore(tmp_path / "twin-checkpoints", 2**20))
        operations_fork.fork(here, there, period_id, tmp_path, Cause("test", "", time.now), silent)
        return twin, DirectoryStore(tmp_path / "twin-checkpoints", 2**20)

    yield make
    twin.close()


@pytest.fixture
def opened(tmp_path: Path, time: Any) -> Iterator[Callable[[Database], LeagueClient]]:
    """Serve a forked league."""
    clients = []

    def start(database: Database) -> LeagueClient:
        url = database.url.render_as_string(hide_password=False)
        store = tmp_path / "twin-checkpoints"
        settings = Settings.load(home=tmp_path, database_url=url, store_url=str(store), aggregation_interval_s=3600.0)
        app = create_app(settings)
        app.dependency_overrides[clock] = time
        client = TestClient(app, raise_server_exceptions=False)
        client.__enter__()
        clients.append(client)
        return LeagueClient(http=client)

    yield start
    for client in clients:
        client.__exit__(None, None, None)


def ratings(database: Database, up_to: int) -> list[tuple[Any, ...]]:
    with database.read() as session:
        query = select(*Rating.__table__.columns).where(Rating.period_id <= up_to)
        return [tuple(row) for row in session.execute(query.order_by(Rating.player_id, Rating.period_id))]


@pytest.fixture
def unruled(serve: Callable[..., TestClient]) -> Scene:
    """A league in which no rule makes anybody the champion."""
    return Scene(LeagueClient(http=serve(automatic_promotion=False)))


def test_every_rating_of_the_period_is_there_to_the_last_bit_and_the_books_are_right(
    unruled: Scene, time: Any, database: Database, fork: Any
) -> None:
    scene, players = unruled, play_periods(unruled, time)
    scene.client.set_champion(players[0].id, "later", expected=None)
    cut = scene.client.periods().items[2]
    twin, store = fork(cut.id)
    assert ratings(twin, 10**9) == ratings(database, cut.id)
    assert ratings(database, 10**9) != ratings(database, cut.id)
    assert [outcome.differing for outcome in recomputed(twin)] == [0]
    assert integrity.check(twin, store, unpublished_before=datetime.now(UTC) - timedelta(days=1)) == []


def test_curves_of_learners_end_then_and_go_on_from_there(unruled: Scene, time: Any, fork: Any, opened: Any) -> None:
    scene = unruled
    for step in (64, 128):
        tell_progress(scene.client, scene, step)
    play_periods(scene, time)
    cut = scene.client.periods().items[0]
    time.advance(1)
    tell_progress(scene.client, scene, 192)
    client = opened(fork(cut.id)[0])
    assert client.metrics(scene.learner.id).metrics == {"a": [64.0, 128.0]}
    tell_progress(client, scene, 160)
    assert client.metrics(scene.learner.id, after=2).steps == [160]


def tell_progress(client: LeagueClient, scene: Scene, step: int) -> None:
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics={"a": float(step)})
    client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


def test_the_table_is_that_of_then(unruled: Scene, time: Any, fork: Any, opened: Any) -> None:
    scene, players = unruled, play_periods(unruled, time)
    cut = scene.client.periods().items[2]
    time.advance(1)
    scene.client.set_champion(players[0].id, "later", expected=None)
    scene.client.retire(players[1].id, "later")
    later = scene.publish(99)
    then = scene.client.standings(as_of=cut.id).items
    league = opened(fork(cut.id)[0])
    assert league.standings().items == [each.model_copy(update={"rating_misleads": False}) for each in then]
    assert league.periods().items[0].id == cut.id
    assert later.id not in {player.id for player in league.players().items}
    assert league.champions().items == []
    (event,) = league.events(kind="fork").items
    assert event.details["period"] == cut.id


def test_payoffs_are_those_that_were_known_then(scene: Scene, time: Any, database: Database, fork: Any) -> None:
    def records(of: Database) -> list[tuple[Any, ...]]:
        with of.read() as session:
            query = select(*Payoff.__table__.columns).order_by(Payoff.low_id, Payoff.high_id)
            return [tuple(row) for row in session.execute(query)]

    play_periods(scene, time, number=2)
    known = records(database)
    cut = scene.client.periods().items[0]
    time.advance(60)
    scene.train(8)
    time.advance(60)
    scene.client.close_period()
    assert records(database) != known
    twin, _ = fork(cut.id)
    assert records(twin) == known


def test_forked_league_continues(scene: Scene, time: Any, fork: Any, opened: Any) -> None:
    play_periods(scene, time, number=2)
    held = scene.opponent_leases(1, budget=2)[0]
    cut = scene.client.close_period()
    time.advance(1)
    late = scene.publish(50)
    league = opened(fork(cut.id)[0])
    other = Scene(league)
    assert other.learner.id == scene.learner.id
    assert other.publish(51).id == late.id, "ids go on from those of then"
    assert [answer.status for answer in other.report(result(held))] == ["accepted"]
    other.train(3)
    period = league.close_period()
    assert (period.number, period.matches) == (cut.number + 1, 4)


def test_other_games_are_as_of_the_same_moment(league: LeagueClient, time: Any, fork: Any, opened: Any) -> None:
    scenes = [Scene(league, name, f"{name}-1") for name in ("rps", "recall")]
    closed = []
    for round_ in range(2):
        for place, scene in enumerate(scenes):
            scene.publish(round_, content=10 * round_ + place)
            scene.train(3)
            time.advance(60)
            closed.append(league.close_period(scene.environment).id)
            time.advance(1)
    forked = opened(fork(closed[2])[0])
    assert [period.id for period in forked.periods("rps").items] == [closed[2], closed[0]]
    assert [period.id for period in forked.periods("recall").items] == [closed[1]]
    assert len(forked.players("recall", kind="snapshot").items) == 1


def test_fork_keeps_current_quarantines(scene: Scene, time: Any, database: Database, fork: Any) -> None:
    play_periods(scene, time, number=3)
    cut = scene.client.periods().items[1]
    scene.client.quarantine_worker(scene.evaluator.id, time.now - timedelta(days=1), "lies")
    twin, _ = fork(cut.id)
    assert ratings(twin, 10**9) == ratings(database, cut.id)
    assert [outcome.differing for outcome in recomputed(twin)] == [0]


def test_a_gate_that_was_closed_later_is_open_there(scene: Scene, time: Any, fork: Any, opened: Any) -> None:
    first, second = scene.publish(1), scene.publish(2)
    tests = [wire.GateCreate(candidate_id=second.id, champion_id=first.id, elo1=elo1) for elo1 in (20.0, 50.0)]
    early, late = (scene.client.open_gate(test) for test in tests)
    scene.client.cancel_gate(early.id, "early")
    time.advance(1)
    cut = scene.client.close_period()
    time.advance(1)
    scene.client.cancel_gate(late.id, "late")
    league = opened(fork(cut.id)[0])
    assert {gate.id: gate.state for gate in league.gates().items} == {early.id: "cancelled", late.id: "open"}


def test_nothing_is_forked_onto_a_league_or_at_no_period(scene: Scene, time: Any, fork: Any) -> None:
    with refused("unknown-period", 7):
        fork(7)
    scene.train(1)
    cut = scene.client.close_period()
    fork(cut.id)
    with refused("occupied-league"):
        fork(cut.id)


@ON_SQLITE
def test_every_table_has_a_rule(scene: Scene, database: Database) -> None:
    cut = scene.client.close_period()
    with database.read() as session:
        view = operations_fork.view_of(session, operations_fork.fork_point(session, cut.id))
    assert view.tables.keys() == Base.metadata.tables.keys()


@ON_SQLITE
def test_the_command_makes_a_home_folder_that_can_be_served(
    scene: Scene,
    time: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    players = play_periods(scene, time, number=2)
    cut = scene.client.periods().items[0]
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path))
    destination = tmp_path / "new" / "league"
    with pytest.raises(SystemExit) as ended:
        main(["admin", "fork", "--at", str(cut.id), str(destination)])
    told = capsys.readouterr().out
    assert not ended.value.code
    assert f"as of period {cut.id} of rps" in told
    assert f"`league up --home {destination} --learner NAME`" in told
    assert {path.name for path in destination.iterdir()} == {"league.db", "checkpoints"}
    assert any((destination / "checkpoints").rglob(str(players[0].checkpoint)))
    with pytest.raises(SystemExit) as refusal:
        main(["admin", "fork", "--at", str(cut.id), str(destination)])
    assert refusal.value.code == 1
    assert_names(capsys.readouterr().err, destination)


@ON_SQLITE
def test_fork_prints_options_that_override_environment_variables(
    scene: Scene,
    tmp_path: Path,
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cut = scene.client.close_period()
    monkeypatch.setenv("LEAGUE_DATABASE_URL", database_url)
    monkeypatch.setenv("LEAGUE_STORE_URL", (tmp_path / "checkpoints").as_uri())
    destination = tmp_path / "new league"
    destination.mkdir()
    (destination / ".fork.zip").write_bytes(b"of a fork that was killed")
    with pytest.raises(SystemExit):
        main(["admin", "fork", "--at", str(cut.id), str(destination)])
    place = f"--home '{destination}' --learner NAME --database-url 'sqlite:///{destination}/league.db'"
    assert_names(capsys.readouterr().out, f"league up {place}", "LEAGUE_STORE_URL")
    assert {path.name for path in destination.iterdir()} == {"league.db"}


@ON_SQLITE
def test_fork_to_an_existing_file_is_rejected(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = scene.client.close_period()
    monkeypatch.setenv("LEAGUE_HOME", str(tmp_path))
    taken = tmp_path / "taken"
    taken.write_text("a note")
    with pytest.raises(SystemExit) as refusal:
        main(["admin", "fork", "--at", str(cut.id), str(taken)])
    told = capsys.readouterr().err
    assert (refusal.value.code, told.count("\n")) == (2, 1)
    assert f"{taken}; choose another with DESTINATION" in told
    assert taken.read_text() == "a note"
