"""How often a gate is mistaken, and how many games it takes, by the candidate's true lead.

    python -m benchmarks.gates

Tests of candidates of known strength, in pairs of games with sides swapped. Pairs share a seed that favours one of the
two by luck, and a third of even games are drawn.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from arena.evaluation.sprt import SprtConfig, stop
from arena.ratings.glicko2 import SCALE
from benchmarks import record

DRAW_HALF_WIDTH = np.log(2.0)  # in log-odds: a third of even games are drawn
LUCK = 100.0  # standard deviation, in points, of what a seed favours one of the two by


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=int, default=1_000)
    parser.add_argument("--pairs", type=int, default=4_000, help="give up after so many")
    record.add_json_option(parser)
    arguments = parser.parse_args()
    rows = []
    print(f"{arguments.tests} tests a line; alpha = beta = 0.05")
    print(f"{'elo0':>6}{'elo1':>6}{'true':>6}{'accepted':>10}{'rejected':>10}{'games':>8}{'90 % within':>13}")
    for elo0, elo1 in ((0.0, 20.0), (0.0, 50.0), (0.0, 100.0)):
        for lead in (elo0 - elo1, elo0, 0.5 * (elo0 + elo1), elo1, 2.0 * elo1, 4.0 * elo1):
            line, row = _measure(SprtConfig(elo0, elo1), lead, arguments)
            rows.append(row)
            print(line, flush=True)
    record.write(arguments.json, "gates", rows)


def paired_scores(lead: float, tests: int, pairs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return (tests, pairs) mean scores of two games of a candidate with a true lead in points."""
    favour = rng.normal(0.0, LUCK, (tests, pairs, 1)) * [1.0, -1.0]
    log_odds = (_inner_lead(lead) + favour) / SCALE
    result = log_odds + rng.logistic(0.0, 1.0, log_odds.shape)
    return np.asarray((0.5 * (1.0 + np.sign(result) * (np.abs(result) > DRAW_HALF_WIDTH))).mean(axis=2))


def _inner_lead(lead: float) -> float:
    """Return the lead before draws and luck, which move scores towards a half, that makes the given mean score."""
    inner = np.linspace(-4.0, 4.0, 4001) * max(abs(lead), 1.0)
    luck, weight = np.polynomial.hermite_e.hermegauss(40)
    log_odds = (inner[:, None] + LUCK * luck) / SCALE
    score = 0.5 * (expit(log_odds - DRAW_HALF_WIDTH) + expit(log_odds + DRAW_HALF_WIDTH)) @ (weight / weight.sum())
    return float(np.interp(expit(lead / SCALE), score, inner))


def _measure(config: SprtConfig, lead: float, arguments: argparse.Namespace) -> tuple[str, record.Row]:
    rng = np.random.default_rng(0)
    stops = [stop(paired_scores(lead, 1, arguments.pairs, rng)[0], config) for _ in range(arguments.tests)]
    decisions, games = [each.decision for each in stops], np.array([each.games for each in stops])
    accepted, rejected = (decisions.count(each) / len(stops) for each in ("accept", "reject"))
    line = (
        f"{config.elo0:>6.0f}{config.elo1:>6.0f}{lead:>6.0f}{accepted:>10.1%}{rejected:>10.1%}"
        f"{games.mean():>8,.0f}{np.quantile(games, 0.9):>13,.0f}"
    )
    work = f"gate with elo0 {config.elo0:.0f}, elo1 {config.elo1:.0f}, true lead {lead:.0f}"
    measured = f"{accepted:.1%} accepted, {rejected:.1%} rejected, {games.mean():,.0f} games"
    aims = {config.elo0: "5 % accepted", config.elo1: "5 % rejected"}
    return line, {"work": work, "measured": measured, "aim": aims.get(lead, "")}


if __name__ == "__main__":
    main()
