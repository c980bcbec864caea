"""Where a player comes from: parents up to the root, with ratings and gates."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene

from league import wire
from league.cli import connection, main
from league.client import LeagueClient
from league.errors import UnknownPlayerError


def ids(scene: Scene, player_id: int) -> list[int]:
    return [ancestor.player.id for ancestor in scene.client.lineage(player_id).items]


def test_a_lineage_leads_from_a_player_up_to_the_first_snapshot(scene: Scene) -> None:
    line = [scene.publish(step) for step in range(4)]
    scene.evaluate(6, winner=line[1].id)
    scene.client.close_period()
    told = scene.client.lineage(line[2].id).items
    assert [ancestor.player for ancestor in told] == [scene.client.player(each.id) for each in line[2::-1]]
    assert [ancestor.generation for ancestor in told] == [1, 2, 3]
    assert ids(scene, scene.learner.player_id) == [scene.learner.player_id, *(each.id for each in line[::-1])]
    assert ids(scene, scene.baseline().id) == [scene.baseline().id]


def test_each_has_the_gates_that_it_stood_newest_first(scene: Scene) -> None:
    first, second = scene.publish(1), scene.publish(2)
    gates = [
        scene.client.gate(wire.GateCreate(candidate_id=second.id, champion_id=first.id, elo1=elo1)).id
        for elo1 in (20.0, 50.0)
    ]
    scene.client.gate(wire.GateCreate(candidate_id=first.id, champion_id=scene.baseline().id))
    told = scene.client.lineage(second.id).items
    assert [gate.id for gate in told[0].gates] == gates[::-1]
    assert [gate.candidate.player_id for gate in told[1].gates] == [first.id]


def test_learners_have_lineages_of_their_own(scene: Scene) -> None:
    request = wire.LearnerCreate(name="other", role="main", environment="rps", signature=scene.signature)
    other = scene.client.learner(request)
    own, strange = scene.publish(1), scene.publish(2, learner=other)
    assert ids(scene, strange.id) == [strange.id]
    assert ids(scene, scene.publish(3).id)[1:] == [own.id]


def test_a_long_lineage_has_pages(scene: Scene) -> None:
    line = [scene.publish(step).id for step in range(5)]
    first = scene.client.lineage(line[-1], limit=2)
    rest = scene.client.lineage(line[-1], cursor=first.next_cursor)
    assert [ancestor.player.id for ancestor in first.items + rest.items] == line[::-1]
    assert rest.next_cursor is None
    assert scene.client.lineage(line[-1], limit=5).next_cursor is None


def test_nobody_has_no_lineage(scene: Scene) -> None:
    with pytest.raises(UnknownPlayerError, match="999"):
        scene.client.lineage(999)


@ON_SQLITE
def test_the_command_draws_a_player_a_line_with_its_gates(
    scene: Scene, http: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: Callable[..., Any] = lambda _url, token, timeout_s: LeagueClient(http=http, token=token)  # noqa: E731
    monkeypatch.setattr(connection, "LeagueClient", opened)
    first, second = scene.publish(1), scene.publish(2)
    gate = scene.client.gate(wire.GateCreate(candidate_id=second.id, champion_id=first.id))

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["lineage", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    drawn = run("main@2").splitlines()
    assert drawn[0].startswith(f"├─ main@2, id {second.id}: candidate, 1500 ± 700")
    assert drawn[1] == f"│    gate {gate.id} against main@1: open, 0 games"
    assert drawn[2].startswith(f"╰─ main@1, id {first.id}")
    assert "older ones: --cursor 1" in run("main@2", "--limit", "1")
    assert json.loads(run("main@2", "--json")) == scene.client.lineage(second.id).model_dump(mode="json")
