"""The table of the documentation, from records of benchmarks."""

import pytest

from benchmarks import table

PAGE = f"before\n\n{table.BEGIN}\n\n{table.END}\nafter\n"


def record(name, *rows):
    return {
        "benchmark": name,
        "commit": "abc",
        "machine": "2 cores",
        "at": "2026-11-24T20:00:00+00:00",
        "command": f"python -m benchmarks.{name} --json var/{name}.json",
        "rows": [dict(zip(("work", "measured", "aim"), row, strict=True)) for row in rows],
    }


def lines(text):
    return [line for line in text.splitlines() if line.startswith(("| server", "| ratings", "* "))]


def test_both_databases_share_a_row():
    made = table.table([record("server", ("calls/s, sqlite", "5", "4"), ("calls/s, postgresql", "6", "4"))])
    assert lines(made)[0] == "| server | calls/s | SQLite: 5<br>PostgreSQL: 6 |  | 4 |"


def test_equal_values_of_both_databases_are_one_value():
    made = table.table([record("server", ("lost, sqlite", "0", "0"), ("lost, postgresql", "0", "0"))])
    assert lines(made)[0] == "| server | lost | 0 |  | 0 |"


def test_rows_without_aim_and_reference_are_left_out_beside_others():
    made = table.table([record("server", ("calls/s", "5", "4"), ("detail", "1", ""))])
    assert len(lines(made)) == 2


def test_a_benchmark_without_aims_shows_all_rows():
    assert len(lines(table.table([record("ratings", ("one", "1", ""), ("other", "2", ""))]))) == 3


def test_a_new_run_replaces_its_own_rows_alone():
    first = table.replaced(PAGE, [record("server", ("calls/s", "5", "4")), record("ratings", ("period", "1 ms", ""))])
    second = table.replaced(first, [record("server", ("calls/s", "7", "4"))])
    assert second == first.replace("| 5 |", "| 7 |")


def test_conditions_name_commit_and_command_without_the_file():
    made = table.replaced(PAGE, [record("server", ("calls/s", "5", "4"))])
    assert lines(made)[-1] == "* server: `python -m benchmarks.server`, commit abc, 2026-11-24, 2 cores"
    assert made.startswith("before")
    assert made.endswith("after\n")


def test_a_page_without_marks_is_rejected():
    with pytest.raises(SystemExit):
        table.replaced("nothing", [])
