"""Tags and notes: replaced, searched, logged, and written only by the owner."""

from collections.abc import Callable

import pytest
from league_scene import Scene
from pydantic import ValidationError

from league.client import LeagueClient
from league.errors import ForbiddenError, UnknownPlayerError


def test_tags_and_note_are_replaced_separately(scene: Scene) -> None:
    player = scene.publish(1)
    assert (player.tags, player.note) == ([], None)
    tagged = scene.client.annotate(player.id, ["paper", "best", "paper"])
    assert (tagged.tags, tagged.note) == (["best", "paper"], None)
    noted = scene.client.annotate(player.id, note="figure 3")
    assert (noted.tags, noted.note) == (["best", "paper"], "figure 3")
    assert scene.client.player(player.id).note == "figure 3"
    cleared = scene.client.annotate(player.id, [], "")
    assert (cleared.tags, cleared.note) == ([], None)


def test_players_are_found_by_tag(scene: Scene) -> None:
    first, second = scene.publish(1), scene.publish(2)
    scene.client.annotate(first.id, ["Paper 1"])
    scene.client.annotate(scene.learner.player_id, ["baseline run"])
    assert [each.id for each in scene.client.players(tag="Paper 1").items] == [first.id]
    assert scene.client.players(tag="paper").items == []
    found = scene.client.standings(scene.environment, q="paper").items
    assert [(each.id, each.tags) for each in found] == [(first.id, ["Paper 1"])]
    assert second.id in {each.id for each in scene.client.standings(scene.environment).items}


def test_a_change_is_in_the_audit_log_once(scene: Scene) -> None:
    scene.client.annotate(scene.learner.player_id, ["a"])
    scene.client.annotate(scene.learner.player_id, ["a"])
    (event,) = scene.client.events(kind="annotate").items
    assert event.details == {"tags": {"from": [], "to": ["a"]}}


@pytest.mark.parametrize("tag", ["", "a,b", "x" * 65, " a"])
def test_tags_that_forms_cannot_separate_are_rejected(scene: Scene, tag: str) -> None:
    with pytest.raises(ValidationError):
        scene.client.annotate(scene.learner.player_id, [tag])


def test_unknown_player_is_rejected(scene: Scene) -> None:
    with pytest.raises(UnknownPlayerError):
        scene.client.annotate(999, ["a"])


def test_a_worker_token_annotates_its_own_players_alone(connect: Callable[..., LeagueClient]) -> None:
    owner, stranger, admin = connect("worker", "ann"), connect("worker", "bob"), connect("admin", "boss")
    scene = Scene(owner)
    player = scene.publish(1)
    assert owner.annotate(player.id, ["mine"]).tags == ["mine"]
    assert admin.annotate(scene.baseline().id, ["all"]).tags == ["all"]
    for client, player_id in ((stranger, player.id), (owner, scene.baseline().id)):
        with pytest.raises(ForbiddenError):
            client.annotate(player_id, ["theirs"])
