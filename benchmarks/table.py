"""The table of docs/reference/benchmarks.md, from the JSON files of benchmarks.

python -m benchmarks.table var/benchmarks/*.json                                        # print it
python -m benchmarks.table var/benchmarks/*.json --write docs/reference/benchmarks.md   # replace rows of the page

If rows of a benchmark have an aim or a reference, the table leaves out its other rows. Rows of a benchmark without a
file stay in the page.
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- written by `make bench` -->", "<!-- end of the table -->"
HEAD = ("| benchmark | work | measured | reference | aim |", "|---|---|---|---|---|")

_BACKENDS = {", sqlite": "SQLite", ", postgresql": "PostgreSQL"}
_ROW, _CONDITIONS = re.compile(r"^\| (\w+) \| "), re.compile(r"^\* (\w+): ")


def main() -> None:
    """Print or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page with the two marks of the table")
    arguments = parser.parse_args()
    records = [json.loads(file.read_text(encoding="utf-8")) for file in arguments.files]
    if arguments.write is None:
        print(table(records))
    else:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(replaced(page, records), encoding="utf-8")


def table(records: Iterable[Mapping[str, Any]], old: str = "") -> str:
    """Return all rows as one Markdown table, and below it the conditions of each benchmark.

    Args:
        records: Results of benchmarks.
        old: A table whose rows and conditions of other benchmarks are taken over.
    """
    rows, conditions = _lines(old, _ROW), _lines(old, _CONDITIONS)
    for record in records:
        name = record["benchmark"]
        rows[name], conditions[name] = _rows(record), [_conditions(record)]
    return "\n".join([*HEAD, *_sorted(rows), "", *_sorted(conditions)])


def replaced(page: str, records: Iterable[Mapping[str, Any]]) -> str:
    """Return the page with new rows between the marks."""
    before, begin, rest = page.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no table: put the lines {BEGIN} and {END} where it belongs")
    return f"{before}{begin}\n\n{table(records, old)}\n\n{end}{after}"


def _lines(text: str, pattern: re.Pattern[str]) -> dict[str, list[str]]:
    """Return the lines that match, by the benchmark that they name."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        name = pattern.match(line)
        if name and not line.startswith(HEAD[0]):
            found.setdefault(name[1], []).append(line)
    return found


def _sorted(lines: Mapping[str, list[str]]) -> list[str]:
    return [line for name in sorted(lines) for line in lines[name]]


def _rows(record: Mapping[str, Any]) -> list[str]:
    """Return the lines of a record; the two databases share one."""
    by_work: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in _shown(record["rows"]):
        work, backend = _split(row["work"])
        by_work.setdefault(work, {})[backend] = row
    lines = []
    for work, rows in by_work.items():
        aim = next(iter(rows.values())).get("aim", "")
        cells = record["benchmark"], work, _values(rows, "measured"), _values(rows, "reference"), aim
        lines.append("| " + " | ".join(_cell(each) for each in cells) + " |")
    return lines


def _shown(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    compared = [row for row in rows if row.get("aim") or row.get("reference")]
    return compared or list(rows)


def _split(work: str) -> tuple[str, str]:
    """Return the work without the database at its end, and the start of a value of that database."""
    for suffix, backend in _BACKENDS.items():
        if work.endswith(suffix):
            return work.removesuffix(suffix), f"{backend}: "
    return work, ""


def _values(rows: Mapping[str, Mapping[str, Any]], column: str) -> str:
    """Return the values of both databases; one, if they are equal."""
    values = {backend: str(row.get(column, "")) for backend, row in rows.items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "<br>".join(f"{backend}{value}" for backend, value in values.items())


def _cell(text: object) -> str:
    return str(text).replace("|", "/")


def _conditions(record: Mapping[str, Any]) -> str:
    command = re.sub(r" --json \S+", "", record["command"])
    return f"* {record['benchmark']}: `{command}`, commit {record['commit']}, {record['at'][:10]}, {record['machine']}"


if __name__ == "__main__":
    main()
