"""Leases: who is drawn, why, and for how long."""

import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result
from refused import refused

from arena.seeding import match_seed
from league import wire
from league.api.state import AppState
from league.db.engine import Database
from league.errors import InvalidRequestError
from league.services.matches import pair_records


def test_single_learner_plays_its_baselines_and_itself(scene: Scene, time: Any) -> None:
    leases = scene.lease(count=40, budget=3)
    opponents = Counter((lease.away if lease.learner_side == "home" else lease.home).checkpoint for lease in leases)
    assert set(opponents) == {None, "baseline:random"}
    assert opponents[None] == 14  # 35 %, drawn systematically
    for lease in leases:
        learner = lease.home if lease.learner_side == "home" else lease.away
        assert (learner.player_id, learner.checkpoint) == (scene.learner.player_id, None)
        assert (lease.kind, lease.budget) == ("training", 3)
        assert lease.expires_at == time.now + timedelta(seconds=360)
        assert 0 < (lease.propensity or 0) <= 1
        assert 0 <= match_seed(lease.seed, 2) < 2**63
    assert len({lease.seed for lease in leases}) == 40
    assert len({lease.lease_id for lease in leases}) == 40


def test_the_learner_s_side_alternates(scene: Scene) -> None:
    sides = [lease.learner_side for lease in scene.lease(count=10)]
    assert sides in (["home", "away"] * 5, ["away", "home"] * 5)


def test_rating_leases_come_in_swapped_pairs_of_frozen_players(scene: Scene) -> None:
    scene.publish(1)
    scene.publish(2)
    frozen = {player.id for player in scene.client.players(scene.environment).items if player.kind != "learner"}
    leases = scene.rating_leases(12)
    assert len(leases) == 12
    for one, other in zip(leases[::2], leases[1::2], strict=True):
        assert (one.home, one.away, one.seed) == (other.away, other.home, other.seed)
        assert {one.home.player_id, one.away.player_id} <= frozen
        assert one.learner_side is other.learner_side is None
        assert one.home.checkpoint
        assert one.away.checkpoint


def test_leases_are_written_as_the_wire_has_them(scene: Scene, http: TestClient) -> None:
    scene.publish(1)
    scene.publish(2)
    training = {"kind": "training", "worker_id": scene.trainer.id, "player_id": scene.learner.player_id}
    rating = {"kind": "rating", "worker_id": scene.evaluator.id, "environment": scene.environment}
    for request in (training, rating):
        text = http.post("/api/v1/leases", json=request | {"count": 2, "budget": 1}).text
        answer = wire.LeaseAnswer.model_validate_json(text)
        assert len(answer.items) == 2
        assert answer.model_dump_json() == text


def test_an_odd_number_of_rating_leases_is_made_even(scene: Scene) -> None:
    scene.publish(1)
    assert len(scene.rating_leases(3)) == 4


def test_baselines_are_never_paired(scene: Scene) -> None:
    duel = Scene(scene.client, "mech-duel", "duel-1")
    assert len(duel.client.players("mech-duel", kind="baseline").items) > 1
    assert duel.rating_leases(4) == []
    duel.publish(1)
    assert all(
        not (lease.home.checkpoint or "").startswith("baseline:") or not (lease.away.checkpoint or "").startswith("b")
        for lease in duel.rating_leases(8)
    )


@pytest.mark.parametrize("change", ["retire", "quarantine"])
def test_a_player_out_of_play_is_drawn_no_more_and_again_once_reinstated(scene: Scene, change: str) -> None:
    snapshot = scene.publish(1)

    def drawn() -> bool:
        leases = [*scene.lease(count=64), *scene.rating_leases(4)]
        return any(snapshot.id in (lease.home.player_id, lease.away.player_id) for lease in leases)

    assert drawn()
    getattr(scene.client, change)(snapshot.id, "test")
    assert not drawn()
    scene.client.reinstate(snapshot.id, "test")
    assert drawn()


