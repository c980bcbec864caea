"""The account of a draw: who was left out by which rule, how the others were weighed, and upon whom weight falls."""

from typing import Any

import pytest
from league_scene import Scene, result, seen_from_home
from sqlalchemy import text

from league import wire
from league.db.engine import Database
from league.services.matchmaking import explanations
from league.services.matchmaking.explanations import DistributionRecord


def removed(account: wire.DrawAccount) -> dict[str, list[int]]:
    return {each.name: each.removed for each in account.filters}


def groups(branch: wire.DrawBranch) -> dict[str, tuple[int, float | None]]:
    return {each.group: (each.players, each.share) for each in branch.groups}


def warm(scene: Scene) -> None:
    """Play the learner out of warm-up; it beats everybody every other time."""
    for number in range(2):
        leases = scene.opponent_leases(16)
        scores = [seen_from_home(lease, float((place + number) % 2)) for place, lease in enumerate(leases)]
        scene.report(*(result(lease, score=score) for lease, score in zip(leases, scores, strict=True)))
    scene.client.close_period()


def test_every_filter_lists_the_players_it_removed(scene: Scene) -> None:
    playing, retired, quarantined = (scene.publish(step) for step in range(3))
    scene.client.retire(retired.id)
    scene.client.quarantine(quarantined.id)
    rival = scene.client.register_learner(
        wire.LearnerCreate(name="rival", role="main", environment=scene.environment, signature="rps-2")
    )
    newer = [player for player in scene.client.players(scene.environment).items if player.signature == "rps-2"]
    preview = scene.client.preview(scene.learner.player_id)
    assert removed(preview) == {
        "frozen": [scene.learner.player_id, rival.player_id],
        "standing": [retired.id, quarantined.id],
        "signature": [player.id for player in newer if player.kind == "baseline"],
        "playable": [],
        "weights": [],
        "warm-up": [],
    }
    assert {item.player_id for item in preview.items} == {scene.baseline().id, playing.id}


def test_warm_up_filter_lists_players_outside_the_rating_window(scene: Scene, database: Database) -> None:
    near, far = scene.publish(1), scene.publish(2)
    with database.write() as session:
        session.execute(text("UPDATE players SET start_rating = 2500 WHERE id = :id"), {"id": far.id})
    scene.client.retire(near.id)  # a change of standing is a new version of the population
    scene.client.reinstate(near.id)
    preview = scene.client.preview(scene.learner.player_id)
    assert removed(preview)["warm-up"] == [far.id]
    (chance,) = [item for item in preview.items if item.player_id == far.id]
    assert (chance.propensity, chance.weights) == (0.0, {"warm-up": 0.0})
    assert preview.branches[1].opponents == 2


def test_weights_times_shares_are_the_propensities(scene: Scene) -> None:
    for step in range(4):
        scene.publish(step)
    warm(scene)
    preview = scene.client.preview(scene.learner.player_id)
    shares = {branch.name: branch.share for branch in preview.branches}
    assert {"self-play", "pfsp"} <= shares.keys() <= {"self-play", "pfsp", "verification"}
    for item in preview.items:
        of_branches = [shares[branch] * weight for branch, weight in item.weights.items()]
        assert item.propensity == pytest.approx(sum(of_branches), abs=1e-7)
    assert sum(item.weights["pfsp"] for item in preview.items) == pytest.approx(1.0)
    assert "(1 - win rate)^2" in preview.branches[1].rule
    assert sum(item.games for item in preview.items) == 32


def test_branch_shows_its_weight_per_group_of_opponents(scene: Scene) -> None:
    snapshots = [scene.publish(step) for step in range(4)]
    scene.client.promote(snapshots[3].id)
    preview = scene.client.preview(scene.learner.player_id)
    branch = preview.branches[1]
    weights = {item.player_id: item.weights[branch.name] for item in preview.items}
    told = groups(branch)
    assert {group: players for group, (players, _) in told.items()} == {
        "baselines": 1,
        "commanders": 1,
        "candidates": 3,
        "snapshots of mains": 4,
        "snapshots of exploiters": 0,
        "older half of the snapshots": 2,
    }
    assert told["baselines"][1] == pytest.approx(weights[scene.baseline().id])
    assert told["commanders"][1] == pytest.approx(weights[snapshots[3].id])
    assert told["older half of the snapshots"][1] == pytest.approx(sum(weights[each.id] for each in snapshots[:2]))
    assert 1.0 < (branch.effective_opponents or 0) <= branch.opponents == 5


def test_learner_without_opponents_falls_back_to_self_play(scene: Scene, database: Database) -> None:
    with database.write() as session:
        session.execute(text("UPDATE players SET signature = 'gone' WHERE kind = 'baseline'"))
    (lease,) = scene.lease(1, self_play=False)
    assert lease.branch == "self-play"
    told = scene.client.explain_lease(lease.lease_id)
    assert [(branch.name, branch.share) for branch in told.branches] == [("self-play", 1.0)]
    assert told.items == []


def test_leases_of_one_version_share_one_account(scene: Scene, database: Database, time: Any) -> None:
    scene.publish(1)
    before = {scene.lease(2)[0].lease_id, scene.lease(2)[0].lease_id}
    scene.publish(2)
    after = scene.lease(2)[0].lease_id
    with database.read() as session:
        draw_of = dict(session.execute(text("SELECT id, draw_id FROM leases")).all())
        assert len({draw_of[lease] for lease in before}) == 1
        assert draw_of[after] not in {draw_of[lease] for lease in before}
        account = explanations.load(session, draw_of[after])
    assert DistributionRecord.of(account.content).id == account.id
