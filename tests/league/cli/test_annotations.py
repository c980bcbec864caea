"""`league player annotate` and `league players --tag`."""

from league_command import Run
from league_scene import Scene


def test_tags_are_added_removed_and_searched(online: Run, scene: Scene) -> None:
    online("player", "annotate", "main", "--tag", "b", "--tag", "a", "--note", "figure 3")
    assert "a, b" in online("player", "annotate", "main").out
    printed = online("show", "main").out
    assert "a, b" in printed
    assert "figure 3" in printed
    assert "b" in online("player", "annotate", "main", "--remove", "a", "--note", "").out
    learner = scene.client.player(scene.learner.player_id)
    assert (learner.tags, learner.note) == (["b"], None)
    assert "main" in online("players", "--tag", "b").out
    assert "main" not in online("players", "--tag", "a").out