def test_policies_of_different_signatures_are_never_paired(scene: Scene) -> None:
    other = Scene(scene.client, scene.environment, scene.signature)
    other.signature = "rps-2"
    other.learner = scene.client.register_learner(
        wire.LearnerCreate(name="newer", role="main", environment=scene.environment, signature="rps-2")
    )
    foreign = other.publish(9)
    own = scene.publish(9, content=10)
    met = {seat.player_id for lease in scene.lease(count=64) for seat in (lease.home, lease.away)}
    assert own.id in met
    assert foreign.id not in met
    rated = {seat.player_id for lease in scene.rating_leases(8) for seat in (lease.home, lease.away)}
    assert own.id in rated
    assert foreign.id not in rated


def test_lease_explains_its_draw(scene: Scene) -> None:
    snapshot = scene.publish(1)
    (lease,) = scene.opponent_leases(1, budget=2)
    scene.report(result(lease), result(lease, 1))
    told = scene.client.explain_lease(lease.lease_id)
    assert told.lease == lease
    assert (told.worker_id, told.environment, told.matches) == (scene.trainer.id, scene.environment, 2)
    assert told.state == "played"
    assert {branch.name: branch.share for branch in told.branches} == pytest.approx(
        {"self-play": 0.35, "warm-up": 0.65}
    )
    assert {each.name: each.removed for each in told.filters} == {
        "frozen": [scene.learner.player_id],
        "standing": [],
        "signature": [],
        "playable": [],
        "weights": [],
        "warm-up": [],
    }
    assert told.lease.reason == told.branches[["self-play", "warm-up"].index(lease.branch)].rule
    assert {item.player_id for item in told.items} == {snapshot.id, scene.baseline().id}
    assert sum(item.propensity or 0 for item in told.items) == pytest.approx(0.65)
    opponent = lease.away if lease.learner_side == "home" else lease.home
    (drawn,) = [item for item in told.items if item.player_id == opponent.player_id]
    assert drawn.propensity == pytest.approx(lease.propensity, abs=1e-6)


def test_lease_without_self_play_draws_other_opponents_only(scene: Scene) -> None:
    for step in range(2):
        scene.publish(step)
    with_self = {item.player_id: item.propensity for item in scene.client.preview(scene.learner.player_id).items}
    leases = scene.lease(count=200, self_play=False)
    assert "self-play" not in {lease.branch for lease in leases}
    for lease in leases:
        opponent = lease.away if lease.learner_side == "home" else lease.home
        assert opponent.player_id != scene.learner.player_id
        assert lease.propensity == pytest.approx((with_self[opponent.player_id] or 0) / 0.65, abs=1e-5)
    told = scene.client.explain_lease(leases[0].lease_id)
    assert {branch.name: branch.share for branch in told.branches} == pytest.approx({"self-play": 0.0, "warm-up": 1.0})
    (asked,) = [each for each in told.filters if each.name == "self-play"]
    assert asked.removed == [scene.learner.player_id]
    assert sum(item.propensity or 0 for item in told.items) == pytest.approx(1.0, abs=1e-5)


def test_a_rating_lease_explains_its_pairing(scene: Scene) -> None:
    snapshot = scene.publish(1)
    lease = scene.rating_leases(2)[0]
    told = scene.client.explain_lease(lease.lease_id)
    assert told.branch == "thompson"
    assert told.propensity is None
    assert "Thompson" in lease.reason
    assert all(item.weights == {} for item in told.items)
    assert {item.player_id for item in told.items} == {snapshot.id, scene.baseline().id}


def test_preview_shows_the_distribution_that_leases_use(scene: Scene) -> None:
    for step in range(3):
        scene.publish(step)
    preview = scene.client.preview(scene.learner.player_id)
    assert preview.self_play + sum(item.propensity or 0 for item in preview.items) == pytest.approx(1.0)
    chance = {item.player_id: item.propensity for item in preview.items}
    for lease in scene.opponent_leases(10):
        opponent = lease.away if lease.learner_side == "home" else lease.home
        assert lease.propensity == pytest.approx(chance[opponent.player_id], abs=1e-6)


