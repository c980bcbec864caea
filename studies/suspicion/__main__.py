"""How often good workers are accused, and bad ones found, on simulated leagues.

    python -m studies.suspicion

A league has 10 workers and 20,000 matches, as many as the server looks at by default. If a check were exact, a good
worker's p-value would be below a level as often as the level says.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table
from simulated_workers import LEVEL, WORKERS, League, Lie, always_wins, shorter, swaps

from league.services.trust import statistics as worker_statistics

CHECKS = {"score": worker_statistics.scores, "length": worker_statistics.lengths}
LEVELS = (0.01, 1e-4, LEVEL)
LEAGUES = {
    "as by default": League(),
    "no draws": League(draws=0.0),
    "each pairing is one worker's": League(alone=True),
    "30 pairings": League(pairings=30),
    "2,000 pairings": League(pairings=2_000),
}
LIES: dict[str, Lie] = {
    "home always wins": always_wins,
    "sides mixed up in 20 %": swaps(0.2),
    "sides mixed up in 5 %": swaps(0.05),
    "matches 20 % shorter": shorter(0.8),
}


def main() -> None:
    """Simulate and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=200, help="simulated leagues per row")
    seeds = range(parser.parse_args().leagues)
    columns = [f"{measure} < {level:g}" for measure in CHECKS for level in LEVELS]
    good = Table("good workers", *columns, title="share of them accused", title_justify="left", box=None)
    for name, league in LEAGUES.items():
        values = [p_values(league, measure, seeds, None).reshape(-1) for measure in CHECKS]
        good.add_row(name, *(f"{(each < level).mean():.4f}" for each in values for level in LEVELS))
    bad = Table(
        "a bad worker", *CHECKS, "others accused", title=f"share found at {LEVEL:g}", title_justify="left", box=None
    )
    for name, lie in LIES.items():
        found = [p_values(League(), measure, seeds, lie) < LEVEL for measure in CHECKS]
        others = np.mean([each[:, 1:].mean() for each in found])
        bad.add_row(name, *(f"{each[:, 0].mean():.2f}" for each in found), f"{others:.4f}")
    Console(width=140).print(good, "", bad)


def p_values(league: League, measure: str, seeds: range, lie: Lie | None) -> np.ndarray:
    """Return the p-value of every worker of every league, (leagues, workers); 1 where nothing can be said."""
    rows = []
    for seed in seeds:
        reports = league.play(np.random.default_rng(seed), lie)
        fits = worker_statistics.check_sequentially(CHECKS[measure], reports, WORKERS, LEVEL)
        rows.append([1.0 if fit is None else fit.p_value for fit in fits])
    return np.array(rows)


if __name__ == "__main__":
    main()
