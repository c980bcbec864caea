"""What ratings are worth where the two sides of a game are unlike: leagues whose truth is known.

    python -m studies.sides

A learner improves; snapshots of it are published; rating matches pair them as the server does; periods close as the
server closes them. Each player has a strength, and is better at home than away by what is common to all, the advantage,
and by a part of its own, its talent:

    P(i at home beats j away) = 1 / (1 + exp(-(r_i - r_j + advantage + talent_i + talent_j)))      in points / 173.7178

Truly, a player is worth what it scores on average over both sides against all others. Sides are swapped evenly, or some
players are at home far more often than others, or matches get lost, whichever of a pair they are. The server's leases
swap sides, so that the second does not happen there: it shows how far overall ratings depend on it. Compared are the
overall ratings, which know nothing of sides, and the mean of the two ratings of a player's sides.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import spearmanr

from arena.matchmaking.rating_matches import rating_pairs
from arena.ratings.bradley_terry import NO_PARENT, fit
from arena.ratings.glicko2 import SCALE, START_DEVIATION, START_RATING, START_VOLATILITY, Results
from benchmarks.calibration import ALIKE, ANCHOR, BAND, EVER_MORE, LEARNER
from league.services.matches.log import MatchArrays
from league.services.ratings import state as rating_state
from league.services.ratings.period import PlayerRating, RatingConfig, Roster, as_ratings
from league.services.ratings.sides import SIDES, seat_of
from league.services.ratings.state import EMPTY, RatingState
from league.settings import Settings

FloatArray = NDArray[np.float64]

UNLIKE = RatingConfig.of(Settings(), unlike_sides=True)
OVERALL, MEAN = "overall", "mean of sides"


@dataclass(frozen=True)
class Plan:
    """A league to simulate.

    Attributes:
        snapshots: How many are published.
        step: Mean growth of the learner's strength from one to the next, in points; half of it is its spread.
        advantage: What everybody is better at home than away, in points.
        talent: Standard deviation of players' own part of that, in points.
        uneven: How unlike players are in how often they are at home: 0 swaps sides evenly; at 3 most pairs nearly
            always meet the same way round.
        periods: Rating periods from one snapshot to the next.
        matches: Rating matches in each, and training matches of the learner.
        lost: Share of matches that are not reported, in [0, 1): what is left of their pairs is not swapped.
    """

    snapshots: int
    step: float
    advantage: float
    talent: float
    uneven: float
    periods: int = 3
    matches: int = 64
    lost: float = 0.0

    @property
    def swapping(self) -> str:
        """How sides are swapped, in a word or two."""
        return "unevenly" if self.uneven else f"{self.lost:.0%} lost" if self.lost else "evenly"


@dataclass(frozen=True, eq=False)
class Truth:
    """What players are, the baseline first.

    Attributes:
        home: (P,) strength at home, so that home beats away as their difference says.
        away: (P,) strength away.
        score: (P, P) what the row's player scores against the column's on average over both sides.
        rating: (P,) that says best what everybody scores against all others.
    """

    home: FloatArray
    away: FloatArray
    score: FloatArray
    rating: FloatArray


@dataclass(frozen=True, eq=False)
class Estimate:
    """Ratings (P,) and deviations (P,) of snapshots as one way of rating has them."""

    rating: FloatArray
    deviation: FloatArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """A league's end: the truth of the snapshots, and estimates by name; `sides` of home and of away."""

    truth: Truth
    overall: dict[str, Estimate]
    sides: tuple[Estimate, Estimate]


