"""Server throughput and latency over loopback HTTP with one API process, on SQLite and PostgreSQL.

    python -m benchmarks.server                              # all rows on both databases
    python -m benchmarks.server results --backend sqlite     # one row on one database
    python -m benchmarks.server heartbeats --core 3          # each server on this core alone, as with taskset

The module of the same name measures a row: `measure(testbed)`. A row and its reference take turns in one run.
"""

import argparse
import importlib
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import record
from benchmarks.server import databases
from benchmarks.server.testbed import Row, Testbed

ROWS = ("heartbeats", "leases", "memory", "results", "standings")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.server", description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", choices=ROWS, metavar="ROW", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--backend", choices=databases.BACKENDS, nargs="+", default=databases.BACKENDS)
    parser.add_argument("--core", type=int, help="processor core of each server")
    record.add_json_option(parser)
    arguments, results = parser.parse_args(), []
    for backend in arguments.backend:
        with databases.server(backend) as server_url:
            for name in arguments.rows or ROWS:
                rows = _measure(name, backend, server_url, arguments.core)
                _print(backend, rows)
                results += [
                    {
                        "work": f"{row.work}, {backend}",
                        "measured": row.measured,
                        "reference": row.reference,
                        "aim": row.aim,
                    }
                    for row in rows
                ]
    record.write(arguments.json, "server", results)


def _measure(name: str, backend: str, server_url: str, core: int | None) -> list[Row]:
    module = importlib.import_module(f"benchmarks.server.{name}")
    with tempfile.TemporaryDirectory(prefix="league-bench-") as folder:
        rows: list[Row] = module.measure(Testbed(backend, server_url, Path(folder), core))
    return rows


def _print(backend: str, rows: list[Row]) -> None:
    table = Table(
        "work", "measured", "reference", "aim", title=backend, title_justify="left", box=None, padding=(0, 2, 0, 0)
    )
    for row in rows:
        table.add_row(row.work, row.measured, row.reference, row.aim)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
