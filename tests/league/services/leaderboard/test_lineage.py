"""Where a player comes from: parents up to the root, with ratings and gates."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene
from refused import refused

from league import wire
from league.cli import connection, main
from league.client import LeagueClient
from league.lineage_svg import COLOURS, Descent, picture


def ids(scene: Scene, player_id: int) -> list[int]:
    return [ancestor.player.id for ancestor in scene.client.lineage(player_id).items]


def test_a_lineage_leads_from_a_player_up_to_the_first_snapshot(scene: Scene) -> None:
    line = [scene.publish(step) for step in range(4)]
    scene.evaluate(6, winner=line[1].id)
    scene.client.close_period()
    lineage = scene.client.lineage(line[2].id).items
    listed = {player.id: player for player in scene.client.players(scene.environment).items}
    assert [ancestor.player for ancestor in lineage] == [listed[each.id] for each in line[2::-1]]
    assert [ancestor.generation for ancestor in lineage] == [1, 2, 3]
    assert ids(scene, scene.learner.player_id) == [scene.learner.player_id, *(each.id for each in line[::-1])]
    assert ids(scene, scene.baseline().id) == [scene.baseline().id]


def test_lineage_lists_gates_newest_first(scene: Scene) -> None:
    first, second = scene.publish(1), scene.publish(2)
    gates = [
        scene.client.open_gate(wire.GateCreate(candidate_id=second.id, champion_id=first.id, elo1=elo1)).id
        for elo1 in (20.0, 50.0)
    ]
    scene.client.open_gate(wire.GateCreate(candidate_id=first.id, champion_id=scene.baseline().id))
    told = scene.client.lineage(second.id).items
    assert [gate.id for gate in told[0].gates] == gates[::-1]
    assert [gate.candidate.player_id for gate in told[1].gates] == [first.id]


def test_learners_have_lineages_of_their_own(scene: Scene) -> None:
    request = wire.LearnerCreate(name="other", role="main", environment="rps", signature=scene.signature)
    other = scene.client.register_learner(request)
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


def test_unknown_player_has_no_lineage(scene: Scene) -> None:
    with refused("unknown-player", 999):
        scene.client.lineage(999)


@ON_SQLITE
def test_the_command_draws_a_player_a_line_with_its_gates(
    scene: Scene, http: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    opened: Callable[..., Any] = lambda _url, token, timeout_s: LeagueClient(http=http, token=token)  # noqa: E731
    monkeypatch.setattr(connection, "LeagueClient", opened)
    first, second = scene.publish(1), scene.publish(2)
    gate = scene.client.open_gate(wire.GateCreate(candidate_id=second.id, champion_id=first.id))

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["player", "lineage", *arguments])
        assert not ended.value.code
        return capsys.readouterr().out

    drawn = run("main@2").splitlines()
    assert drawn[0].startswith(f"├─ main@2, id {second.id}: candidate, 1500 ± 700")
    assert drawn[1] == f"│    gate {gate.id} against main@1: open, 0 games"
    assert drawn[2].startswith(f"╰─ main@1, id {first.id}")
    assert "more rows: --cursor 1" in run("main@2", "--limit", "1")
    whole = scene.client.lineage(second.id).model_dump(mode="json")
    assert json.loads(run("main@2", "--json")) == whole
    assert json.loads(run("main@2", "--json", "--out", str(tmp_path / "lineage.svg"))) == whole
    assert (tmp_path / "lineage.svg").exists()


# --- the picture -----------------------------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def draw(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Element]:
    """Draw a player's learner with the command, and read the picture."""
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: scene.client)

    def run(who: str) -> Element:
        out = tmp_path / "lineage.svg"
        with pytest.raises(SystemExit) as ended:
            main(["player", "lineage", who, "--out", str(out)])
        assert not ended.value.code
        assert f"{out}: " in capsys.readouterr().out.replace("\n", "")
        return fromstring(out.read_text(encoding="utf-8"))

    return run