def population(plan: Plan, rng: np.random.Generator) -> Truth:
    """Make up a baseline and the snapshots of a learner that improves; what it is better at changes slowly."""
    gains = rng.normal(plan.step, 0.5 * plan.step, plan.snapshots)
    strength = START_RATING + np.concatenate(([0.0], np.cumsum(gains)))
    talent = np.empty(strength.size)
    talent[0] = own = rng.normal(0.0, plan.talent)
    for place in range(1, strength.size):
        own = 0.9 * own + np.sqrt(1.0 - 0.9**2) * rng.normal(0.0, plan.talent)
        talent[place] = own
    half = 0.5 * plan.advantage + talent
    home, away = strength + half, strength - half
    chance = expit((home[:, None] - away) / SCALE)
    score = 0.5 * (chance + 1.0 - chance.T)
    one, other = np.triu_indices_from(score, 1)
    results = Results(one, other, score[one, other], np.full(one.size, EVER_MORE))
    start, anchor = np.full(len(score), START_RATING), np.arange(len(score)) == 0
    rating = fit(results, start, anchor=anchor, parent=np.full(len(score), NO_PARENT), config=ALIKE).rating
    return Truth(home, away, score, rating)


def simulate(plan: Plan, seed: int) -> Outcome:
    """Play a league from its first snapshot to its last, rated in every way."""
    rng = np.random.default_rng(seed)
    truth = population(plan, rng)
    state, roster = _league(plan, truth, UNLIKE, rng)
    snapshots = range(ANCHOR + 1, ANCHOR + 1 + plan.snapshots)
    seats = state.seats(roster)
    overall = {OVERALL: _estimate([seats.overall[player] for player in snapshots])}
    home, away = (_estimate([seats.entry(seat_of(player, side)) for player in snapshots]) for side in SIDES)
    overall[MEAN] = Estimate(0.5 * (home.rating + away.rating), 0.5 * np.hypot(home.deviation, away.deviation))
    of_snapshots = Truth(truth.home[1:], truth.away[1:], truth.score[1:, 1:], truth.rating[1:])
    return Outcome(of_snapshots, overall, (home, away))


def _league(plan: Plan, truth: Truth, rule: RatingConfig, rng: np.random.Generator) -> tuple[RatingState, Roster]:
    start = PlayerRating("learner", START_RATING, START_DEVIATION, START_VOLATILITY, 0, 0.0)
    newcomers = {LEARNER: start, ANCHOR: replace(start, kind="baseline", deviation=30.0)}
    roster = Roster(newcomers, {ANCHOR: None}, {})
    habit = rng.normal(0.0, plan.uneven, plan.snapshots + 1)
    pair_games = np.zeros((plan.snapshots + 1, plan.snapshots + 1))
    state = EMPTY
    for player in range(ANCHOR + 1, ANCHOR + 1 + plan.snapshots):
        own = state.entries.get(LEARNER, start)
        deviation = max(own.deviation, 80.0)
        newcomer = replace(own, kind="snapshot", deviation=deviation, volatility=0.06, games=0, score=0.0)
        parent = player - 1 if player - 1 > ANCHOR else None
        roster = Roster(
            {**roster.newcomers, player: newcomer},
            {**roster.parents, player: parent},
            {**roster.learners, player: LEARNER},
        )
        for _ in range(plan.periods):
            games = _play({**roster.newcomers, **state.entries}, truth, pair_games, habit, plan, rng)
            state = state.after(rating_state.apply_period(state, roster, games, rule))
    return state, roster


def _play(
    entries: dict[int, PlayerRating],
    truth: Truth,
    pair_games: FloatArray,
    habit: FloatArray,
    plan: Plan,
    rng: np.random.Generator,
) -> MatchArrays:
    """Play a period: pairs of frozen players, and the learner against those near it.

    The frozen players are 0 for the baseline and so on; the learner plays as the newest of them. `pair_games` counts on.
    """
    frozen = np.array([player for player in sorted(entries) if player != LEARNER])
    ratings = as_ratings([entries[player] for player in frozen.tolist()])
    counts = [entries[player].games for player in frozen.tolist()]
    known, half = slice(frozen.size), plan.matches // 2
    pairs = rating_pairs(
        ratings.rating, ratings.deviation, counts, half, rng, anchors=frozen == ANCHOR, pair_games=pair_games[known, known]
    )
    swapped = pairs[:, ::-1]
    np.add.at(pair_games, tuple(np.concatenate((pairs, swapped)).T), 1.0)
    np.add.at(pair_games, tuple(np.concatenate((swapped, pairs)).T), 1.0)
    near = rng.choice(np.argsort(np.abs(ratings.rating - entries[LEARNER].rating))[:10], plan.matches)
    trained = np.stack((np.full(near.size, frozen.size - 1), near), axis=1)
    trained[1::2] = trained[1::2, ::-1]
    places = np.concatenate((pairs, swapped, trained))
    training = np.arange(len(places)) >= 2 * len(pairs)
    players = frozen[places]
    players[2 * len(pairs) :: 2, 0] = players[2 * len(pairs) + 1 :: 2, 1] = LEARNER
    if plan.uneven:
        turned = rng.random(len(places)) > expit(habit[places[:, 0]] - habit[places[:, 1]])
        places[turned], players[turned] = places[turned, ::-1], players[turned, ::-1]
    chance = expit((truth.home[places[:, 0]] - truth.away[places[:, 1]]) / SCALE)
    score = (rng.random(chance.size) < chance).astype(np.float64)
    told = rng.random(chance.size) >= plan.lost if plan.lost else np.ones(chance.size, dtype=np.bool_)
    return MatchArrays(home=players[told, 0], away=players[told, 1], score=score[told], training=training[told])


