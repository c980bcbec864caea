"""Whether ratings mean what they say: bands and biases on simulated leagues whose truth is known.

    python -m benchmarks.calibration

A learner improves; snapshots of it are published with its rating; rating matches pair them as the server does; periods
close as the server closes them. At the end the truth is compared with the stored ratings, once with the whole history
fitted at periods' ends and once with Glicko-2 alone. Scores follow the truth by the logistic curve of 400 points.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arena.glicko2 import START_DEVIATION, START_RATING, START_VOLATILITY
from arena.matchmaking import rating_pairs
from league.config import Settings
from league.services import ledger
from league.services.ledger import EMPTY, Roster
from league.services.match_log import Games
from league.services.rating import Entry, Rule, as_ratings

LEARNER, ANCHOR = 1, 2
BAND = 1.959964
NEWEST = 5
FAR = 400.0  # points apart in truth, from where a ladder shows


@dataclass(frozen=True)
class Plan:
    """A league to simulate.

    Attributes:
        snapshots: How many are published.
        step: Mean growth of the learner's strength from one to the next, in points.
        spread: Standard deviation of that growth.
        periods: Rating periods from one to the next.
        matches: Rating matches in each, and training matches of the learner.
    """

    snapshots: int
    step: float
    spread: float
    periods: int
    matches: int


@dataclass(frozen=True)
class Outcome:
    """A league's end: the snapshots' truths, ratings and deviations, oldest first."""

    truth: NDArray[np.float64]
    rating: NDArray[np.float64]
    deviation: NDArray[np.float64]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=40)
    parser.add_argument("--snapshots", type=int, default=40)
    parser.add_argument("--matches", type=int, default=60, help="rating matches a period")
    arguments = parser.parse_args()
    fitted = Rule.of(Settings())
    alone = replace(fitted, refit=replace(fitted.refit, enabled=False))
    print(f"{arguments.leagues} leagues of {arguments.snapshots} snapshots each; shares of truths inside 95 % bands")
    print(
        f"{'growth':>8} {'rated by':18}{'all':>8}{'newest 5':>10}{'bias of newest':>16}"
        f"{'far pairs foretold':>20}{'seen':>8}"
    )
    for step in (0.0, 40.0, 100.0):
        plan = Plan(arguments.snapshots, step, 60.0, 3, arguments.matches)
        for name, rule in (("whole history", fitted), ("Glicko-2 alone", alone)):
            outcomes = [simulate(plan, rule, np.random.default_rng(seed)) for seed in range(arguments.leagues)]
            print(f"{step:>8.0f} {name:18}{_summary(outcomes)}")


def simulate(plan: Plan, rule: Rule, rng: np.random.Generator) -> Outcome:
    """Play a league from its first snapshot to its last."""
    start = Entry("learner", START_RATING, START_DEVIATION, START_VOLATILITY, 0, 0.0)
    newcomers = {LEARNER: start, ANCHOR: replace(start, kind="baseline", deviation=30.0)}
    truth = {LEARNER: START_RATING, ANCHOR: START_RATING}
    parents: dict[int, int | None] = {ANCHOR: None}
    state = EMPTY
    for player in range(ANCHOR + 1, ANCHOR + 1 + plan.snapshots):
        truth[LEARNER] += rng.normal(plan.step, plan.spread)
        truth[player] = truth[LEARNER]
        own = state.entries.get(LEARNER, start)
        newcomers[player] = replace(
            own, kind="snapshot", deviation=max(own.deviation, 80.0), volatility=0.06, games=0, score=0.0
        )
        parents[player] = player - 1 if player - 1 > ANCHOR else None
        for _ in range(plan.periods):
            games = _play({**newcomers, **state.entries}, truth, plan.matches, rng)
            state = state.after(ledger.close(state, Roster(newcomers, parents), games, rule))
    snapshots = [player for player in sorted(truth) if player > ANCHOR]
    entries = [{**newcomers, **state.entries}[player] for player in snapshots]
    return Outcome(
        truth=np.array([truth[player] for player in snapshots]),
        rating=np.array([entry.rating for entry in entries]),
        deviation=np.array([entry.deviation for entry in entries]),
    )


def _play(entries: dict[int, Entry], truth: dict[int, float], matches: int, rng: np.random.Generator) -> Games:
    """Play a period: pairs of frozen players with sides swapped, and the learner against those near it."""
    frozen = np.array([player for player in sorted(entries) if player != LEARNER])
    ratings = as_ratings([entries[player] for player in frozen.tolist()])
    counts = [entries[player].games for player in frozen.tolist()]
    pairs = rating_pairs(ratings.rating, ratings.deviation, counts, matches // 2, rng, anchors=frozen == ANCHOR)
    pairs = frozen[np.concatenate((pairs, pairs[:, ::-1]))]
    near = np.argsort(np.abs(ratings.rating - entries[LEARNER].rating))[:10]
    opponents = frozen[rng.choice(near, matches)]
    home = np.concatenate((pairs[:, 0], np.full(matches, LEARNER)))
    away = np.concatenate((pairs[:, 1], opponents))
    lead = np.array([truth[one] - truth[other] for one, other in zip(home.tolist(), away.tolist(), strict=True)])
    score = (rng.random(lead.size) < 1.0 / (1.0 + 10.0 ** (-lead / 400.0))).astype(np.float64)
    return Games(home, away, score, np.arange(home.size) >= len(pairs))


def _summary(outcomes: list[Outcome]) -> str:
    truth, rating, deviation = (
        np.array([getattr(outcome, name) for outcome in outcomes]) for name in ("truth", "rating", "deviation")
    )
    inside = np.abs(rating - truth) < BAND * deviation
    bias = (rating - truth)[:, -1]
    foretold, seen = _far_pairs(truth, rating)
    error = bias.std(ddof=1) / np.sqrt(bias.size)
    return (
        f"{inside.mean():>8.1%}{inside[:, -NEWEST:].mean():>10.1%}{f'{bias.mean():+.0f} ± {2 * error:.0f}':>16}"
        f"{foretold:>20}{seen:>8}"
    )


def _far_pairs(truth: NDArray[np.float64], rating: NDArray[np.float64]) -> tuple[str, str]:
    """Return the mean score of players far ahead of others, as the ratings foretell it and as the truth has it."""
    ahead = truth[:, :, None] - truth[:, None, :] > FAR
    if not ahead.any():
        return "-", "-"
    scores = [1.0 / (1.0 + 10.0 ** (-(own[:, :, None] - own[:, None, :])[ahead] / 400.0)) for own in (rating, truth)]
    return f"{scores[0].mean():.2%}", f"{scores[1].mean():.2%}"


if __name__ == "__main__":
    main()