def of_class(picture: Element, name: str) -> list[Element]:
    return [each for each in picture.iter() if name in each.get("class", "").split()]


def marks(picture: Element) -> dict[str, Element]:
    """The snapshots in a picture, by the first line of what is told of them."""
    told = {each: each.find(f"{SVG}title") for each in of_class(picture, "mark")}
    return {
        (title.text or "").splitlines()[0].split(":")[0].split(" (")[0]: each
        for each, title in told.items()
        if title is not None
    }


@ON_SQLITE
def test_the_picture_has_every_snapshot_where_its_steps_and_rating_are(scene: Scene, draw: Any) -> None:
    line = [scene.publish(step) for step in (100, 300, 200)]
    scene.evaluate(12, winner=line[1].id)
    scene.client.close_period()
    picture = draw("main")
    shown = marks(picture)
    assert shown.keys() == {"main@100", "main@200", "main@300"}
    x, y = ({name: float(each.get(axis, "")) for name, each in shown.items()} for axis in ("cx", "cy"))
    assert x["main@200"] - x["main@100"] == pytest.approx(x["main@300"] - x["main@200"], abs=0.2)
    strongest = max((scene.client.player(each.id) for each in line), key=lambda each: each.rating)
    assert min(y, key=lambda name: y[name]) == strongest.name
    assert len(of_class(picture, "parent")) == 2
    texts = [each.text for each in picture.iter(f"{SVG}text")]
    assert "main (main) of rps: 3 snapshots" in texts
    assert "300 steps" in texts


@ON_SQLITE
def test_lineage_picture_shows_every_standing(scene: Scene, draw: Any) -> None:
    first, second = (scene.publish(step) for step in (1, 2))
    for each in (first, second):
        scene.client.promote(each.id, "for <good> & all")
    scene.client.set_champion(second.id, expected=None)
    scene.client.retire(first.id, "superseded")
    names = [scene.client.player(each.id).call_sign for each in (first, second)]
    picture = draw("main@2")
    shown = marks(picture)
    assert shown.keys() == set(names)
    assert shown[names[0]].get("fill") == COLOURS["retired"]
    assert shown[names[1]].get("fill") == COLOURS["commander"]
    story = shown[names[0]].find(f"{SVG}title").text  # type: ignore[union-attr]
    assert [line.split(" ", 2)[2] for line in story.splitlines()[1:]] == [
        "promote: for <good> & all",
        "retire: superseded",
    ]
    rings = [each for each in of_class(picture, "ring") if each.get("cx")]
    assert [ring.get("cx") for ring in rings] == [shown[names[1]].get("cx")]
    assert set(names) <= {each.text for each in picture.iter(f"{SVG}text")}


def test_no_line_crosses_a_new_beginning(scene: Scene) -> None:
    line = [scene.client.player(scene.publish(step).id) for step in (100, 200, 300)]
    drawn = picture(Descent(scene.learner, line, [150], None, {}))
    root = fromstring(drawn)
    (reset,) = [each for each in of_class(root, "reset") if each.find(f"{SVG}title") is not None]
    assert reset.find(f"{SVG}title").text == "reset at step 150"  # type: ignore[union-attr]
    assert len(of_class(root, "parent")) == 1
    assert "1 reset" in drawn


@ON_SQLITE
@pytest.mark.parametrize(
    ("arguments", "value", "code"),
    [
        (["main", "--out", "lineage.png"], ".svg", 2),
        (["main", "--out", "nowhere/lineage.svg"], "nowhere", 2),
        (["random", "--out", "lineage.svg"], "random", 1),
        (["other", "--out", "lineage.svg"], "other", 1),
    ],
)
def test_invalid_lineage_request_is_rejected(
    scene: Scene,
    draw: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    value: str,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    scene.publish(1)
    scene.client.register_learner(
        wire.LearnerCreate(name="other", role="main", environment="rps", signature=scene.signature)
    )
    with pytest.raises(SystemExit) as ended:
        main(["player", "lineage", *arguments])
    assert ended.value.code == code
    assert value in capsys.readouterr().err