def _estimate(entries: list[PlayerRating]) -> Estimate:
    rated = as_ratings(entries)
    return Estimate(rated.rating, rated.deviation)


def order(outcome: Outcome, name: str) -> float:
    """Return Spearman's correlation of ratings with the truth."""
    return float(spearmanr(outcome.overall[name].rating, outcome.truth.rating).statistic)


def misforetold(outcome: Outcome, name: str) -> float:
    """Return how far scores over both sides are from what ratings foretell of them, root mean square over pairs."""
    rating = outcome.overall[name].rating
    return float(np.sqrt(np.square(expit((rating[:, None] - rating) / SCALE) - outcome.truth.score).mean()))


def inside(estimate: Estimate, truth: FloatArray) -> float:
    """Return the share of truths inside the 95 % bands."""
    return float((np.abs(estimate.rating - truth) < BAND * estimate.deviation).mean())


def inside_of_sides(outcome: Outcome) -> float:
    """Return the same of both sides."""
    home, away = outcome.sides
    return 0.5 * (inside(home, outcome.truth.home) + inside(away, outcome.truth.away))


def _report(plan: Plan, outcomes: list[Outcome]) -> None:
    for name in (OVERALL, MEAN):
        numbers = (
            np.mean([order(one, name) for one in outcomes]),
            np.mean([misforetold(one, name) for one in outcomes]),
            np.mean([inside(one.overall[name], one.truth.rating) for one in outcomes]),
        )
        sides = f"{np.mean([inside_of_sides(one) for one in outcomes]):.1%}" if name == OVERALL else ""
        rank, error, share = numbers
        print(
            f"{plan.advantage:>9g}{plan.talent:>8g}{plan.swapping:>10} {name:15}"
            f"{rank:>10.4f}{error:>11.4f}{'' if name == MEAN else f'{share:.1%}':>9}{sides:>9}",
            flush=True,
        )


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=12)
    parser.add_argument("--snapshots", type=int, default=20)
    parser.add_argument("--gain", type=float, default=40.0, help="points a snapshot")
    arguments = parser.parse_args()
    print(f"{arguments.leagues} leagues of {arguments.snapshots} snapshots each; means over them")
    print("order: Spearman's correlation with the truth; foretold: how far scores are from what ratings foretell;")
    print("inside: truths inside 95 % bands, of ratings and of sides")
    heads = f"{'advantage':>9}{'talent':>8}{'swapped':>10} {'rated':15}"
    print(f"{heads}{'order':>10}{'foretold':>11}{'inside':>9}{'sides':>9}")
    for advantage, talent in ((0.0, 0.0), (100.0, 50.0), (400.0, 150.0)):
        for uneven, lost in ((0.0, 0.0), (0.0, 0.2), (2.0, 0.0)):
            plan = Plan(arguments.snapshots, arguments.gain, advantage, talent, uneven, lost=lost)
            _report(plan, [simulate(plan, seed) for seed in range(arguments.leagues)])


if __name__ == "__main__":
    main()
