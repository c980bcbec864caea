"""Every row of tests/checklist.md is held by a test, and the page names the tests that the markers name."""

import checklist

ROWS_PER_SECTION = {"A": 6, "B": 12, "C": 5, "D": 8, "E": 10, "F": 6, "G": 12, "H": 5, "I": 7, "J": 9, "K": 6, "L": 4}
TRAPS, IMMUTABLE_SETTINGS = 16, 16


def page() -> str:
    return checklist.PAGE.read_text(encoding="utf-8")


def test_every_row_is_on_the_page_once_and_in_order() -> None:
    sections = {**ROWS_PER_SECTION, "T": TRAPS, "S": IMMUTABLE_SETTINGS}
    expected = [f"{section}{number}" for section, count in sections.items() for number in range(1, count + 1)]
    assert checklist.rows(page()) == expected


def test_every_checklist_row_has_a_test() -> None:
    assert set(checklist.holders()) == set(checklist.rows(page()))


def test_the_page_names_the_tests_of_the_markers() -> None:
    assert checklist.written(page(), checklist.holders()) == page(), "run `make checklist`"
