"""Gates: opened and cancelled, leased to evaluators before other pairs, and what their verdicts do."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from gate_scene import Two, judged, leased, open_gate, outcome, play
from league_scene import ENVIRONMENT, ON_SQLITE, SIGNATURE, Scene, result, safetensors, sha256
from refused import assert_names, refused
from sqlalchemy import select, update

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import Gate, Lease
from league.errors import (
    ForbiddenError,
    UnknownEnvironmentError,
    UnknownPlayerError,
)
from league.services.audit.log import RULE
from league.services.gates import service as gates
from league.services.gates.sprt import FIRST_PAIRS
from league.services.operations import integrity
from league.settings import Settings
from league.storage.local import DirectoryStore

Configure = Callable[..., Settings]


@pytest.fixture
def two(scene: Scene) -> Two:
    """A candidate and whom it is to beat."""
    return scene.publish(1), scene.publish(2)


# --- leases ----------------------------------------------------------------------------------------------------------


def test_evaluators_get_pairs_of_an_open_gate_before_any_other(scene: Scene, two: Two) -> None:
    scene.publish(3)
    gate = open_gate(scene, two)
    leases = scene.rating_leases(8, budget=3)
    assert {lease.gate_id for lease in leases} == {gate.id}
    assert {lease.branch for lease in leases} == {"gate"}
    assert {lease.kind for lease in leases} == {"rating"}, "older evaluators play them too"
    for there, back in zip(leases[::2], leases[1::2], strict=True):
        assert there.seed == back.seed
        assert [there.home.player_id, there.away.player_id] == [player.id for player in two]
        assert (back.home, back.away) == (there.away, there.home)
    told = scene.client.explain_lease(leases[0].lease_id)
    assert f"gate {gate.id}" in told.lease.reason
    assert {item.player_id for item in told.items} == {player.id for player in two}


def test_evaluator_is_busy_until_its_last_batch_is_reported(scene: Scene, two: Two, time: Any) -> None:
    def seen() -> tuple[int, int]:
        gate = scene.client.gate(opened.id)
        return gate.evaluators, gate.busy_evaluators

    batch = scene.rating_leases(4, budget=2)
    opened = open_gate(scene, two)
    assert seen() == (1, 1)
    scene.report(*(result(lease) for lease in batch), worker=scene.evaluator)
    assert seen() == (1, 1), "one match of each lease is still to come"
    scene.report(*(result(lease, 1) for lease in batch), worker=scene.evaluator)
    assert seen() == (1, 0)
    scene.rating_leases(4)
    assert seen() == (1, 0), "it plays this gate"
    scene.client.cancel_gate(opened.id)
    assert seen() == (0, 0)


def test_without_an_open_gate_pairs_are_as_ever(scene: Scene, two: Two) -> None:
    gate = open_gate(scene, two)
    scene.client.cancel_gate(gate.id)
    assert {lease.gate_id for lease in scene.rating_leases(8)} == {None}


def test_a_gate_that_the_evaluator_could_not_play_is_left_to_others(scene: Scene, two: Two) -> None:
    open_gate(scene, two)
    (lease, _) = scene.rating_leases(2)
    unplayable = [wire.UnplayablePlayer(player_id=two[1].id, reason="damaged weights")]
    scene.client.release(
        wire.ReleaseRequest(worker_id=scene.evaluator.id, lease_ids=[lease.lease_id], unplayable=unplayable)
    )
    assert all(lease.gate_id is None for lease in scene.rating_leases(4))


def test_of_several_gates_each_is_played(scene: Scene, two: Two) -> None:
    third = scene.publish(3)
    opened = {open_gate(scene, two).id, open_gate(scene, (third, two[1])).id}
    assert {lease.gate_id for _ in range(40) for lease in scene.rating_leases(2)} == opened


# --- evaluators that are killed --------------------------------------------------------------------------------------


def test_restarted_evaluator_releases_its_gate_leases(scene: Scene, two: Two, database: Database, time: Any) -> None:
    attach = wire.WorkerCreate(
        name="killed", kind="evaluator", version="1", signatures=[SIGNATURE], instance="folder-1"
    )
    killed = scene.client.register_worker(attach)
    rating = [lease.lease_id for lease in leased(scene, killed, 2)]
    gate = open_gate(scene, two)
    held = leased(scene, killed, 2)
    others = scene.rating_leases(2)
    time.advance(1)
    play(scene, two[0], [1.0] * 30)
    assert judged(scene, database, time) == []
    time.advance(10)
    assert scene.client.register_worker(attach).id == killed.id
    states = {lease: scene.client.explain_lease(lease).state for lease in [*rating, *(each.lease_id for each in held)]}
    assert states == dict.fromkeys(rating, "open") | {each.lease_id: "released" for each in held}
    scene.report(*(outcome(lease, two[0], 1.0) for lease in others), worker=scene.evaluator)
    time.advance(31)
    (closed,) = judged(scene, database, time)
    assert (closed.id, closed.state, closed.lost_pairs) == (gate.id, "accepted", 1)
    late = scene.report(*(outcome(lease, two[0], 0.0) for lease in held), worker=killed)
    assert {answer.status for answer in late} == {"accepted"}
    assert scene.client.gate(gate.id) == closed


# --- opening, finding, cancelling ------------------------------------------------------------------------------------


def test_the_same_test_of_the_same_two_is_the_same_gate(scene: Scene, two: Two, database: Database, time: Any) -> None:
    gate = open_gate(scene, two)
    assert open_gate(scene, two).id == gate.id
    assert open_gate(scene, two, again=True).id == gate.id, "it is open: there is nothing to do again"
    assert open_gate(scene, (two[1], two[0])).id != gate.id
    other = open_gate(scene, two, elo1=50.0)
    assert other.id != gate.id
    for each in scene.client.gates(state="open").items:
        if each.id != gate.id:
            scene.client.cancel_gate(each.id)
    play(scene, two[0], [1.0] * 30)
    judged(scene, database, time)
    assert open_gate(scene, two) == scene.client.gate(gate.id), "with its verdict"
    anew = open_gate(scene, two, again=True)
    assert (anew.state, anew.games, anew.id != gate.id) == ("open", 0, True)


def test_requesting_an_automatic_gate_takes_it_over(scene: Scene, two: Two, database: Database, time: Any) -> None:
    test = wire.GateCreate(candidate_id=two[0].id, champion_id=two[1].id, reason="strong enough?")
    with database.write() as session:
        opened = gates.find_or_open(session, test, RULE, time.now).id
    asked = scene.client.open_gate(test.model_copy(update={"reason": ""}))
    assert (asked.id, asked.reason, asked.actor == RULE) == (opened, "strong enough?", False)
    assert {lease.gate_id for _ in range(10) for lease in scene.rating_leases(2)} == {opened}
    with database.write() as session:
        assert gates.find_or_open(session, test, RULE, time.now).actor == asked.actor
    scene.client.open_gate(test)
    assert [event.actor == RULE for event in scene.client.events(kind="gate").items] == [False, True]


def test_of_racing_callers_all_get_one_gate(serve: Callable[..., TestClient]) -> None:
    servers = [serve() for _ in range(2)]
    scene = Scene(LeagueClient(http=servers[0]))
    two = scene.publish(1), scene.publish(2)
    start = threading.Barrier(8)

    def ask(place: int) -> int:
        start.wait()
        test = wire.GateCreate(candidate_id=two[0].id, champion_id=two[1].id)
        return LeagueClient(http=servers[place % 2]).open_gate(test).id

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


def test_a_cancelled_gate_has_no_verdict_and_is_followed_by_a_new_one(scene: Scene, two: Two) -> None:
    gate = open_gate(scene, two)
    play(scene, two[0], [1.0, 0.5])
    seen = scene.client.gate(gate.id)
    cancelled = scene.client.cancel_gate(gate.id, "too slow")
    assert (cancelled.state, cancelled.closed_reason) == ("cancelled", "too slow")
    assert (cancelled.games, cancelled.llr, cancelled.elo) == (4, seen.llr, seen.elo)
    with refused("gate-conflict", "cancelled"):
        scene.client.cancel_gate(gate.id)
    assert open_gate(scene, two).id != gate.id


def test_the_gate_of_a_quarantined_player_is_cancelled(scene: Scene, two: Two, database: Database, time: Any) -> None:
    open_gate(scene, two)
    scene.client.quarantine(two[1].id, "exploits a bug")
    assert all(lease.gate_id is None for lease in scene.rating_leases(4))
    (closed,) = judged(scene, database, time)
    assert (closed.state, closed.closed_reason) == ("cancelled", f"{two[1].name} was quarantined")


def test_gates_are_listed_newest_first(scene: Scene, two: Two, league: LeagueClient) -> None:
    third = scene.publish(3)
    opened = [open_gate(scene, pair).id for pair in ((two[0], two[1]), (third, two[0]), (third, two[1]))]
    scene.client.cancel_gate(opened[1])
    assert [gate.id for gate in league.gates().items] == opened[::-1]
    assert [gate.id for gate in league.gates(state="open").items] == [opened[2], opened[0]]
    assert [gate.id for gate in league.gates(player=two[0].id).items] == [opened[1], opened[0]]
    page = league.gates("rps", limit=1)
    assert [gate.id for gate in league.gates("rps", cursor=page.next_cursor).items] == [opened[1], opened[0]]


@ON_SQLITE
def test_invalid_gate_is_rejected(scene: Scene, two: Two, league: LeagueClient) -> None:
    other = wire.LearnerCreate(name="other", role="main", environment=ENVIRONMENT, signature="rps-2")
    data = safetensors(9, signature="rps-2")
    league.upload(data, sha256(data))
    published = wire.PlayerCreate(learner_id=league.register_learner(other).id, checkpoint=sha256(data), step=9)
    stranger = league.publish(published)
    learner = league.player(scene.learner.player_id)
    scene.client.quarantine(two[1].id)
    third = scene.publish(3)
    for pair, changes, values in (
        ((third, learner), {}, ("main", third.id)),
        ((third, third), {}, (third.id,)),
        ((third, two[1]), {}, (two[1].id, "quarantined")),
        ((third, stranger), {}, (SIGNATURE, "rps-2")),
        ((third, two[0]), {"elo0": 30.0, "elo1": 20.0}, ("elo0", "elo1")),
        ((third, two[0]), {"alpha": 0.7}, ("alpha", 0.7)),
        ((third, two[0]), {"elo1": float("nan")}, ("elo1",)),
        ((third, two[0]), {"least_games": -1}, ("least_games", -1)),
    ):
        with refused("invalid-request", *values):
            open_gate(scene, pair, **changes)
    assert league.gates().items == []
    with pytest.raises(UnknownPlayerError):
        league.open_gate(wire.GateCreate(candidate_id=999, champion_id=third.id))
    with pytest.raises(UnknownPlayerError):
        league.gates(player=999)
    with pytest.raises(UnknownEnvironmentError):
        league.gates("chess")
    for call in (league.gate, league.cancel_gate):
        with refused("unknown-gate", 7):
            call(7)


@ON_SQLITE
def test_only_admins_open_and_cancel_gates(scene: Scene, two: Two, connect: Callable[..., LeagueClient]) -> None:
    gate = open_gate(scene, two)
    worker, admin = connect("worker"), connect("admin")
    assert worker.gate(gate.id).id == gate.id
    for call in (
        lambda: worker.cancel_gate(gate.id),
        lambda: worker.open_gate(wire.GateCreate(candidate_id=two[0].id, champion_id=two[1].id)),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert admin.cancel_gate(gate.id).state == "cancelled"


# --- the books -------------------------------------------------------------------------------------------------------


@ON_SQLITE
def test_a_check_of_the_books_finds_verdicts_and_leases_that_are_wrong(
    scene: Scene, two: Two, database: Database, time: Any, tmp_path: Path
) -> None:
    def found() -> list[str]:
        store = DirectoryStore(tmp_path / "checkpoints", 2**20)
        violations = integrity.check(database, store, unpublished_before=datetime.now(UTC) - timedelta(days=1))
        return [one.finding for one in violations if one.invariant == "gates"]

    gate = open_gate(scene, two)
    scene.rating_leases(2)
    time.advance(400)
    play(scene, two[0], [1.0] * 30)
    judged(scene, database, time)
    assert found() == []
    with database.write() as session:
        verdict = session.scalars(select(Gate.verdict)).one()
        session.execute(update(Gate).values(state="rejected"))
    (finding,) = found()
    assert_names(finding, gate.id)
    with database.write() as session:
        session.execute(update(Gate).values(state="accepted", verdict={}))
    (finding,) = found()
    assert_names(finding, gate.id)
    with database.write() as session:
        session.execute(update(Gate).values(verdict=verdict))
        session.execute(update(Lease).values(gate_id=gate.id + 1))
    assert len(found()) == 2


# --- promotion by gate -----------------------------------------------------------------------------------------------


CROWDED = {"capacity": 2, "superiority": 0.6, "least_games": 4, "max_interval": 2000.0, "gate_share": 1.0}


@pytest.fixture
def crowded(serve: Callable[..., TestClient]) -> Scene:
    """A league with two places for commanders, which are taken."""
    scene = Scene(LeagueClient(http=serve(promotion=CROWDED)))
    for step in (1, 2):
        scene.client.promote(scene.publish(step).id)
    return scene


def _rate_as_strong(scene: Scene, strong: wire.Player) -> None:
    for _ in range(3):
        scene.evaluate(8, winner=strong.id)
        scene.client.close_period()


def test_candidate_shows_why_it_is_not_promoted_yet(crowded: Scene) -> None:
    def reason(player: wire.Player) -> str:
        return crowded.client.player(player.id).promotion_status or ""

    strong = crowded.publish(3)
    assert reason(strong) == "0 of the 4 required games; it needs more rating matches"
    _rate_as_strong(crowded, strong)
    (gate,) = crowded.client.gates().items
    assert f"gate {gate.id}: it is open" in reason(strong)
    idle = crowded.publish(4)
    assert reason(idle) == "0 of the 4 required games; it needs more rating matches"
    (commander, *_) = crowded.client.players(crowded.environment, standing="commander").items
    assert reason(commander) == ""
    crowded.client.retire(idle.id)
    assert reason(idle) == ""


@pytest.mark.parametrize(("score", "standing"), [(1.0, "commander"), (0.0, "candidate")])
def test_a_candidate_beyond_capacity_is_promoted_by_its_gate(
    crowded: Scene, database: Database, time: Any, score: float, standing: str
) -> None:
    strong = crowded.publish(3)
    _rate_as_strong(crowded, strong)
    (gate,) = crowded.client.gates().items
    assert (gate.candidate.player_id, gate.actor, gate.state) == (strong.id, "rule", "open")
    assert (gate.elo0, gate.elo1) == (0.0, 50.0)
    assert crowded.client.player(strong.id).standing == "candidate"
    crowded.client.close_period()
    assert len(crowded.client.gates().items) == 1
    for _ in range(4):
        play(crowded, strong, [score] * 15)
    judged(crowded, database, time)
    crowded.client.close_period()
    assert crowded.client.player(strong.id).standing == standing
    assert len(crowded.client.gates().items) == 1, "a candidate is tested once"
    if standing == "commander":
        assert f"gate {gate.id}: accepted" in crowded.client.events(kind="promote").items[0].reason


@ON_SQLITE
def test_gates_of_the_rule_leave_room_for_rating_matches_and_those_of_people_do_not(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    scene = Scene(LeagueClient(http=serve(promotion={"gate_share": 0.5})))
    test = wire.GateCreate(candidate_id=scene.publish(1).id, champion_id=scene.publish(2).id)
    with database.write() as session:
        by_rule = gates.find_or_open(session, test, RULE, time.now).id

    def share() -> float:
        granted = [scene.rating_leases(2)[0].gate_id is not None for _ in range(60)]
        return sum(granted) / len(granted)

    assert 0.2 < share() < 0.8  # beyond 4 standard deviations
    scene.client.cancel_gate(by_rule)
    scene.client.open_gate(test)
    assert share() == 1.0


def test_gates_of_the_rule_have_as_many_pending_pairs_as_have_arrived(
    serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    scene = Scene(LeagueClient(http=serve(promotion={"gate_share": 1.0})))
    candidate, champion = scene.publish(1), scene.publish(2)
    test = wire.GateCreate(candidate_id=candidate.id, champion_id=champion.id, elo0=0.0, elo1=5.0)
    with database.write() as session:
        by_rule = gates.find_or_open(session, test, RULE, time.now).id

    def pairs(gate_id: int) -> int:
        time.advance(3.0)
        return sum(lease.gate_id == gate_id for lease in leased(scene, scene.evaluator, 200)) // 2

    play(scene, candidate, [0.5] * FIRST_PAIRS)
    time.advance(3.0)
    play(scene, candidate, [0.5] * FIRST_PAIRS)
    assert [pairs(by_rule), pairs(by_rule)] == [2 * FIRST_PAIRS, 0]
    scene.client.cancel_gate(by_rule)
    by_user = scene.client.open_gate(test).id
    assert [pairs(by_user), pairs(by_user)] == [100, 100]
