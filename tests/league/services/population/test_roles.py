"""Roles: whom they meet, when the server has their learners leave snapshots, and what follows of beginning anew."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from league_scene import ON_SQLITE, Scene, result, safetensors, seen_from_home, sha256
from refused import assert_names, refused
from sqlalchemy import select, text

from arena.matchmaking import MatchmakingConfig
from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.db.models import SnapshotDecision
from league.services.population import snapshot_schedule


def found(scene: Scene, name: str, role: wire.Role, **numbers: Any) -> wire.Learner:
    """Register a learner with a role and numbers of its own."""
    request = wire.LearnerCreate(
        name=name,
        role=role,
        environment=scene.environment,
        signature=scene.signature,
        rules=wire.RoleNumbers(**{"snapshot_steps": 100, "snapshot_limit": 200, **numbers}),
    )
    return scene.client.register_learner(request)


def ask(scene: Scene, learner: wire.Learner, step: int, since_step: int = 0) -> wire.SnapshotDecision | None:
    """Ask whether a snapshot is due."""
    progress = wire.LearnerProgress(learner_id=learner.id, step=step, since_step=since_step)
    decided = scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress])).decisions
    assert len(decided) <= 1
    return decided[0] if decided else None


def publish(scene: Scene, learner: wire.Learner, step: int, since_step: int | None = None) -> wire.Player:
    data = safetensors(1000 * learner.id + step, signature=scene.signature)
    scene.client.upload(data, sha256(data))
    request = wire.PlayerCreate(learner_id=learner.id, checkpoint=sha256(data), step=step, since_step=since_step)
    return scene.client.publish(request)


def play(scene: Scene, learner: wire.Learner, score: float, matches: int = 20, step: int = 7) -> None:
    """Play matches of a learner that end alike, and rate them."""
    request = wire.TrainingLeases(
        kind="training", worker_id=scene.trainer.id, player_id=learner.player_id, count=matches, budget=1
    )
    leases = [lease for lease in scene.client.lease(request).items if lease.branch != "self-play"]
    scene.report(*(result(lease, score=seen_from_home(lease, score), learner_step=step) for lease in leases))
    scene.client.close_period()


def chances(scene: Scene, learner: wire.Learner) -> dict[str, float | None]:
    """Whom a learner meets, by name."""
    items = scene.client.preview(learner.player_id).items
    return {item.name: item.propensity for item in items if item.propensity}


# --- whom ------------------------------------------------------------------------------------------------------------


@pytest.mark.holds("J6")
def test_main_exploiter_plays_current_mains(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    assert scene.client.preview(exploiter.player_id).self_play == 1.0
    for step in (1, 2):
        scene.publish(step)
    other = found(scene, "other", "main")
    publish(scene, other, 5)
    assert chances(scene, exploiter) == {"main@2": 0.5, "other@5": 0.5}
    preview = scene.client.preview(exploiter.player_id)
    assert preview.self_play == 0.0
    assert [branch.name for branch in preview.branches] == ["self-play", "mains"]
    removed = {each.name: each.removed for each in preview.filters}["mains"]
    assert len(removed) == 2  # the baseline, and the older snapshot
    scene.client.retire(scene.client.players(scene.environment, kind="snapshot").items[1].id)
    assert chances(scene, exploiter) == {"main@1": 0.5, "other@5": 0.5}


def test_main_exploiter_plays_snapshots_of_a_main_that_is_too_strong(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    for step in (1, 2):
        scene.publish(step)
    play(scene, exploiter, score=0.0, matches=100)
    assert chances(scene, exploiter).keys() == {"main@1", "main@2"}


def test_league_exploiter_plays_all_frozen_players_but_not_itself(scene: Scene) -> None:
    exploiter = found(scene, "sweeper", "league_exploiter")
    scene.publish(1)
    publish(scene, exploiter, 3)
    play(scene, exploiter, score=0.5)
    preview = scene.client.preview(exploiter.player_id)
    assert [(branch.name, branch.share) for branch in preview.branches] == [("self-play", 0.0), ("pfsp", 1.0)]
    assert preview.branches[1].rule.startswith("min(0.5, 1 - win rate)")
    assert chances(scene, exploiter).keys() == {"random", "main@1", "sweeper@3"}


def test_main_plays_exploiters_that_beat_it_more_often(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    publish(scene, exploiter, 1)
    play(scene, scene.learner, score=0.0, matches=60)
    branches = {branch.name: branch for branch in scene.client.preview(scene.learner.player_id).branches}
    assert branches["verification"].share == pytest.approx(0.15)
    assert branches["verification"].opponents == 1
    without = [lease.branch for lease in scene.lease(40, self_play=False)]
    assert set(without) == {"pfsp", "verification"}


@ON_SQLITE
def test_a_learner_s_own_numbers_shape_its_draws(scene: Scene) -> None:
    plain = found(scene, "plain", "league_exploiter")
    own = found(scene, "own", "league_exploiter", weighting="uniform", uniform_share=0.0)
    scene.publish(1)
    for learner in (plain, own):
        play(scene, learner, score=1.0)
    assert set(chances(scene, own).values()) == {0.5}
    assert scene.client.preview(own.player_id).branches[1].rule == "equal for all players"
    assert scene.client.preview(plain.player_id).branches[1].rule.startswith("min(0.5")


@ON_SQLITE
def test_balanced_main_plays_an_exploiter_as_often_as_its_own_snapshots(scene: Scene) -> None:
    main = found(scene, "calm", "main", balance="learners", weighting="uniform", verification_share=0.0)
    assert main.rules["balance"] == "learners"
    exploiter = found(scene, "finder", "main_exploiter")
    for step in range(1, 9):
        publish(scene, main, step)
    publish(scene, exploiter, 1)
    play(scene, main, score=0.5, matches=40)
    branch = scene.client.preview(main.player_id).branches[1]
    assert_names(branch.rule, "5%")
    told = {each.group: (each.players, each.share) for each in branch.groups}
    assert told["snapshots of mains"] == (8, pytest.approx(1 / 3))
    assert told["snapshots of exploiters"] == (1, pytest.approx(1 / 3))
    assert told["baselines"] == (1, pytest.approx(1 / 3))


@ON_SQLITE
def test_many_learners_of_a_role_are_mains_alike(scene: Scene) -> None:
    mains = [found(scene, f"main-{number}", "main") for number in range(20)]
    for main in mains:
        publish(scene, main, 1)
    exploiters = [found(scene, f"finder-{number}", "main_exploiter") for number in range(3)]
    for exploiter in exploiters:
        drawn = chances(scene, exploiter)
        assert drawn == pytest.approx({f"main-{number}@1": 0.05 for number in range(20)})


@ON_SQLITE
def test_role_numbers_conflicting_with_new_defaults_are_replaced(
    scene: Scene, serve: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stubborn = found(scene, "stubborn", "main", verification_share=0.5)
    plain = found(scene, "plain", "main")
    assert "failed rule" not in {each.name for each in scene.client.preview(stubborn.player_id).filters}
    changed = LeagueClient(http=serve(matchmaking=MatchmakingConfig(self_play_share=0.6)))
    lease = wire.TrainingLeases(
        kind="training", worker_id=scene.trainer.id, player_id=stubborn.player_id, count=1, budget=1
    )
    (granted,) = changed.lease(lease).items
    told = changed.explain_lease(granted.lease_id)
    (failed,) = (each for each in told.filters if each.name == "failed rule")
    assert failed.rule.startswith("self_play_share is 0.6 and verification_share 0.5: ")
    assert failed.rule.endswith("; using the settings of a main instead")
    assert told.branches == changed.preview(plain.player_id).branches
    followed = {learner.name: learner.rules for learner in changed.learners().items}
    assert followed["stubborn"] == followed["plain"]
    assert followed["stubborn"]["snapshot_steps"] == 100
    (logged,) = {record.getMessage() for record in caplog.records if record.levelname == "ERROR"}
    assert logged.startswith("learner stubborn: self_play_share is 0.6")


@ON_SQLITE
@pytest.mark.parametrize("self_play_share", [0.9, 1.0])
def test_a_league_may_leave_mains_less_than_their_usual_share_of_weaknesses(serve: Any, self_play_share: float) -> None:
    scene = Scene(LeagueClient(http=serve(matchmaking=MatchmakingConfig(self_play_share=self_play_share))))
    assert scene.learner.rules["verification_share"] == pytest.approx(1.0 - self_play_share)
    assert len(scene.lease(4)) == 4


# --- when ------------------------------------------------------------------------------------------------------------


def test_snapshot_is_due_at_the_step_limit(scene: Scene) -> None:
    learner = found(scene, "second", "main")
    assert ask(scene, learner, 199) is None
    due = ask(scene, learner, 200)
    assert due is not None
    assert (due.learner_id, due.since_step, due.reset, due.start) == (learner.id, 0, False, None)
    assert_names(due.reason, 200, 1)


def test_snapshot_is_due_earlier_once_the_learner_beats_all_opponents(scene: Scene) -> None:
    learner = found(scene, "second", "main")
    play(scene, learner, score=1.0, matches=60)
    assert ask(scene, learner, 99) is None
    due = ask(scene, learner, 100)
    assert due is not None
    assert_names(due.reason, "70%", 1)


def test_snapshot_decision_is_repeatable_and_logged_with_its_evidence(scene: Scene, database: Database) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    main = scene.publish(1)
    play(scene, exploiter, score=1.0, matches=60)
    due = ask(scene, exploiter, 150)
    assert due is not None
    assert due.reset
    play(scene, exploiter, score=0.0, matches=60)
    assert ask(scene, exploiter, 180) == due
    assert ask(scene, exploiter, 149) is None  # a run that was killed, and goes on before it asked
    (event,) = scene.client.events(kind=snapshot_schedule.KIND).items
    assert (event.actor, event.reason, event.player_id) == ("rule", due.reason, exploiter.player_id)
    told = event.details["opponents"]
    place = told["player_id"].index(main.id)
    assert told["win_rate"][place] > 0.7
    assert (told["main"][place], told["matches"][place]) == (True, 60)
    assert {name: event.details[name] for name in ("learner", "role", "step", "since_step", "reset", "start")} == {
        "learner": "finder",
        "role": "main_exploiter",
        "step": 150,
        "since_step": 0,
        "reset": True,
        "start": None,
    }
    with database.read() as session:
        assert snapshot_schedule.inconsistent(session, scene.environment) == []


def test_an_exploiter_that_beats_a_main_is_due_though_that_has_just_left_another_snapshot(
    scene: Scene, database: Database
) -> None:
    """Nobody has met the newest one yet: what counts is how the main played of late."""
    exploiter = found(scene, "finder", "main_exploiter")
    scene.publish(1)
    play(scene, exploiter, score=1.0, matches=60)
    main = scene.publish(2)
    assert chances(scene, exploiter) == {"main@2": 1.0}
    due = ask(scene, exploiter, 150)
    assert due is not None
    assert_names(due.reason, "70%", 1)
    (event,) = scene.client.events(kind=snapshot_schedule.KIND).items
    told = event.details["opponents"]
    place = told["player_id"].index(main.id)
    assert (told["matches"][place], told["recent_win_rate"][place] > 0.9) == (0, True)
    with database.read() as session:
        assert snapshot_schedule.inconsistent(session, scene.environment) == []


def test_a_decision_that_its_evidence_does_not_lead_to_is_found(scene: Scene, database: Database) -> None:
    learner = found(scene, "second", "main")
    assert ask(scene, learner, 200) is not None
    with database.write() as session:
        session.execute(text("UPDATE snapshot_decisions SET reset = true"))
    with database.read() as session:
        (event_id,) = session.scalars(select(SnapshotDecision.event_id))
        assert snapshot_schedule.inconsistent(session, scene.environment) == [event_id]


@pytest.mark.holds("J6")
def test_the_same_payoffs_make_the_same_decision_in_another_league(
    scene: Scene, serve: Any, configure: Any, tmp_path: Any, twin_database_url: str
) -> None:
    twin = Scene(LeagueClient(http=serve(database_url=twin_database_url, home=tmp_path / "twin")))
    resets = []
    for each in (scene, twin):
        learner = found(each, "sweeper", "league_exploiter")
        told = [ask(each, learner, 200 * (number + 1), 200 * number) for number in range(40)]
        resets.append([due is not None and due.reset for due in told])
    assert resets[0] == resets[1]
    assert 2 <= sum(resets[0]) <= 20  # a quarter of 40; so far from it by chance once in 3,000


def test_of_two_that_ask_at_once_one_decides(scene: Scene) -> None:
    learner = found(scene, "second", "main")
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: ask(scene, learner, 200), range(8)))
    assert told[0] is not None
    assert told == 8 * told[:1]
    assert len(scene.client.events(kind=snapshot_schedule.KIND).items) == 1


def test_a_learner_that_does_not_exist_is_named(scene: Scene) -> None:
    progress = wire.LearnerProgress(learner_id=99, step=1, since_step=0)
    with refused("unknown-learner", 99):
        scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


@ON_SQLITE
def test_only_the_owner_may_request_a_snapshot_decision(scene: Scene, connect: Any) -> None:
    mine, yours = connect("worker", "mine"), connect("worker", "yours")
    own = Scene(mine, environment="recall", signature="recall-1")
    other = yours.register_worker(wire.WorkerCreate(name="w", kind="trainer", version="1", signatures=["recall-1"]))
    progress = wire.LearnerProgress(learner_id=own.learner.id, step=10**7, since_step=0)
    with pytest.raises(Exception, match="belongs to token 'mine'"):
        yours.heartbeat(other.id, wire.Heartbeat(learners=[progress]))
    assert mine.events(kind=snapshot_schedule.KIND).items == []


# --- beginning anew --------------------------------------------------------------------------------------------------


def test_win_rates_of_a_reset_learner_count_matches_since_the_reset(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    scene.publish(1)
    play(scene, exploiter, score=1.0, matches=50)
    assert (exploiter.resets, exploiter.began_step) == (0, 0)
    due = ask(scene, exploiter, 150)
    assert due is not None
    assert due.reset
    assert win_rate(scene, exploiter) > 0.9
    left = publish(scene, exploiter, 150, since_step=0)
    again = found(scene, "finder", "main_exploiter")
    assert (again.resets, again.began_step) == (1, 150)
    assert win_rate(scene, exploiter) == 0.5
    play(scene, exploiter, score=1.0, matches=30, step=149)  # still on its way when it began anew
    assert win_rate(scene, exploiter) == 0.5
    assert ask(scene, exploiter, 250, since_step=150) is None
    play(scene, exploiter, score=1.0, matches=30, step=150)
    assert win_rate(scene, exploiter) > 0.7
    next_one = ask(scene, exploiter, 260, since_step=150)
    assert next_one is not None
    first, second = left, publish(scene, exploiter, 260, since_step=150)
    assert first.deviation < 150.0 <= second.deviation
    assert [found(scene, "finder", "main_exploiter").resets, second.parent_id] == [2, first.id]


def win_rate(scene: Scene, exploiter: wire.Learner) -> float:
    """The estimated win rate against the newest main."""
    (rate,) = [
        item.win_rate for item in scene.client.preview(exploiter.player_id).items if item.name.startswith("main@")
    ]
    assert rate is not None
    return rate


def test_publishing_a_snapshot_twice_resets_the_learner_once(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    assert ask(scene, exploiter, 200) is not None
    assert publish(scene, exploiter, 200, since_step=0) == publish(scene, exploiter, 200, since_step=0)
    publish(scene, exploiter, 300, since_step=0)
    known = found(scene, "finder", "main_exploiter")
    assert (known.resets, known.began_step) == (1, 200)


def test_a_snapshot_that_no_decision_asked_for_begins_nothing(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter")
    assert ask(scene, exploiter, 200) is not None
    publish(scene, exploiter, 200)
    publish(scene, exploiter, 400, since_step=200)  # of a league that forgot the decision
    assert found(scene, "finder", "main_exploiter").resets == 0


def test_learner_may_be_reset_to_the_weights_of_a_main(scene: Scene) -> None:
    exploiter = found(scene, "finder", "main_exploiter", start="main")
    nobody = ask(scene, exploiter, 200)
    assert nobody is not None
    assert (nobody.reset, nobody.start) == (True, None)
    scene.publish(1)
    newest = scene.publish(2)
    due = ask(scene, exploiter, 400, since_step=200)
    assert due is not None
    assert due.start == newest.checkpoint


# --- numbers ---------------------------------------------------------------------------------------------------------


def test_learner_numbers_are_stored_shown_and_logged(scene: Scene) -> None:
    learner = found(scene, "second", "main", reset=0.5)
    assert {name: learner.rules[name] for name in ("snapshot_limit", "reset", "power", "live_above")} == {
        "snapshot_limit": 200,
        "reset": 0.5,
        "power": 2.0,
        "live_above": 0.3,
    }
    plain = wire.LearnerCreate(name="second", role="main", environment=scene.environment, signature=scene.signature)
    assert scene.client.register_learner(plain).rules == learner.rules
    changed = found(scene, "second", "main", power=3.0)
    assert (changed.rules["reset"], changed.rules["power"]) == (0.0, 3.0)
    assert [listed.rules for listed in scene.client.learners().items if listed.name == "second"] == [changed.rules]
    found(scene, "second", "main", power=3.0)
    changes = [(event.details["from"], event.details["to"]) for event in scene.client.events(kind="rules").items]
    first = {"snapshot_steps": 100, "snapshot_limit": 200, "reset": 0.5}
    second = {"snapshot_steps": 100, "snapshot_limit": 200, "power": 3.0}
    assert changes == [(first, second), ({}, first)]


@ON_SQLITE
@pytest.mark.parametrize(
    ("role", "numbers", "values"),
    [
        ("main_exploiter", {"weighting": "hard"}, ("main_exploiter",)),
        ("main", {"reset": 1.5}, ("reset", 1.5, "[0, 1]")),
        ("main", {"snapshot_steps": 300}, ("snapshot_steps", 300, "snapshot_limit", 200)),
        ("league_exploiter", {"weighting": "soft"}, ("weighting", "soft")),
    ],
)
def test_numbers_that_make_no_sense_found_no_learner(
    scene: Scene, role: wire.Role, numbers: dict[str, Any], values: tuple[object, ...]
) -> None:
    with refused("invalid-request", *values):
        found(scene, "odd", role, **numbers)
    assert [learner.name for learner in scene.client.learners().items] == ["main"]


@ON_SQLITE
def test_an_unknown_role_is_refused_and_a_known_learner_keeps_its_own(scene: Scene, http: Any) -> None:
    body = {"name": "odd", "role": "master", "environment": scene.environment, "signature": scene.signature}
    answer = http.post("/api/v1/learners", json=body)
    assert answer.status_code == 422
    assert "main_exploiter" in answer.text
    with refused("learner-mismatch", "role=main"):
        found(scene, "main", "league_exploiter")
