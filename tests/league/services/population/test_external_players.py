"""External players: entered, paired and rated, leased to their entrants alone, kept out of what takes weights."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from league_scene import ENVIRONMENT, ON_SQLITE, SIGNATURE, Scene, result
from refused import refused

from league import wire
from league.client import LeagueClient
from league.client.operation import post
from league.db.engine import Database
from league.errors import (
    NameTakenError,
    UnknownPlayerError,
)
from league.services.audit.log import Cause
from league.services.operations import fork, integrity
from league.services.rating_periods import rebuild
from league.services.ratings import rated_players
from league.settings import Settings
from league.storage.local import DirectoryStore

FILE = "a" * 64
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def entering(name: str = "stone", **changes: Any) -> wire.ExternalCreate:
    return wire.ExternalCreate(**{"name": name, "environment": ENVIRONMENT, "signature": SIGNATURE} | changes)


@pytest.fixture
def stone(scene: Scene) -> wire.Player:
    return scene.client.register_external(entering(identity=FILE, metadata={"form": "onnx"}))


@pytest.fixture
def entrant(scene: Scene) -> wire.Worker:
    return scene.worker("entry-stone", "entrant")


def pairs_of(scene: Scene, worker: wire.Worker, player: wire.Player, count: int, **changes: Any) -> list[wire.Lease]:
    asked = {"environment": ENVIRONMENT, "count": count, "budget": 1, "player_id": player.id} | changes
    return scene.client.lease(wire.RatingLeases(kind="rating", worker_id=worker.id, **asked)).items


def play(scene: Scene, worker: wire.Worker, player: wire.Player, matches: int, score: float) -> None:
    """Play rating matches of an external player, each with this score of its own."""
    leases = pairs_of(scene, worker, player, matches)
    home = (score if lease.home.player_id == player.id else 1.0 - score for lease in leases)
    answers = scene.report(*(result(each, score=one) for each, one in zip(leases, home, strict=True)), worker=worker)
    assert {answer.status for answer in answers} == {"accepted"}


# --- entering --------------------------------------------------------------------------------------------------------


def test_a_player_is_entered_once_and_is_the_same_ever_after(scene, stone):
    assert (stone.kind, stone.standing, stone.checkpoint) == ("external", "candidate", "external:stone")
    assert (stone.rating, stone.deviation, stone.games, stone.provisional) == (1500.0, 350.0, 0, True)
    assert stone.metadata == {"form": "onnx", "identity": FILE}
    assert scene.client.register_external(entering(identity=FILE)) == stone
    assert scene.client.register_external(entering()) == stone, "who says nothing of the policy is believed"
    (told,) = scene.client.events(player=stone.id).items
    assert (told.kind, told.details) == ("entry", {"name": "stone", "identity": FILE})
    assert scene.client.players(ENVIRONMENT, kind="external").items == [stone]


def test_another_policy_under_the_same_name_is_refused(scene, stone):
    with refused("name-taken", FILE, "bbb"):
        scene.client.register_external(entering(identity="bbb"))


def test_missing_policy_identity_is_stored_when_it_arrives(scene):
    first = scene.client.register_external(entering())
    assert first.metadata == {"identity": None}
    assert scene.client.register_external(entering(identity=FILE)).metadata == {"identity": FILE}
    with pytest.raises(NameTakenError):
        scene.client.register_external(entering(identity="bbb"))


@pytest.mark.parametrize(
    ("changes", "code", "value"),
    [
        ({"environment": "chess"}, "unknown-environment", "rps"),
        ({"signature": "rps-2"}, "signature-mismatch", "rps-1"),
        ({"name": "main"}, "name-taken", "main"),
        ({"name": "random"}, "name-taken", "random"),
        ({"name": "main@1"}, "invalid-request", "body.name"),
        ({"identity": ""}, "invalid-request", "body.identity"),
    ],
)
@ON_SQLITE
def test_invalid_external_player_is_rejected(scene, changes, code, value):
    scene.publish(1)
    body = {"name": "stone", "environment": ENVIRONMENT, "signature": SIGNATURE} | changes
    with refused(code, value):
        scene.client.run(post("/externals", wire.ExternalCreate.model_construct(**body), wire.Player))


@ON_SQLITE
def test_league_without_environments_rejects_external_players(league: LeagueClient):
    with refused("unknown-environment", "--environment", "rps"):
        league.register_external(entering())


@ON_SQLITE
def test_a_learner_cannot_take_the_name_of_an_external_player(scene, stone):
    request = {"name": "stone", "role": "main", "environment": ENVIRONMENT, "signature": SIGNATURE}
    with refused("name-taken", "rps"):
        scene.client.register_learner(wire.LearnerCreate(**request))


@ON_SQLITE
def test_it_belongs_to_the_token_that_entered_it(
    connect: Callable[..., LeagueClient],
):
    admin = connect("admin", "keeper")
    scene = Scene(connect("worker", "laptop"))
    stone = scene.client.register_external(entering())
    stranger = connect("worker", "stranger")
    with refused("forbidden", "stone", "laptop"):
        stranger.register_external(entering())
    worker = stranger.register_worker(wire.WorkerCreate(name="w", kind="entrant", version="1", signatures=[SIGNATURE]))
    asked = {"kind": "rating", "environment": ENVIRONMENT, "count": 2, "budget": 1, "player_id": stone.id}
    with refused("forbidden", "laptop"):
        stranger.lease(wire.RatingLeases(worker_id=worker.id, **asked))
    assert admin.register_external(entering()) == stone


# --- who is leased to whom -------------------------------------------------------------------------------------------


def test_its_entrant_is_given_pairs_of_it_alone_on_both_sides_of_one_seed(scene, stone, entrant):
    known = {scene.publish(step).id for step in (1, 2, 3)} | {scene.baseline().id}
    leases = pairs_of(scene, entrant, stone, 96)
    assert len(leases) == 96
    met = set()
    for there, back in zip(leases[::2], leases[1::2], strict=True):
        assert there.seed == back.seed
        assert (there.home, there.away) == (back.away, back.home)
        assert there.home.player_id == stone.id
        assert there.home.checkpoint == "external:stone"
        met.add(there.away.player_id)
    assert met == known, "strangers come sooner than those whom it has met"
    explained = scene.client.explain_lease(leases[0].lease_id)
    assert (explained.branch, explained.lease.branch) == ("entry", "entry")
    assert "neighbours of stone" in explained.lease.reason


def test_external_player_is_leased_only_to_its_own_worker(scene, stone, entrant):
    other = scene.client.register_external(entering("other"))
    scene.publish(1)
    external = {stone.id, other.id}
    for lease in [*scene.lease(64), *scene.rating_leases(32)]:
        assert not external & {lease.home.player_id, lease.away.player_id}
    for lease in pairs_of(scene, entrant, stone, 32):
        assert other.id not in {lease.home.player_id, lease.away.player_id}
    preview = scene.client.preview(scene.learner.player_id)
    assert not external & {item.player_id for item in preview.items}
    (weights,) = [each for each in preview.filters if each.name == "weights"]
    assert set(weights.removed) == external


@ON_SQLITE
def test_a_worker_brings_external_players_of_the_environment_alone(scene, stone, entrant):
    snapshot = scene.publish(1)
    with refused("invalid-request"):
        pairs_of(scene, entrant, snapshot, 2)
    with pytest.raises(UnknownPlayerError):
        pairs_of(scene, entrant, stone, 2, environment="other")


def test_retired_or_quarantined_external_player_gets_no_leases(scene, stone, entrant):
    scene.client.retire(stone.id, "too slow")
    with refused("standing-conflict", "stone", stone.id):
        pairs_of(scene, entrant, stone, 2)
    assert scene.client.register_external(entering()).standing == "retired"
    scene.client.reinstate(stone.id)
    assert len(pairs_of(scene, entrant, stone, 2)) == 2
    scene.client.quarantine(stone.id)
    with refused("standing-conflict", "stone", "quarantined"):
        pairs_of(scene, entrant, stone, 2)


# --- rated -----------------------------------------------------------------------------------------------------------


def test_its_matches_rate_it_and_its_opponents_and_a_rebuild_agrees(scene, stone, entrant, database):
    for step in (1, 2):
        scene.publish(step)
    for _ in range(3):
        play(scene, entrant, stone, 16, 0.75)
        scene.client.close_period(ENVIRONMENT)
    after = scene.client.player(stone.id)
    assert (after.games, after.volatility >= 0.0) == (48, True)
    assert after.rating > 1500.0
    assert after.deviation < 350.0
    met = [each for each in scene.client.players(ENVIRONMENT, kind="snapshot").items if each.games]
    assert met
    assert all(each.rating < 1500.0 for each in met)
    assert scene.client.player(scene.baseline().id).rating == scene.baseline().rating
    table = scene.client.standings(ENVIRONMENT).items
    assert [each.id for each in table if each.kind == "external"] == [stone.id]
    assert stone.id in {each.player_id for each in scene.client.payoff(ENVIRONMENT).players}
    assert [each.differing for each in rebuild.rebuild(database, NOW)] == [0]


def test_the_books_are_right_and_travel_with_it(scene, stone, entrant, database, twin_database_url, tmp_path, time):
    """A fork at the period has it in play, as it was then."""
    scene.publish(1)
    play(scene, entrant, stone, 8, 0.75)
    period = scene.client.close_period(ENVIRONMENT)
    time.advance(60)
    scene.client.retire(stone.id, "later than the period")
    store, far = (DirectoryStore(tmp_path / each, 2**20) for each in ("checkpoints", "far"))
    assert integrity.check(database, store, unpublished_before=NOW) == []
    twin = Database(twin_database_url)
    try:
        source, goal = fork.League(database, store), fork.League(twin, far)
        fork.fork(source, goal, period.id, tmp_path, Cause("test", "", NOW), lambda *_: None)
        with twin.read() as session:
            there = rated_players.show(session, Settings(), stone.id)
        assert (there.kind, there.standing, there.games) == ("external", "candidate", 8)
        assert integrity.check(twin, far, unpublished_before=NOW) == []
    finally:
        twin.close()


def test_external_player_does_not_take_part_in_promotion(scene, stone, entrant):
    """The rule of promotion looks at those that the league can hand out."""
    snapshot = scene.publish(1)
    for _ in range(4):
        play(scene, entrant, stone, 32, 1.0)
        scene.client.close_period(ENVIRONMENT)
    assert scene.client.player(stone.id).standing == "candidate"
    assert scene.client.player(stone.id).call_sign is None
    for deed in (
        lambda: scene.client.promote(stone.id),
        lambda: scene.client.set_champion(stone.id, expected=None),
    ):
        with refused("standing-conflict"):
            deed()
    assert scene.client.redundancies(ENVIRONMENT).items == []
    assert scene.client.player(snapshot.id).standing in ("candidate", "commander")


def test_a_gate_of_it_is_played_by_its_entrant_alone(scene, stone, entrant):
    snapshot, other = scene.publish(1), scene.client.register_external(entering("other"))
    gate = scene.client.open_gate(wire.GateCreate(candidate_id=stone.id, champion_id=snapshot.id, elo0=0.0, elo1=100.0))
    assert gate.evaluators == 1, "the entrant"
    assert {lease.gate_id for lease in scene.rating_leases(4)} <= {None}
    assert {lease.gate_id for lease in pairs_of(scene, entrant, other, 4)} == {None}
    assert {lease.gate_id for lease in pairs_of(scene, entrant, stone, 4)} == {gate.id}
    both = wire.GateCreate(candidate_id=stone.id, champion_id=other.id)
    with refused("invalid-request"):
        scene.client.open_gate(both)


def test_gates_of_others_are_not_given_to_an_entrant(scene, stone, entrant):
    gate = scene.client.open_gate(
        wire.GateCreate(candidate_id=scene.publish(1).id, champion_id=scene.publish(2).id, elo0=0.0, elo1=100.0)
    )
    assert {lease.gate_id for lease in pairs_of(scene, entrant, stone, 4)} == {None}
    assert {lease.gate_id for lease in scene.rating_leases(4)} == {gate.id}


@ON_SQLITE
def test_its_own_matches_do_not_make_an_entrant_suspect(scene, stone, entrant):
    scene.publish(1)
    scene.client.close_period(ENVIRONMENT)
    for _ in range(4):
        play(scene, entrant, stone, 64, 0.0)
    scene.client.close_period(ENVIRONMENT)
    (listed,) = scene.client.workers(name="entry-stone").items
    assert listed.results == 256
    assert not listed.suspect
    assert {check.measure for check in listed.checks} <= {"refusals"}
