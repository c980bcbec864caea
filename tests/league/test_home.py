"""Names of run folders, and the file with the address of the running league."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from league.home import folder_name, run_folder

NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=128)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("mech-duel", "mech-duel"),
        ("race:Race", "race+Race"),
        ("openspiel:kuhn_poker(players=2)", "openspiel+kuhn_poker%28players=2%29"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
    ],
)
def test_the_folder_of_a_name_is_readable(name: str, folder: str) -> None:
    assert folder_name(name) == folder


@given(NAMES)
def test_a_folder_of_any_name_is_a_single_visible_one_that_file_systems_take(name: str) -> None:
    folder = folder_name(name)
    assert Path(folder).name == folder
    assert not folder.startswith(".")
    assert len(folder.encode()) <= 200


@given(NAMES, NAMES)
def test_two_names_never_share_a_folder(one: str, other: str) -> None:
    assert (folder_name(one) == folder_name(other)) == (one == other)


@pytest.mark.parametrize(("one", "other"), [("a:b", "a+b"), ("é" * 100, "é" * 101), ("a~b", "a%7Eb"), (".a", "%2Ea")])
def test_names_that_look_alike_have_folders_of_their_own(one: str, other: str) -> None:
    assert folder_name(one) != folder_name(other)


def test_learners_of_one_name_and_two_games_have_folders_of_their_own() -> None:
    runs = Path("var/runs")
    assert run_folder(runs, "race:Race", "main") == Path("var/runs/race+Race/main")
    assert run_folder(runs, "rps", "main") == Path("var/runs/rps/main")
