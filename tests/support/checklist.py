"""The page of what must hold, its third column written from the markers `@pytest.mark.holds("B6")` of the tests."""

import ast
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS / "checklist.md"
ROW = re.compile(r"^\| (?P<row>[A-Z]\d+) \| (?P<meaning>.+?) \|.*\|$", re.MULTILINE)


def rows(page: str) -> list[str]:
    """Return the ids of a page's rows, in order."""
    return [found["row"] for found in ROW.finditer(page)]


def written(page: str, holders: dict[str, list[str]]) -> str:
    """Return the page with the tests that hold each row."""

    def row(found: re.Match[str]) -> str:
        tests = ", ".join(f"`{test}`" for test in holders.get(found["row"], []))
        return f"| {found['row']} | {found['meaning']} | {tests} |"

    return ROW.sub(row, page)


def holders() -> dict[str, list[str]]:
    """Return the tests that hold each row, as `file::function` below tests/, read from the source."""
    found = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        source = file.read_text(encoding="utf-8")
        if "mark.holds(" not in source:
            continue
        for function in ast.parse(source).body:
            if isinstance(function, ast.FunctionDef):
                for row in _held(function):
                    found[row].append(f"{file.relative_to(TESTS).as_posix()}::{function.name}")
    return dict(found)


def _held(function: ast.FunctionDef) -> list[str]:
    marks = [each for each in function.decorator_list if isinstance(each, ast.Call)]
    held = [mark for mark in marks if ast.unparse(mark.func) == "pytest.mark.holds"]
    return [ast.literal_eval(row) for mark in held for row in mark.args]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), holders()), encoding="utf-8")
