"""`league export-site` writes pages that need no server, and refuses what it cannot do in one line."""

import re
from pathlib import Path

import pytest
from league_command import Run
from league_scene import Scene
from refused import assert_names

from league import wire


def references(folder: Path) -> set[tuple[Path, str]]:
    """Files of a copy and what they refer to."""
    return {
        (path, address)
        for path in folder.rglob("*.html")
        for address in re.findall(r' (?:href|src|action|hx-get)="([^"#]*)"', path.read_text())
    }


def test_a_copy_refers_to_its_own_files_alone(
    command: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path
) -> None:
    folder = tmp_path / "site"
    outcome = command("export-site", folder, "--home", tmp_path, "--title", "League <A>")
    assert outcome.code == 0
    assert_names(outcome.out, folder, "pages of rps", "MB")
    assert "left out: workers (1 link)" in outcome.err
    found = references(folder)
    assert len(found) > 50
    assert [each for each in found if not (each[0].parent / each[1]).is_file()] == []
    page = (folder / "players" / f"{snapshot.id}.html").read_text()
    assert snapshot.name in page
    assert "Static copy of League &lt;A&gt;, rps, made" in page
    assert {path.stem for path in (folder / "players").glob("*.html")} == {
        str(each.id) for each in scene.client.players("rps").items
    }


def test_the_strongest_players_have_head_to_head_pages(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    def pairs(folder: Path) -> set[str]:
        return {str(path.relative_to(folder / "players")) for path in (folder / "players").glob("*/against/*.html")}

    every, few, none = (tmp_path / name for name in ("every", "few", "none"))
    assert command("export-site", every, "--home", tmp_path).code == 0
    ids = {path.stem for path in (every / "players").glob("*.html")}
    assert pairs(every) == {f"{one}/against/{other}.html" for one in ids for other in ids - {one}}
    assert f'href="{snapshot.id}/against/' in (every / "players" / f"{snapshot.id}.html").read_text()
    outcome = command("export-site", few, "--home", tmp_path, "--compared", 2)
    assert len(pairs(few)) == 2
    assert "left out: head-to-head pages of weaker players" in outcome.err
    assert command("export-site", none, "--home", tmp_path, "--compared", 0).code == 0
    assert pairs(none) == set()


@pytest.mark.parametrize("backend", ["postgresql"])
def test_a_copy_of_a_league_on_postgresql(
    command: Run, snapshot: wire.Player, database_url: str, tmp_path: Path
) -> None:
    outcome = command("export-site", tmp_path / "site", "--home", tmp_path, "--database-url", database_url)
    assert outcome.code == 0
    assert (tmp_path / "site" / "players" / f"{snapshot.id}.html").is_file()
    assert references(tmp_path / "site")


def test_limits_are_kept_and_what_they_leave_out_is_named(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    outcome = command("export-site", tmp_path / "few", "--home", tmp_path, "--matches", 2)
    assert len(list((tmp_path / "few" / "matches").iterdir())) == 2
    assert re.search(r"left out: older matches \(\d+ links\)", outcome.err)
    outcome = command("export-site", tmp_path / "fewer", "--home", tmp_path, "--pages", 3)
    assert "3 pages" in outcome.out
    assert len(list((tmp_path / "fewer").rglob("*.html"))) == 3
    assert "left out: players" in outcome.err


def test_a_folder_with_files_is_written_only_by_force(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "own.txt").write_text("mine")
    (folder / "index.html").write_text("old")
    refused = command("export-site", folder, "--home", tmp_path)
    assert refused.code == 2
    assert_names(refused.one_line_error, folder, "--force")
    assert command("export-site", folder, "--home", tmp_path, "--force").code == 0
    assert (folder / "own.txt").read_text() == "mine"
    assert (folder / "index.html").read_text() != "old"


def test_wrong_values_are_refused_in_one_line(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for arguments, code, names in (
        ((file,), 2, (file,)),
        ((tmp_path / "site", "--environment", "chess"), 1, ("chess", "rps")),
    ):
        refused = command("export-site", *arguments, "--home", tmp_path)
        assert refused.code == code
        assert_names(refused.one_line_error, *names)
    nowhere = command("export-site", tmp_path / "site", "--home", tmp_path / "nowhere")
    assert nowhere.code == 2
    assert_names(nowhere.one_line_error, tmp_path / "nowhere")
    assert not (tmp_path / "site").exists()


def test_one_environment_of_several_is_named(command: Run, scene: Scene, snapshot: wire.Player, tmp_path: Path) -> None:
    other = Scene(scene.client, "mech-duel", "mech-1")
    refused = command("export-site", tmp_path / "site", "--home", tmp_path)
    assert_names(refused.one_line_error, "mech-duel", "rps")
    folder = tmp_path / "site"
    assert command("export-site", folder, "--home", tmp_path, "--environment", "rps").code == 0
    assert f'href="players/{snapshot.id}.html"' in (folder / "standings.html").read_text()
    assert not (folder / "players" / f"{other.learner.player_id}.html").exists()


def test_an_export_changes_nothing_in_a_closed_league(command: Run, snapshot: wire.Player, tmp_path: Path) -> None:
    assert command("token", "create", "reader", "--scope", "read", "--home", tmp_path).code == 0
    before = (tmp_path / "league.db").read_bytes()
    assert command("export-site", tmp_path / "site", "--home", tmp_path).code == 0
    assert (tmp_path / "league.db").read_bytes() == before
    assert "Sign out" not in (tmp_path / "site" / "index.html").read_text()


@pytest.mark.parametrize("limit", [("--matches", -1), ("--pages", 0)])
def test_limits_have_ranges(limit: tuple[str, int], command: Run, tmp_path: Path) -> None:
    assert command("export-site", tmp_path / "site", "--home", tmp_path, *limit).code == 2
