"""What a fleet of workers takes of a server: on paper, and by simulated workers at a real one.

    python -m studies.fleet_simulation                                   # on both databases, a minute and a half
    python -m studies.fleet_simulation --backend postgresql --workers 500 --speed 4
    python -m studies.fleet_simulation --backend postgresql --servers 2                 # behind nginx

Each kind of call is made by itself first, which gives its cost. A fleet then lives by the clock of a world that is
`--speed` times as fast: its workers register, lease, fetch opponents, report, beat, drop out and come back. What the
server took is printed beside what the costs foretell for the same fleet, and last what they foretell for others.
docs/guides/operate/size.md says what may be concluded.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from studies.fleet_simulation import trial
from studies.fleet_simulation.pace import KINDS, Costs, Needs, Pace, miss_rate, needs, rows_of
from studies.fleet_simulation.trial import Seen
from benchmarks.server import databases
from benchmarks.server.testbed import Testbed

FLEETS = (100, 1_000, 10_000)
DAY_S = 86_400.0
PERIODS_PER_S = 0.1  # at most so many close for their games: LEAGUE_PERIOD_SPACING_S
MIB, GB = 2**20, 1e9


def main() -> None:
    """Measure, simulate and print."""
    arguments = _arguments()
    for backend in arguments.backend:
        with databases.server(backend) as server_url, tempfile.TemporaryDirectory(prefix="league-fleet-") as folder:
            _report(Testbed(backend, server_url, Path(folder), arguments.core), arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    pace = Pace()
    least = 1.0 + trial.RAMP_ROUNDS * pace.round_s / 60.0
    parser.add_argument("--workers", type=_from(1, int), default=200, help="of the simulated fleet (200)")
    parser.add_argument(
        "--minutes", type=_from(least, float), default=4.0, help=f"of the fleet's time (4), {least:g} or more"
    )
    parser.add_argument("--speed", type=_from(0.1, float), default=10.0, help="how fast its time goes (10)")
    parser.add_argument("--backend", choices=databases.BACKENDS, nargs="+", default=databases.BACKENDS)
    parser.add_argument(
        "--beat-s", type=_from(0.1, float), default=pace.heartbeat_s, help="from heartbeat to heartbeat (10)"
    )
    parser.add_argument("--cache", type=_from(0, int), default=pace.cache, help="checkpoints a worker keeps (2)")
    parser.add_argument("--checkpoint-gb", type=_from(0.0, float), default=1.0, help="of each, for egress (1)")
    parser.add_argument("--servers", type=_from(1, int), default=1, help="of the fleet, behind nginx where several (1)")
    parser.add_argument("--core", type=_from(0, int), help="that the server keeps to, as with taskset")
    parser.add_argument("--seed", type=_from(0, int), default=0)
    arguments = parser.parse_args()
    if arguments.servers > 1 and "sqlite" in arguments.backend:
        parser.error(f"--servers is {arguments.servers}, but SQLite has room for one: give --backend postgresql")
    return arguments


def _from(least: float, kind: type[int] | type[float]) -> Callable[[str], float]:
    """Return what reads a number that is at least so much."""

    def read(text: str) -> float:
        number = kind(text)
        if not least <= number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is below {least:g}, or no number: give {least:g} or more")
        return number

    read.__name__ = kind.__name__
    return read


def _report(testbed: Testbed, arguments: argparse.Namespace) -> None:
    pace = Pace(heartbeat_s=arguments.heartbeat_s, cache=arguments.cache)
    costs = trial.costs(testbed, pace)
    seen = trial.simulate(
        testbed, pace, arguments.workers, arguments.minutes, arguments.speed, arguments.seed, arguments.servers
    )
    miss = miss_rate(seen.chances, pace.cache)
    console = Console(width=80)
    for table in (
        _cost_table(testbed.backend, costs, pace),
        _check_table(arguments, pace, costs, seen, miss),
        _latency_table(seen),
        _scale_table(arguments.checkpoint_gb, pace, costs, miss),
    ):
        console.print(table)


def _cost_table(backend: str, costs: Costs, pace: Pace) -> Table:
    table = _table(
        f"{backend}: each call by itself", "call", "rows", "CPU ms, server", "CPU ms, database", "written KiB"
    )
    for kind, rows in rows_of(pace).items():
        own, database = (1e3 * lines[kind].cpu_s(rows) for lines in (costs.calls, costs.database))
        written = f"{costs.written_bytes[kind] / 1024:.1f}" if kind in costs.written_bytes else ""
        table.add_row(kind, f"{rows:g}", f"{own:.2f}", f"{database:.2f}", written)
    for kind in ("leases", "results"):
        rows_us = (f"{1e6 * lines[kind].row_s:.0f} us" for lines in (costs.calls, costs.database))
        table.add_row(f"{kind}, each further row", "", *rows_us, "")
    closing = f"{1e3 * costs.close_s:.0f}", f"{1e3 * costs.close_database_s:.0f}"
    table.add_row(f"closing {trial.BULK_MATCHES:,} matches", "", *closing, f"{costs.period_written_bytes / 1024:,.0f}")
    for name, size in (("lease", costs.lease_bytes), ("match", costs.match_bytes), ("period", costs.period_bytes)):
        table.add_row(f"bytes of a {name}", "", f"{size:,.0f}", "", "")
    return table


def _check_table(arguments: argparse.Namespace, pace: Pace, costs: Costs, seen: Seen, miss: float) -> Table:
    """Compare a simulation with the paper, per second of our time."""
    speed, used = arguments.speed, seen.used
    paper = needs(costs, pace, arguments.workers, miss, seen.periods / (60.0 * arguments.minutes))
    quick = {name: value * speed for name, value in vars(paper).items()}
    quick["api_cores"] -= (speed - arguments.servers) * costs.idle_cores
    title = (
        f"{arguments.workers:,} workers at {speed:g} times their pace, {seen.seconds:g} s: "
        f"{seen.accepted:,} results accepted = in the log, {seen.periods} periods, {seen.refused} calls sent away"
    )
    measured = {
        "calls_per_s": sum(seen.calls[kind] for kind in KINDS) / seen.seconds,
        "api_cores": used.api_s / seen.seconds,
        "books_cores": used.books_s / seen.seconds,
        "database_cores": used.database_s / seen.seconds,
        "commits_per_s": used.commits / seen.seconds,
        "written_bytes_per_s": used.written_bytes / seen.seconds,
        "grown_bytes_per_s": used.size_bytes / seen.seconds,
    }
    table = _table(title, "a second of ours", "measured", "paper", "measured / paper")
    for name, value in measured.items():
        scale = 1024.0 if "bytes" in name else 1.0
        words = name.replace("_per_s", "").replace("_bytes", ", KiB").replace("_", " ")
        table.add_row(words, f"{value / scale:,.2f}", f"{quick[name] / scale:,.2f}", _ratio(value, quick[name]))
    drawn = seen.fetched / max(1, seen.leases)
    table.add_row("leases that fetch a checkpoint, share", f"{drawn:.3f}", f"{miss:.3f}", _ratio(drawn, miss))
    table.add_row("API processes", f"{arguments.servers}", "", "")
    if used.proxy_s:
        table.add_row("cores of the proxy", f"{used.proxy_s / seen.seconds:.2f}", "", "")
    api, books = (size / MIB for size in seen.resident_bytes)
    table.add_row("memory of a server, its books, MiB", f"{api:.0f}, {books:.0f}", "", "")
    return table


def _ratio(measured: float, paper: float) -> str:
    return f"{measured / paper:.2f}" if paper else ""


def _latency_table(seen: Seen) -> Table:
    table = _table("latencies, since the first worker came", "call", "calls", "p50 / p99 ms")
    for kind in KINDS:
        if seen.arrivals.latencies_s[kind]:
            table.add_row(kind, f"{len(seen.arrivals.latencies_s[kind]):,}", seen.arrivals.quantiles(kind))
    return table


def _scale_table(checkpoint_gb: float, pace: Pace, costs: Costs, miss: float) -> Table:
    table = _table("foretold by the costs above, not measured", "a fleet of", *(f"{each:,}" for each in FLEETS))
    all_needs = [needs(costs, pace, workers, miss, PERIODS_PER_S) for workers in FLEETS]
    for words, told in _lines(checkpoint_gb, pace, costs):
        table.add_row(words, *(told(workers, each) for workers, each in zip(FLEETS, all_needs, strict=True)))
    return table


def _lines(checkpoint_gb: float, pace: Pace, costs: Costs) -> list[tuple[str, Callable[[int, Needs], str]]]:
    def hours(workers: int, _: Needs) -> str:
        return f"{1e8 / pace.matches_per_s(workers) / 3600:,.0f}"

    def log(workers: int, each: Needs) -> str:
        rest = costs.period_bytes * PERIODS_PER_S
        return f"{(each.grown_bytes_per_s - rest) / pace.matches_per_s(workers) * 1e8 / GB:,.0f}"

    return [
        ("calls a second", lambda _, each: f"{each.calls_per_s:,.0f}"),
        ("matches a second", lambda workers, _: f"{pace.matches_per_s(workers):,.0f}"),
        ("cores of all API processes", lambda _, each: f"{each.api_cores:.2f}"),
        ("API processes that are 60 % busy", lambda _, each: f"{int(np.ceil(each.api_cores / 0.6))}"),
        ("cores of the books, of the database", lambda _, each: f"{each.books_cores:.2f}, {each.database_cores:.2f}"),
        ("commits a second, none shared", lambda _, each: f"{each.commits_per_s:,.0f}"),
        ("written ahead, MB a second", lambda _, each: f"{each.written_bytes_per_s / 1e6:,.2f}"),
        ("hours to 100 M matches", hours),
        ("GB of 100 M matches and their leases", log),
        ("GB of periods and draws a day", lambda *_: f"{costs.period_bytes * PERIODS_PER_S * DAY_S / GB:,.1f}"),
        ("egress of checkpoints, GB a second", lambda _, each: f"{each.downloads_per_s * checkpoint_gb:,.2f}"),
    ]


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, min_width=78, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the servers, too
    main()
