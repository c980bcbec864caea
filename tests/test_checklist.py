"""The map from what must hold to the tests that hold it is whole."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
CHECKLIST = TESTS.parent / "docs" / "checklist.md"

ROWS_PER_SECTION = {"A": 6, "B": 12, "C": 5, "D": 8, "E": 10, "F": 6, "G": 12, "H": 5, "I": 7, "J": 9, "K": 6, "L": 4}
TRAPS, IMMUTABLE_SETTINGS = 16, 16

NOT_YET: set[str] = set()
"""Rows that no test holds. Take rows out of this list, never in."""


def rows() -> list[tuple[str, str, str]]:
    """Id, meaning and tests of every row."""
    cells = re.findall(r"^\| ([A-Z]\d+) \| (.+?) \| (.+) \|$", CHECKLIST.read_text(encoding="utf-8"), re.MULTILINE)
    return [(name, meaning, tests) for name, meaning, tests in cells]


@cache
def functions(file: str) -> set[str]:
    """Names of a test file's functions."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_is_there_once_and_in_order() -> None:
    sections = {**ROWS_PER_SECTION, "T": TRAPS, "S": IMMUTABLE_SETTINGS}
    expected = [f"{section}{number}" for section, count in sections.items() for number in range(1, count + 1)]
    assert [name for name, _, _ in rows()] == expected


@pytest.mark.parametrize(("name", "tests"), [(name, tests) for name, _, tests in rows()])
def test_a_row_names_tests_that_there_are_or_says_why_not(name: str, tests: str) -> None:
    if tests.startswith("not yet: "):
        return
    named = re.findall(r"`([^`]+)`", tests)
    assert ", ".join(f"`{each}`" for each in named) == tests, "a list of `file::test` and nothing else"
    for each in named:
        file, _, test = each.partition("::")
        assert test.startswith("test_"), each
        assert test in functions(file), each


def test_rows_without_a_test_are_those_that_are_known_and_no_others() -> None:
    assert {name for name, _, tests in rows() if tests.startswith("not yet: ")} == NOT_YET
