"""The table of docs/benchmarks.md, from the JSON files of benchmarks.

python -m benchmarks.table var/benchmarks/*.json                              # print it
python -m benchmarks.table var/benchmarks/*.json --write docs/benchmarks.md   # replace the one in the page
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- written by `make bench` -->", "<!-- end of the table -->"


def main() -> None:
    """Print or write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a page with the two marks of the table")
    arguments = parser.parse_args()
    text = table(json.loads(file.read_text(encoding="utf-8")) for file in arguments.files)
    if arguments.write is None:
        print(text)
    else:
        page = arguments.write.read_text(encoding="utf-8")
        arguments.write.write_text(replaced(page, text), encoding="utf-8")


def table(records: Iterable[Mapping[str, Any]]) -> str:
    """Return all rows as one Markdown table, with a line on the conditions of each benchmark below it."""
    lines = ["| benchmark | work | measured | reference | aim |", "|---|---|---|---|---|"]
    conditions = []
    for record in sorted(records, key=lambda each: each["benchmark"]):
        for row in record["rows"]:
            cells = record["benchmark"], row["work"], row["measured"], row.get("reference", ""), row.get("aim", "")
            lines.append("| " + " | ".join(str(cell).replace("|", "/") for cell in cells) + " |")
        conditions.append(
            f"* `{record['command']}`, commit {record['commit']}, {record['at'][:10]}, {record['machine']}"
        )
    return "\n".join([*lines, "", *conditions])


def replaced(page: str, text: str) -> str:
    """Return the page with the text between the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the page has no table: put the lines {BEGIN} and {END} where it belongs")
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


if __name__ == "__main__":
    main()
