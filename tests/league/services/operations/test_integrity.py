"""Every invariant is seen when it is broken, and a league at work breaks none."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from league_scene import Scene, safetensors, sha256
from refused import assert_names
from sqlalchemy import delete, select, text, update

from league.db.engine import Database
from league.db.models import Champion, Lease, Match, Payoff, Period, Player, Rating, Replay, Worker
from league.services.operations.integrity import Violation, check
from league.settings import Settings
from league.storage.factory import open_store

START = datetime(2030, 1, 1, tzinfo=UTC)
_ANOTHER_WORKER = select(Worker.id).where(Worker.id != Match.worker_id).limit(1).scalar_subquery()


@pytest.fixture
def database_url(past_url: str) -> str:
    return past_url


@pytest.fixture
def league_at_work(scene: Scene) -> Scene:
    return scene


@pytest.fixture
def look(
    league_at_work: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> Iterator[Callable[[], list[Violation]]]:
    store = open_store(configure())
    later = time.now + timedelta(days=10_000)
    return lambda: check(database, store, unpublished_before=later)


def test_a_league_at_work_breaks_none(look: Callable[[], list[Violation]]) -> None:
    assert look() == []


def broken(look: Callable[[], list[Violation]]) -> set[str]:
    return {violation.invariant for violation in look()}


@pytest.mark.parametrize(
    ("statement", "invariants"),
    [
        (update(Rating).values(rating=Rating.rating + 1e-9), {"ratings"}),
        (update(Payoff).values(matches=Payoff.matches + 1), {"payoffs", "ratings"}),
        (update(Payoff).values(points=Payoff.points + 1.0), {"ratings"}),
        (update(Period).values(players=0), {"ratings"}),
        (update(Replay).values(size_bytes=Replay.size_bytes + 1), {"replays"}),
        (update(Replay).values(key="other"), {"replays", "checkpoints"}),
        (update(Replay).values(sha256="0" * 64), {"replays"}),
        (update(Period).values(rule={}), {"periods"}),
        (update(Match).where(Match.id == 1).values(environment="chess"), {"matches"}),
        (update(Match).where(Match.id == 1).values(sequence=10**6), {"matches"}),
        (update(Match).where(Match.id == 1).values(score=1.0 - Match.score), {"matches"}),
        (update(Match).where(Match.id == 1).values(seed=Match.seed + 1), {"matches"}),
        (update(Match).where(Match.id == 1).values(worker_id=_ANOTHER_WORKER), {"matches"}),
        (update(Match).where(Match.id == 1).values(late=True), {"matches"}),
        (update(Match).where(Match.id == 1).values(reported_at=START - timedelta(minutes=11)), {"matches"}),
        (update(Match).where(Match.id == 1).values(reported_at=START + timedelta(minutes=12)), {"matches"}),
        (update(Lease).where(Lease.home_id != Lease.away_id).values(kind="rating"), {"matches"}),
        (update(Player).where(Player.kind == "snapshot").values(standing="retired"), {"standings"}),
        (update(Player).where(Player.call_sign.is_not(None)).values(call_sign="Some Body 1"), {"standings"}),
        (update(Player).where(Player.kind == "learner").values(kind="baseline"), {"learners", "ratings"}),
    ],
)
def test_integrity_check_finds_manual_table_changes(
    look: Callable[[], list[Violation]], database: Database, statement: Any, invariants: set[str]
) -> None:
    with database.write() as session:
        session.execute(statement)
    assert broken(look) == invariants


def test_first_differing_rating_is_reported_with_both_values(
    look: Callable[[], list[Violation]], database: Database
) -> None:
    with database.write() as session:
        periods = session.scalars(select(Period).order_by(Period.number)).all()
        last, before = periods[-1], periods[-2]
        (changed, later) = (
            session.scalars(select(Rating).where(Rating.period_id == each.id).order_by(Rating.player_id)).all()[-1]
            for each in (before, last)
        )
        right = changed.rating
        changed.rating, later.deviation = 1234.5, 10.0
    (found,) = look()
    told = f"first rating of player {changed.player_id} after period {before.number}: stored rating 1234.5, computed"
    assert_names(found.finding, 2, told, right)


def test_differing_payoff_is_reported_with_its_pair(look: Callable[[], list[Violation]], database: Database) -> None:
    with database.write() as session:
        one = session.scalars(select(Payoff).order_by(Payoff.low_id, Payoff.high_id)).first()
        assert one is not None
        right, one.points = one.points, -1.0
    (found,) = look()
    pair = f"payoff of player {one.low_id} and {one.high_id}"
    assert f"first {pair}: stored points -1.0, computed points {right!r};" in found.finding


def test_a_reference_to_nowhere_is_found(
    look: Callable[[], list[Violation]], database: Database, backend: str, league_at_work: Scene
) -> None:
    """PostgreSQL keeps references by itself; whoever opens SQLite's file can leave them dangling."""
    if backend != "sqlite":
        pytest.skip("the database refuses it")
    with database.engine.connect() as connection:
        connection.exec_driver_sql("ROLLBACK")
        connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
        connection.exec_driver_sql("DELETE FROM players WHERE id = (SELECT max(player_id) FROM ratings)")
        connection.exec_driver_sql("BEGIN")
    assert broken(look) == {"references"}
    assert any("rows of ratings whose player_id is missing in players: " in violation.finding for violation in look())


