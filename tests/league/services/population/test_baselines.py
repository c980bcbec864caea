"""Scripted players that a game brings of which the league knows nothing."""

import pytest
from league_scene import Scene
from refused import refused

from league import wire

GAME = "mypackage.mygame:make"


def asked(name: str, *baselines: tuple[str, float], environment: str = GAME) -> wire.LearnerCreate:
    brought = tuple(wire.BaselineCreate(name=baseline, rating=rating) for baseline, rating in baselines)
    return wire.LearnerCreate(name=name, role="main", environment=environment, signature="1", baselines=brought)


def anchors(scene: Scene, environment: str = GAME) -> dict[str, tuple[str | None, float]]:
    players = scene.client.players(environment=environment, kind="baseline").items
    return {player.name: (player.checkpoint, player.rating) for player in players}


def test_baseline_ratings_stay_fixed(scene: Scene) -> None:
    scene.client.register_learner(asked("main", ("sprinter", 1600.0), ("walker", 1400.5)))
    assert anchors(scene) == {
        "random": ("baseline:random", 1500.0),
        "sprinter": ("baseline:sprinter", 1600.0),
        "walker": ("baseline:walker", 1400.5),
    }
    scene.client.register_learner(asked("other", ("sprinter", 900.0)))
    assert anchors(scene)["sprinter"][1] == 1600.0, "who came first is held where it was"
    scene.client.register_learner(asked("third"))
    assert len(anchors(scene)) == 3
    with refused("name-taken", GAME):
        scene.client.register_learner(asked("walker"))


def test_of_a_game_that_the_league_knows_they_are_refused(scene: Scene) -> None:
    with refused("invalid-request", "rps"):
        scene.client.register_learner(asked("newer", ("sprinter", 1600.0), environment="rps"))
    assert [*anchors(scene, "rps")] == ["random"]


@pytest.mark.parametrize("names", [("random",), ("sprinter", "sprinter")])
def test_they_have_names_of_their_own(scene: Scene, names: tuple[str, ...]) -> None:
    with refused("invalid-request", names[-1]):
        scene.client.register_learner(asked("main", *((name, 1600.0) for name in names)))
    with refused("name-taken", GAME):
        scene.client.register_learner(asked("sprinter", ("sprinter", 1600.0)))
