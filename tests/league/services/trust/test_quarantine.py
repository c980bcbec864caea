"""Workers that are not trusted: everybody is rated as if what they reported had never come in, bit for bit."""

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from league_scene import ON_SQLITE, Scene, result
from refused import refused
from sqlalchemy import select

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Base, Draw, Lease, Payoff, Period, Player, Rating
from league.errors import (
    InternalError,
    WorkerConflictError,
)
from league.services.audit import log as audit_log
from league.services.matches import log as match_log
from league.services.rating_periods import closing, rebuild
from league.services.trust import quarantine as trust_quarantine

START = datetime(2030, 1, 1, tzinfo=UTC)
STEP_S = 10


class Side:
    """A league that a plan is played on, lease by lease, so that two of them differ by what is left out alone."""

    def __init__(self, http: TestClient) -> None:
        self.scene = Scene(LeagueClient(http=http))
        self.database: Database = http.app.state.league.database
        self.bad = self.scene.worker("trainer-2", "trainer")
        self._leases = 0
        self._published = 0

    @property
    def players(self) -> list[wire.Player]:
        return self.scene.client.players(self.scene.environment).items

    def publish(self) -> None:
        self._published += 1
        self.scene.publish(self._published)

    def close(self) -> None:
        self.scene.client.close_period(self.scene.environment)

    def play(
        self, worker: wire.Worker, kind: wire.MatchKind, one: int, other: int, score: float, *, told: bool
    ) -> None:
        """Let a worker report one match, or only lease it."""
        frozen = [player.id for player in self.players if player.kind != "learner"]
        home = self.scene.learner.player_id if kind == "training" else frozen[one % len(frozen)]
        away = frozen[other % len(frozen)]
        if home == away:  # nobody meets itself in a rating match
            kind, home = "training", self.scene.learner.player_id
        lease = self._lease(worker, kind, home, away)
        if told:
            (answer,) = self.scene.report(lease(score), worker=worker)
            assert answer.status == "accepted"

    def _lease(self, worker: wire.Worker, kind: str, home: int, away: int) -> Callable[[float], wire.Result]:
        self._leases += 1
        lease_id = f"{self._leases:08d}"
        with self.database.write() as session:
            if session.get(Draw, "plan") is None:
                session.add(Draw(id="plan", distribution={}, created_at=START))
                session.flush()
            session.add(
                Lease(
                    id=lease_id,
                    worker_id=worker.id,
                    kind=kind,
                    environment=self.scene.environment,
                    home_id=home,
                    away_id=away,
                    learner_side="home" if kind == "training" else None,
                    seed=self._leases,
                    budget=1,
                    branch="plan",
                    propensity=None,
                    draw_id="plan",
                    granted_at=START,
                    expires_at=START + timedelta(days=365),
                    released_at=None,
                    state="open",
                )
            )
        return lambda score: wire.Result(
            lease_id=lease_id, sequence=0, score=score, decisions=5, reason="decided", seed=self._leases
        )

    def books(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that follows from the log, to the last bit."""
        starts = Player.id, Player.start_rating, Player.start_deviation, Player.start_volatility
        periods = Period.id, Period.number, Period.last_match_id, Period.matches, Period.players, Period.refitted
        with self.database.read() as session:
            return {
                "ratings": _rows(session, Rating),
                "payoffs": _rows(session, Payoff),
                "starts": sorted(tuple(row) for row in session.execute(select(*starts))),
                "periods": sorted((*row[:2], *row[3:]) for row in session.execute(select(*periods))),
            }


def _rows(session: Any, table: type[Base]) -> list[tuple[Any, ...]]:
    columns = [column for column in table.__table__.columns if column is not Rating.__table__.c.id]  # only counts rows
    return sorted((tuple(row) for row in session.execute(select(*columns))), key=repr)


def random_plan(rng: random.Random, length: int) -> list[tuple[Any, ...]]:
    """Steps of a league's life: publishing, closing, and matches of a good and of a bad worker."""
    kinds = rng.choices(["good", "bad", "publish", "close"], weights=[10, 6, 2, 2], k=length)
    return [
        (kind, rng.choice(["training", "rating"]), rng.randrange(6), rng.randrange(6), rng.choice([0.0, 0.5, 1.0, 0.3]))
        for kind in kinds
    ]


def play(side: Side, time: Any, plan: list[tuple[Any, ...]], *, honest_until: datetime | None) -> None:
    """Play a plan; the bad worker reports until a time, or for ever."""
    for step, kind, one, other, score in plan:
        time.advance(STEP_S)
        if step == "publish":
            side.publish()
        elif step == "close":
            side.close()
        elif step == "good":
            side.play(side.scene.trainer, kind, one, other, score, told=True)
        else:
            side.play(side.bad, kind, one, other, score, told=honest_until is None or time.now < honest_until)


@pytest.fixture
def sides(serve: Callable[..., TestClient], twin_database_url: str) -> tuple[Side, Side]:
    """A league, and one that will never hear of some of its results."""
    return Side(serve(automatic_promotion=False)), Side(
        serve(automatic_promotion=False, database_url=twin_database_url)
    )


def both(sides: tuple[Side, Side], time: Any, plan: list[tuple[Any, ...]], since: datetime) -> None:
    """Play the same on both, at the same times."""
    now = time.now
    for side, honest_until in zip(sides, (None, since), strict=True):
        time.now = now
        play(side, time, plan, honest_until=honest_until)


@pytest.mark.parametrize("seed", range(2))
def test_quarantine_gives_the_ratings_of_a_league_without_the_worker(
    sides: tuple[Side, Side], time: Any, seed: int
) -> None:
    rng = random.Random(seed)
    since = time.now + timedelta(seconds=STEP_S * 25)
    both(sides, time, [*random_plan(rng, 60), ("close", "training", 0, 0, 0.0)], since)
    league, clean = sides
    assert league.books() != clean.books()
    league.scene.client.quarantine_worker(league.bad.id, since, "reports wins that were none")
    assert league.books() == clean.books()
    both(sides, time, [*random_plan(rng, 30), ("close", "training", 0, 0, 0.0)], since)
    assert league.books() == clean.books()
    assert [rebuilt.differing for rebuilt in rebuild.rebuild(league.database, time.now)] == [0]
    assert league.scene.client.payoff(league.scene.environment) == clean.scene.client.payoff(clean.scene.environment)


def test_a_snapshot_does_not_keep_the_rating_that_it_inherited_from_bad_results(
    sides: tuple[Side, Side], time: Any
) -> None:
    lies = [("bad", "training", 0, 0, 1.0)] * 10
    then = [("good", "training", 0, 0, 0.5), ("close", "training", 0, 0, 0.0), ("publish", "training", 0, 0, 0.0)]
    both(sides, time, [*lies, *then], START)
    league, clean = sides
    inherited, honest = (side.players[-1].rating for side in sides)
    assert inherited > honest
    league.scene.client.quarantine_worker(league.bad.id, START, "lies")
    assert league.players[-1].rating == honest
    assert league.books() == clean.books()


def test_a_false_alarm_leaves_nothing_behind(sides: tuple[Side, Side], time: Any) -> None:
    league, _ = sides
    play(league, time, [*random_plan(random.Random(7), 50), ("close", "training", 0, 0, 0.0)], honest_until=None)
    before = league.books()
    league.scene.client.quarantine_worker(league.bad.id, START, "looks odd")
    assert league.books() != before
    league.scene.client.reinstate_worker(league.bad.id, "it was right", restore=True)
    assert league.books() == before


def test_a_false_alarm_that_was_lifted_before_leaves_nothing_behind_either(sides: tuple[Side, Side], time: Any) -> None:
    league, _ = sides
    play(league, time, [*random_plan(random.Random(7), 50), ("close", "training", 0, 0, 0.0)], honest_until=None)
    before, client = league.books(), league.scene.client
    client.quarantine_worker(league.bad.id, START, "looks odd")
    time.advance(1)
    client.reinstate_worker(league.bad.id, "mended")
    assert league.books() != before
    client.reinstate_worker(league.bad.id, "it was right all along", restore=True)
    assert league.books() == before
    with refused("worker-conflict", "trainer-2"):
        client.reinstate_worker(league.bad.id, "again")


def test_reinstated_worker_counts_from_then_on(sides: tuple[Side, Side], time: Any) -> None:
    league, clean = sides
    lie, close = ("bad", "training", 0, 0, 1.0), ("close", "training", 0, 0, 0.0)
    both(sides, time, [lie, lie, close], START)
    league.scene.client.quarantine_worker(league.bad.id, START, "lies")
    both(sides, time, [lie, close], START)
    time.advance(1)
    league.scene.client.reinstate_worker(league.bad.id, "mended")
    both(sides, time, [lie, lie, ("good", "training", 0, 0, 0.0), close], time.now + timedelta(days=1))
    assert league.books() == clean.books()
    assert clean.scene.client.periods().items[0].matches == 3


@ON_SQLITE
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(["good", "bad"]), max_size=20), data=st.data())
def test_results_after_the_quarantine_start_are_excluded(
    sides: tuple[Side, Side], time: Any, steps: list[str], data: st.DataObject
) -> None:
    league, _ = sides
    trusted = data.draw(st.integers(0, len(steps)))
    before, began = read_log(league), time.now
    play(league, time, [(step, "training", 0, 0, 1.0) for step in steps], honest_until=None)
    time.advance(STEP_S)
    league.scene.client.quarantine_worker(league.bad.id, began + timedelta(seconds=STEP_S * trusted + 1), "odd")
    assert read_log(league) - before == len(steps) - steps[trusted:].count("bad")
    league.scene.client.reinstate_worker(league.bad.id, restore=True)
    assert read_log(league) - before == len(steps)