@pytest.mark.parametrize(
    ("column", "lacking", "table"), [("worker_id", "nobody", "workers"), ("away_id", 10**9, "players")]
)
def test_integrity_check_finds_a_lease_without_a_worker(
    look: Callable[[], list[Violation]],
    league_at_work: Scene,
    database: Database,
    column: str,
    lacking: Any,
    table: str,
) -> None:
    (lease,) = league_at_work.lease(1)
    with database.write() as session:
        session.execute(update(Lease).where(Lease.id == lease.lease_id).values({column: lacking}))
    (found,) = look()
    assert (found.invariant, found.finding) == ("references", f"rows of leases whose {column} is missing in {table}: 1")


def test_a_champion_that_is_no_commander_is_found(
    look: Callable[[], list[Violation]], database: Database, league_at_work: Scene, time: Any
) -> None:
    candidate = league_at_work.publish(77)
    with database.write() as session:
        session.execute(delete(Champion))
        session.add(
            Champion(environment=league_at_work.environment, number=1, player_id=candidate.id, actor="me", reason="",
                     since=time.now)
        )  # fmt: skip
    assert broken(look) == {"champion"}


def test_a_champion_that_the_audit_log_does_not_know_is_found(
    look: Callable[[], list[Violation]], database: Database, league_at_work: Scene
) -> None:
    champion = league_at_work.client.players(league_at_work.environment, standing="candidate").items[0]
    league_at_work.client.set_champion(champion.id, expected=None)
    assert look() == []
    with database.write() as session:
        session.execute(delete(Champion))
    (found,) = look()
    assert_names(found.finding, champion.id)


def test_changed_bytes_of_a_checkpoint_are_found_and_stay_where_they_are(
    look: Callable[[], list[Violation]], league_at_work: Scene, tmp_path: Path
) -> None:
    name = str(league_at_work.publish(78).checkpoint)
    file = tmp_path / "checkpoints" / name[:2] / name
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    for _ in range(2):
        (found,) = look()
        assert (found.invariant, found.finding[:7], name in found.finding) == ("checkpoints", "damaged", True)


def test_changed_bytes_of_a_recording_are_found(
    look: Callable[[], list[Violation]], database: Database, tmp_path: Path
) -> None:
    with database.read() as session:
        recording = session.scalars(select(Replay)).first()
    assert recording is not None
    file = tmp_path / "checkpoints" / "replays" / recording.key
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")
    (found,) = look()
    assert found.invariant == "replays"
    assert_names(found.finding, recording.match_id)


def test_bytes_without_a_player_and_players_without_bytes_are_found(
    look: Callable[[], list[Violation]], league_at_work: Scene, tmp_path: Path
) -> None:
    orphan = safetensors(12345)
    league_at_work.client.upload(orphan, sha256(orphan))
    (found,) = look()
    assert "unused files: 1, " in found.finding
    assert "league admin gc" in found.finding
    for file in (tmp_path / "checkpoints").rglob("*"):
        if file.is_file():
            file.unlink()
    missing = next(violation for violation in look() if "missing in the store" in violation.finding)
    assert missing.invariant == "checkpoints"


def test_only_the_named_environment_is_looked_at(
    look: Callable[[], list[Violation]], database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    with database.write() as session:
        session.execute(text("UPDATE ratings SET rating = rating + 1"))
    assert check(database, open_store(configure()), "recall", unpublished_before=time.now) == []
