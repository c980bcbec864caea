"""Runs: stored once per process, linked to their snapshots, listed and compared."""

import pytest
from league_scene import Scene

from league import wire
from league.errors import InvalidRequestError, UnknownLearnerError, UnknownRunError

KEY = "0123456789abcdef" * 2


def run_of(scene: Scene, key: str = KEY, **values: object) -> wire.RunCreate:
    return wire.RunCreate.model_validate({"learner_id": scene.learner.id, "key": key, **values})


def test_a_run_is_stored_once(scene: Scene) -> None:
    request = run_of(scene, seed=2**63 - 1, step=64, settings={"ppo": {"lr": 0.001}}, origin={"command": ["a", "b"]})
    first, again = scene.client.start_run(request), scene.client.start_run(request)
    assert first == again == scene.client.show_run(first.id)
    assert (first.learner, first.environment, first.seed, first.step) == (
        scene.learner.name,
        scene.environment,
        2**63 - 1,
        64,
    )
    assert first.settings == {"ppo": {"lr": 0.001}}
    assert first.origin == {"command": ["a", "b"]}


def test_runs_are_listed_newest_first(scene: Scene) -> None:
    ids = [scene.client.start_run(run_of(scene, f"{number:032x}")).id for number in range(3)]
    first = scene.client.runs(scene.environment, limit=2)
    assert [each.id for each in first.items] == [ids[2], ids[1]]
    assert [each.id for each in scene.client.runs(cursor=first.next_cursor).items] == [ids[0]]
    assert scene.client.runs(learner_id=scene.learner.id + 1).items == []


def test_a_snapshot_has_its_run(scene: Scene) -> None:
    run = scene.client.start_run(run_of(scene))
    assert scene.publish(1).run_id is None
    assert scene.publish(2, run_id=run.id).run_id == run.id
    assert scene.client.show_run(run.id).snapshots == 1


def test_a_snapshot_cannot_have_a_run_of_another_learner(scene: Scene) -> None:
    other = scene.client.register_learner(
        wire.LearnerCreate(name="other", role="main", environment=scene.environment, signature=scene.signature)
    )
    run = scene.client.start_run(wire.RunCreate(learner_id=other.id, key=KEY))
    with pytest.raises(InvalidRequestError) as caught:
        scene.publish(1, run_id=run.id)
    assert caught.value.value == f"run_id={run.id}"
    with pytest.raises(UnknownRunError):
        scene.publish(1, run_id=run.id + 1)


def test_unknown_learner_and_run_are_rejected(scene: Scene) -> None:
    with pytest.raises(UnknownLearnerError):
        scene.client.start_run(run_of(scene, learner_id=999))
    with pytest.raises(UnknownRunError):
        scene.client.show_run(999)


def test_the_difference_of_two_runs_names_each_value_by_its_path(scene: Scene) -> None:
    same = {"command": ["train.py"]}
    one = scene.client.start_run(
        run_of(scene, seed=1, settings={"ppo": {"lr": 0.1, "epochs": 4}, "x": {}}, origin=same)
    )
    changed = {"ppo": {"lr": 0.2, "epochs": 4, "clip": None}, "x": {}}
    two = scene.client.start_run(run_of(scene, "f" * 32, seed=2, settings=changed, origin=same))
    found = {each.name: (each.first, each.second) for each in scene.client.compare_runs(one.id, two.id).differences}
    assert found == {"seed": (1, 2), "settings.ppo.lr": (0.1, 0.2)}