def read_log(side: Side) -> int:
    with side.database.read() as session:
        return len(match_log.read(session, side.scene.environment, 0, None))


# --- what the worker and others are told -----------------------------------------------------------------------------


def quarantine(scene: Scene, since: datetime = START, reason: str = "scores do not fit") -> wire.Quarantine:
    return scene.client.quarantine_worker(scene.trainer.id, since, reason)


def test_quarantined_worker_gets_no_leases(scene: Scene) -> None:
    assert scene.client.heartbeat(scene.trainer.id).quarantine is None
    quarantine(scene)
    with refused("worker-quarantined", "2030-01-01T00:00:00Z", "league worker reinstate"):
        scene.lease()
    told = scene.client.heartbeat(scene.trainer.id).quarantine
    assert told is not None
    assert (told.since, told.reason, told.until) == (START, "scores do not fit", None)
    scene.client.reinstate_worker(scene.trainer.id)
    assert scene.client.heartbeat(scene.trainer.id).quarantine is None
    assert scene.lease()


def test_results_of_a_quarantined_worker_are_stored_but_do_not_count(scene: Scene) -> None:
    (lease,) = scene.opponent_leases(1)
    quarantine(scene)
    (answer,) = scene.report(result(lease))
    assert answer.status == "accepted"
    assert not scene.client.match(answer.match_id or 0).counts
    assert scene.client.close_period().matches == 0
    scene.client.reinstate_worker(scene.trainer.id, restore=True)
    assert scene.client.match(answer.match_id or 0).counts
    assert scene.client.periods().items[0].matches == 1


