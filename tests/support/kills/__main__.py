"""Kill the processes of a league at random, with -9, and see whether anything was lost or counted twice.

    python -m kills --backend postgresql                              # 1,000 kills in about ten minutes
    python -m kills --backend sqlite --minutes 1 --kills 100 --seed 7

Two API processes, each with one that keeps the books, trainers of all three roles, two evaluators and two workers that
remember every answer; with PostgreSQL its server and single connections of it too. Exits with 1 where something broke.
The seed says who is killed after which pause; what the machine makes of that is never the same twice.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kills.campaign import Campaign, Report, run
from kills.fleet import Size

BACKENDS = ("sqlite", "postgresql")
WHOLE = Size(servers=2, roles=("main", "main_exploiter", "league_exploiter"), evaluators=2, snapshot_steps=20_000)


def main() -> None:
    """Kill, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=BACKENDS, default="postgresql")
    parser.add_argument("--minutes", type=float, default=10.0, help="about how long it takes")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="an empty folder to keep, with the logs of all processes")
    arguments = parser.parse_args()
    gap_s = 60.0 * arguments.minutes / arguments.kills
    campaign = Campaign(arguments.backend, WHOLE, 2, arguments.kills, gap_s, arguments.seed)
    with tempfile.TemporaryDirectory(prefix="league-kills-") as scratch:
        folder = arguments.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        report = run(campaign, folder, lambda line: print(line, flush=True))
    print(f"{arguments.backend}, seed {arguments.seed}")
    _print(report)
    sys.exit(1 if report.verdict.broken else 0)


def _print(report: Report) -> None:
    verdict, gaps_s = report.verdict, sorted(gap for memory in report.memories for gap in memory.gaps_s)
    kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(report.kills.items()))
    print(f"kills: {sum(report.kills.values())} in {report.took_s:.0f} s ({kinds})")
    print(f"at work again after the last: {report.recovered_s:.1f} s")
    print(f"matches: {verdict.matches.total():,} ({_listed(verdict.matches.items())}), in {verdict.periods} periods")
    print(f"checkpoints: {verdict.checkpoints}, all read")
    print(
        f"answers to the witnesses: {sum(memory.answers for memory in report.memories):,}, {len(gaps_s)} after failures"
    )
    if gaps_s:
        shares = np.quantile(gaps_s, (0.5, 0.9, 1.0))
        print(
            "  until answered: "
            + ", ".join(f"{name} {s:.2f} s" for name, s in zip(("median", "p90", "most"), shares, strict=True))
        )
    print(f"servers that started in vain: {len(report.starts_in_vain)}")
    for line in sorted(set(report.starts_in_vain)):
        print(f"  {line}")
    print("nothing was lost, none counted twice" if not verdict.broken else "BROKEN:")
    for line in verdict.broken:
        print(f"  {line}")


def _listed(items: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(items))


if __name__ == "__main__":
    main()