def test_warm_learner_prefers_opponents_that_beat_it(scene: Scene) -> None:
    beaten, unbeaten = scene.publish(1), scene.publish(2)
    for _ in range(4):
        for lease in scene.opponent_leases(16):
            opponent = lease.away if lease.learner_side == "home" else lease.home
            wins = opponent.player_id == beaten.id
            scene.report(result(lease, score=float(wins == (lease.learner_side == "home"))))
    scene.client.close_period()
    preview = scene.client.preview(scene.learner.player_id)
    chance = {item.player_id: item.propensity or 0 for item in preview.items}
    assert [branch.name for branch in preview.branches] == ["self-play", "pfsp"]
    assert chance[unbeaten.id] > 2 * chance[beaten.id]
    rates = [item.win_rate or 0.0 for item in preview.items]
    assert [round(rate, 4) for rate in rates] != rates  # enough digits to compute the weights again


def test_released_leases_are_counted_once_and_only_the_worker_s_own(scene: Scene) -> None:
    leases = scene.lease(count=3)
    ids = [lease.lease_id for lease in leases]
    stranger = scene.worker("trainer-2", "trainer")
    assert scene.client.release(wire.ReleaseRequest(worker_id=stranger.id, lease_ids=ids)).released == 0
    request = wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[*ids[:2], "unknown"])
    assert scene.client.release(request).released == 2
    assert scene.client.release(request).released == 0
    assert scene.client.explain_lease(ids[0]).released_at is not None
    assert scene.client.explain_lease(ids[2]).released_at is None


@ON_SQLITE
def test_the_budget_is_capped_by_the_server(scene: Scene) -> None:
    assert scene.lease(budget=10**9)[0].budget == 1000


@ON_SQLITE
def test_unknown_worker_player_and_lease_are_named(scene: Scene, http: TestClient) -> None:
    request = {"kind": "training", "worker_id": scene.trainer.id, "player_id": 999, "count": 1, "budget": 1}
    with refused("unknown-player", 999):
        scene.client.lease(wire.TrainingLeases.model_validate(request))
    with refused("unknown-worker", "nobody"):
        scene.client.lease(wire.TrainingLeases.model_validate(request | {"worker_id": "nobody"}))
    with refused("invalid-request", "player_id"):
        scene.client.lease(wire.TrainingLeases.model_validate(request | {"player_id": scene.baseline().id}))
    with refused("unknown-lease", "nothing"):
        scene.client.explain_lease("nothing")
    answer = http.post("/api/v1/leases", json=request | {"kind": "sparring"})
    assert answer.json()["type"] == InvalidRequestError.type
    assert "sparring" in answer.json()["detail"]


@ON_SQLITE
def test_environment_without_players_has_no_rating_leases(scene: Scene) -> None:
    request = wire.RatingLeases(kind="rating", worker_id=scene.evaluator.id, environment="chess", count=2, budget=1)
    answer = scene.client.lease(request)
    assert answer.items == []
    assert answer.next_poll_s > 0


def test_rating_leases_prefer_pairs_that_have_not_met(scene: Scene, database: Database) -> None:
    one, other, third, fourth = (scene.publish(step) for step in range(4))
    old = [(one.id, other.id), (third.id, fourth.id)]
    counts = dict.fromkeys(("games", "points", "wins", "draws", "losses"), 200.0)
    rows = [counts | {"low_id": low, "high_id": high, "matches": 200} for low, high in old]
    with database.write() as session:
        pair_records.write(session, [row | {"environment": scene.environment} for row in rows])
    scene.client.retire(one.id)  # a change of standing is a new version of the population
    scene.client.reinstate(one.id)
    pairs = {
        tuple(sorted((lease.home.player_id, lease.away.player_id)))
        for _ in range(10)
        for lease in scene.rating_leases(4)
    }
    assert len(pairs) > 1
    assert not pairs & set(old)


@ON_SQLITE
def test_one_lease_request_enters_at_most_twelve_files_of_the_services(scene: Scene, http: TestClient) -> None:
    scene.publish(1)
    league: AppState = http.app.state.league  # type: ignore[attr-defined]
    request = wire.TrainingLeases(
        kind="training", worker_id=scene.trainer.id, player_id=scene.learner.player_id, count=4, budget=1
    )
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/league/services/" in frame.f_code.co_filename:
            entered.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        league.leases.grant(request, datetime.now(UTC), league.rng)
    finally:
        sys.setprofile(None)
    assert any(name.endswith("pfsp.py") for name in entered)
    assert len(entered) <= 12