def test_results_that_do_not_count_close_no_period(
    scene: Scene, serve: Callable[..., TestClient], time: Any, configure: Callable[..., Any], database: Database
) -> None:
    leases = scene.opponent_leases(30)
    quarantine(scene)
    scene.report(*(result(lease) for lease in leases))
    time.advance(3600)
    assert closing.close_if_due(database, configure(), scene.environment, time.now) is None


def test_both_changes_are_in_the_audit_log(scene: Scene, database: Database) -> None:
    quarantine(scene)
    scene.client.reinstate_worker(scene.trainer.id, "a false alarm", restore=True)
    with database.read() as session:
        log = [event for event in audit_log.read_after(session, 0, 100) if event.kind.endswith("-worker")]
    assert [(event.kind, event.reason, event.actor) for event in log] == [
        ("quarantine-worker", "scores do not fit", "open"),
        ("reinstate-worker", "a false alarm", "open"),
    ]
    assert log[0].details == {"worker_id": scene.trainer.id, "worker": "trainer-1", "since": START.isoformat()}
    assert log[1].details["until"] == START.isoformat()


def test_a_change_that_is_one_already_is_refused(scene: Scene) -> None:
    with refused("worker-conflict", "trainer-1"):
        scene.client.reinstate_worker(scene.trainer.id)
    quarantine(scene)
    with refused("worker-conflict", "trainer-1"):
        quarantine(scene)


def test_of_racing_quarantines_one_wins(scene: Scene) -> None:
    def attempt(_: int) -> str:
        try:
            quarantine(scene)
        except WorkerConflictError:
            return "conflict"
        return "imposed"

    with ThreadPoolExecutor(4) as pool:
        outcomes = sorted(pool.map(attempt, range(4)))
    assert outcomes == ["conflict", "conflict", "conflict", "imposed"]


@ON_SQLITE
def test_invalid_quarantine_is_rejected(scene: Scene, time: Any) -> None:
    with refused("unknown-worker", "nobody"):
        scene.client.quarantine_worker("nobody", START, "x")
    with refused("invalid-request", "2030-01-01T00:00:01+00:00"):
        quarantine(scene, since=time.now + timedelta(seconds=1))


def test_ratings_that_a_dying_server_left_behind_follow_later(
    sides: tuple[Side, Side], time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise RuntimeError("killed")

    lie, close = ("bad", "training", 0, 0, 1.0), ("close", "training", 0, 0, 0.0)
    both(sides, time, [lie, lie, close], START)
    league, clean = sides
    with monkeypatch.context() as dying:
        dying.setattr(rebuild, "rebuild", die)
        with pytest.raises(InternalError):
            league.scene.client.quarantine_worker(league.bad.id, START, "lies")
    assert league.books() != clean.books()
    trust_quarantine.finish_pending_ratings(league.database, time.now)
    assert league.books() != clean.books()
    trust_quarantine.finish_pending_ratings(
        league.database, time.now + timedelta(seconds=trust_quarantine.PENDING_TIMEOUT_S)
    )
    assert league.books() == clean.books()
