"""Rows at any width of a terminal."""

import io
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from league.cli.output.grid import Grid, record

TABLE = Grid(
    [["rank"], ["player", "standing"], ["rating ± 2 RD", "games"]],
    [
        ["1", "Restless Javelin 42 (main@6045696)", "commander", "4663 ± 60", "752"],
        ["2", "main", "–", "4554 ± 60", "1152"],  # noqa: RUF001 - as tables write it
    ],
    "nobody plays",
)


def printed(grid: Grid, width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(grid)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def letters(text: str) -> list[str]:
    return sorted("".join(text.split()))


def test_with_room_every_row_is_a_line_under_one_line_of_headings() -> None:
    lines = printed(TABLE, 200).splitlines()
    assert [line.split()[0] for line in lines] == ["rank", "1", "2"]
    assert "Restless Javelin 42 (main@6045696)  commander" in lines[1]
    assert lines[0].rstrip().endswith("rating ± 2 RD  games")


def test_with_less_room_text_wraps_between_words_and_numbers_do_not() -> None:
    lines = printed(TABLE, 55).splitlines()
    assert max(map(len, lines)) <= 55
    for whole in ("4663 ± 60", "(main@6045696)", "commander"):
        assert any(whole in line for line in lines)
    assert not any("Javelin 42 (main@6045696)" in line for line in lines)


def test_with_too_little_room_each_row_is_a_record() -> None:
    text = printed(replace(TABLE, title="rps"), 40)
    first, second = text.split("\n\n")
    assert [line.split()[0] for line in first.splitlines()] == ["rps", "rank", "player", "(main@6045696)", *WORDS]
    assert [line.split()[0] for line in second.splitlines()] == ["rank", "player", *WORDS]


WORDS = ["standing", "rating", "games"]


def test_least_important_columns_are_dropped_in_narrow_tables() -> None:
    text = printed(replace(TABLE, brief=("rank", "player", "games")), 40)
    assert text.split()[:3] == ["rank", "player", "games"]
    assert "752" in text
    assert "4663" not in text


@given(st.integers(24, 250), st.lists(st.lists(st.text(max_size=30), min_size=3, max_size=3), min_size=1, max_size=4))
@example(24, [["", "", "00\x1f\U00011ef3\U00018cd6"]])  # signs of no width, and of two
def test_nothing_is_cut_off_or_wider_than_the_terminal(width: int, texts: list[list[str]]) -> None:
    rows = [[str(number), *each, "12.5"] for number, each in enumerate(texts)]
    grid = Grid([["n"], ["player", "kind", "why"], ["change"]], rows, "nothing")
    lines = printed(grid, width).splitlines()
    assert all(cell_len(line) <= width for line in lines)
    shown = "".join(letters("".join(lines)))
    for row in rows:
        for cell in row:
            assert all(each in shown for each in letters(cell) if each.isprintable())


@pytest.mark.parametrize("title", [None, "rps"])
def test_empty_table_prints_a_sentence(title: str | None) -> None:
    empty = replace(TABLE, rows=[], title=title)
    assert printed(empty, 200) == ("nobody plays\n" if title is None else "rps: nobody plays\n")


def test_text_of_others_does_not_steer_the_terminal() -> None:
    escape = "\x1b[2J[bold]no\nline"
    text = printed(replace(TABLE, rows=[["1", escape, "", "", ""]]), 100)
    assert r"\x1b[2J[bold]no\nline" in text
    console = Console(file=io.StringIO(), width=100)
    console.print(record({"reason": escape}))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().strip() == r"reason  \x1b[2J[bold]no\nline"
