"""Whether ratings mean what they say: bands and biases on simulated leagues whose truth is known.

    python -m benchmarks.calibration

A learner improves; snapshots of it are published with its rating; rating matches pair them as the server does, as many
a lease as evaluators play; periods close as the server closes them. At the end the truth is compared with the stored
ratings: with the whole history fitted at periods' ends, the same without the correlation of a pair's games, and with
Glicko-2 alone. The pair model's ratings are those of a round robin that it predicts from the same matches.

Scores follow strengths by the logistic curve of 400 points. With an intransitive share the log-odds of each pair have a
part of their own besides; the truth is then the rating that says best what everybody scores against all others on
average, which is nearer to theirs than its strength.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy

from arena.matchmaking.rating_matches import rating_pairs
from arena.population.promotion import PromotionConfig
from arena.ratings import pair_model
from arena.ratings.bradley_terry import NO_PARENT, fit
from arena.ratings.bradley_terry_config import RefitConfig
from arena.ratings.glicko2 import SCALE, START_DEVIATION, START_RATING, START_VOLATILITY, Results
from arena.ratings.pair_model import PairModel, Priors
from arena.ratings.pair_round_robin import round_robin
from benchmarks import record
from benchmarks.ratings import positions
from league.services.matches.log import MatchArrays
from league.services.matches.pair_records import PairRecords
from league.services.ratings import state as rating_state
from league.services.ratings.period import PlayerRating, RatingConfig, Roster, as_ratings
from league.services.ratings.state import EMPTY
from league.settings import Settings

FloatArray = NDArray[np.float64]

LEARNER, ANCHOR = 1, 2
BAND = 1.959964
NEWEST = 5
FAR = 400.0  # points apart in truth, from where a ladder shows
EVER_MORE = 10**6  # games
ALIKE = RefitConfig(pair_correlation=False)


@dataclass(frozen=True)
class Plan:
    """A league to simulate.

    Attributes:
        snapshots: How many are published.
        step: Mean growth of the learner's strength from one to the next, in points.
        spread: Standard deviation of that growth.
        periods: Rating periods from one to the next.
        matches: Rating matches in each, and training matches of the learner.
        budget: Matches of a rating lease; a pair plays two leases at a time.
        intransitive: Share of all squared log-odds that strengths do not explain, in [0, 1).
        drift: 1 less the correlation of a player's position in a cycle with its parent's, in (0, 1]. 0: there are no
            positions, and each pair has a part of its own.
        max_error: Players with a larger standard error are paired first, in points. Infinity: no player is.
    """

    snapshots: int
    step: float
    spread: float
    periods: int
    matches: int
    budget: int
    intransitive: float
    drift: float = 0.0
    max_error: float = PromotionConfig().max_error


@dataclass(frozen=True, eq=False)
class Truth:
    """What a league's frozen players are, the baseline first: true ratings (P,), and log-odds of each against each."""

    rating: FloatArray
    log_odds: FloatArray


@dataclass(frozen=True, eq=False)
class Outcome:
    """A league's end: the snapshots' truths, log-odds against each other, ratings and deviations, oldest first.

    `history` are the rating matches between all frozen players, the baseline first. `wait` is the number of rating
    matches of the league from a snapshot's publication until its interval is narrow enough for a promotion, infinity if
    it never was. `log_loss` is that of the pair model, in nats per game, for snapshots that have not met.
    """

    truth: FloatArray
    log_odds: FloatArray
    rating: FloatArray
    deviation: FloatArray
    wait: FloatArray
    history: Results
    log_loss: float = np.nan


PAIR_MODEL = "pair model"
FITTED = RatingConfig.of(Settings())
RULES = {
    "whole history": FITTED,
    PAIR_MODEL: FITTED,
    "without correlation": replace(FITTED, refit=replace(FITTED.refit, pair_correlation=False)),
    "Glicko-2 alone": replace(FITTED, refit=replace(FITTED.refit, enabled=False)),
}


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--leagues", type=int, default=40)
    parser.add_argument("--snapshots", type=int, default=40)
    parser.add_argument("--matches", type=int, default=64, help="rating matches a period")
    parser.add_argument("--budget", type=int, default=1, help="matches of a rating lease")
    parser.add_argument("--gains", type=float, nargs="+", default=[0.0, 40.0, 100.0], help="points a snapshot")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.3], help="intransitive, in [0, 1)")
    parser.add_argument(
        "--drift", type=float, default=0.0, help="of cyclic positions, in (0, 1]; 0: pairs are unrelated"
    )
    parser.add_argument(
        "--max-error",
        type=float,
        default=PromotionConfig().max_error,
        help="above it, players are paired first",
    )
    parser.add_argument("--rules", nargs="+", choices=list(RULES), default=list(RULES), help="how players are rated")
    record.add_json_option(parser)
    arguments = parser.parse_args()
    rows = []
    print(f"{arguments.leagues} leagues of {arguments.snapshots} snapshots each; shares of truths inside 95 % bands")
    print(
        "and the bias of the newest snapshot with twice their standard errors over leagues; median rating matches of a"
    )
    print("league from a snapshot's publication until it can be promoted")
    print(
        f"{'circles':>8}{'gain':>6} {'rated by':20}{'all':>15}{'newest 5':>15}{'bias of newest':>16}{'error':>7}"
        f"{'far pairs foretold':>20}{'seen':>8}{'wait':>7}{'log-loss':>10}"
    )
    for share in arguments.shares:
        for gain in arguments.gains:
            plan = Plan(
                arguments.snapshots, gain, 60.0, 3, arguments.matches, arguments.budget, share, arguments.drift,
                arguments.max_error,
            )  # fmt: skip
            for name in arguments.rules:
                outcomes = [
                    simulate(plan, RULES[name], np.random.default_rng(seed)) for seed in range(arguments.leagues)
                ]
                if name == PAIR_MODEL:
                    outcomes = [rated_by_pair_model(outcome) for outcome in outcomes]
                print(f"{share:>8g}{gain:>6g} {name:20}{_summary(outcomes)}", flush=True)
                rows.append(_row(plan, name, outcomes))
    record.write(arguments.json, "calibration", rows)


def population(plan: Plan, rng: np.random.Generator) -> Truth:
    """Make up a baseline and the snapshots of a learner that improves."""
    gains = rng.normal(plan.step, plan.spread, plan.snapshots)
    strength = START_RATING + np.concatenate(([0.0], np.cumsum(gains)))
    lead = (strength[:, None] - strength) / SCALE
    explained = np.square(lead[np.triu_indices_from(lead, 1)]).mean()
    unexplained = plan.intransitive / (1.0 - plan.intransitive) * explained
    if plan.drift:
        u, v = _positions(plan, rng) * (unexplained / 2.0) ** 0.25
        log_odds = lead + np.outer(u, v) - np.outer(v, u)
    else:
        own = np.triu(rng.normal(0.0, np.sqrt(unexplained), lead.shape), 1)
        log_odds = lead + own - own.T
    return Truth(_on_average(log_odds), log_odds)


def _positions(plan: Plan, rng: np.random.Generator) -> FloatArray:
    """Return positions of variance 1 in one cyclic component, (2, P), which drift along the lineage."""
    parent = np.arange(-1, plan.snapshots)
    parent[:2] = NO_PARENT  # the baseline and the first snapshot
    return positions(parent, 1.0 - plan.drift, rng)


def _on_average(log_odds: FloatArray) -> FloatArray:
    """Return the ratings of what everybody scores against all others, the first player's being the start."""
    home, away = np.triu_indices_from(log_odds, 1)
    results = Results(home, away, expit(log_odds[home, away]), np.full(home.size, EVER_MORE))
    start, anchor = np.full(len(log_odds), START_RATING), np.arange(len(log_odds)) == 0
    return fit(results, start, anchor=anchor, parent=np.full(len(log_odds), NO_PARENT), config=ALIKE).rating


def simulate(plan: Plan, rule: RatingConfig, rng: np.random.Generator) -> Outcome:
    """Play a league from its first snapshot to its last."""
    truth = population(plan, rng)
    start = PlayerRating("learner", START_RATING, START_DEVIATION, START_VOLATILITY, 0, 0.0)
    newcomers = {LEARNER: start, ANCHOR: replace(start, kind="baseline", deviation=30.0)}
    parents: dict[int, int | None] = {ANCHOR: None}
    pair_games = np.zeros_like(truth.log_odds)
    state = EMPTY
    snapshots = range(ANCHOR + 1, ANCHOR + 1 + plan.snapshots)
    wait = dict.fromkeys(snapshots, np.inf)
    for published, player in enumerate(snapshots):
        own = state.entries.get(LEARNER, start)
        newcomers[player] = replace(
            own, kind="snapshot", deviation=max(own.deviation, 80.0), volatility=0.06, games=0, score=0.0
        )
        parents[player] = player - 1 if player - 1 > ANCHOR else None
        for period in range(1, plan.periods + 1):
            games = _lease_and_report({**newcomers, **state.entries}, truth, pair_games, plan, rng)
            state = state.after(rating_state.apply_period(state, Roster(newcomers, parents, {}), games, rule))
            for index, each in enumerate(snapshots[: published + 1]):
                if {**newcomers, **state.entries}[each].uncertainty <= PromotionConfig().max_error:
                    passed = plan.matches * (plan.periods * (published - index) + period)
                    wait[each] = min(wait[each], passed)
    entries = [{**newcomers, **state.entries}[player] for player in snapshots]
    return Outcome(
        truth=truth.rating[1:],
        log_odds=truth.log_odds[1:, 1:],
        rating=np.array([entry.rating for entry in entries]),
        deviation=np.array([entry.deviation for entry in entries]),
        wait=np.array(list(wait.values())),
        history=_history(state.records),
    )


def _history(records: PairRecords) -> Results:
    frozen = (records.low >= ANCHOR) & (records.high >= ANCHOR)
    return Results(
        home=records.low[frozen] - ANCHOR,
        away=records.high[frozen] - ANCHOR,
        score=np.clip(records.points[frozen] / records.games[frozen], 0.0, 1.0),
        games=records.matches[frozen],
    )


def rated_by_pair_model(outcome: Outcome) -> Outcome:
    """Return an outcome with the ratings of a round robin that the pair model predicts."""
    players = outcome.rating.size + 1
    anchor = np.arange(players) == 0
    parent = np.concatenate(([NO_PARENT, NO_PARENT], np.arange(1, players - 1)))
    priors = Priors(np.concatenate(([START_RATING], outcome.rating)), anchor, parent)
    model = pair_model.fit(outcome.history, priors)
    found = round_robin(model, anchor)
    return replace(
        outcome, rating=found.rating[1:], deviation=found.deviation[1:], log_loss=_log_loss_of_strangers(model, outcome)
    )


def _log_loss_of_strangers(model: PairModel, outcome: Outcome) -> float:
    """Return the expected log-loss of games of snapshots that have not met, of which player 0 of the model is none."""
    met = np.zeros((model.rating.size, model.rating.size), dtype=np.bool_)
    met[model.played.low, model.played.high] = True
    low, high = np.nonzero(np.triu(~met[1:, 1:], 1))
    chance, expected = expit(outcome.log_odds[low, high]), model.expected(low + 1, high + 1)
    return float(-(xlogy(chance, expected) + xlogy(1.0 - chance, 1.0 - expected)).mean())


def _lease_and_report(
    entries: dict[int, PlayerRating], truth: Truth, pair_games: FloatArray, plan: Plan, rng: np.random.Generator
) -> MatchArrays:
    """Play a period: pairs of frozen players with sides swapped, and the learner against those near it.

    The frozen players are 0 for the baseline and so on; the learner plays as the newest of them. `pair_games`
    counts on.
    """
    frozen = np.array([player for player in sorted(entries) if player != LEARNER])
    ratings = as_ratings([entries[player] for player in frozen.tolist()])
    counts = [entries[player].games for player in frozen.tolist()]
    known = slice(frozen.size)
    pairs = rating_pairs(
        ratings.rating,
        ratings.deviation,
        counts,
        plan.matches // (2 * plan.budget),
        rng,
        anchors=frozen == ANCHOR,
        pair_games=pair_games[known, known],
        provisional=[entries[player].uncertainty > plan.max_error for player in frozen.tolist()],
    )
    home, away = np.repeat(np.concatenate((pairs, pairs[:, ::-1])), plan.budget, axis=0).T
    np.add.at(pair_games, (home, away), 1.0)
    np.add.at(pair_games, (away, home), 1.0)
    near = rng.choice(np.argsort(np.abs(ratings.rating - entries[LEARNER].rating))[:10], plan.matches)
    chance = np.concatenate((expit(truth.log_odds[home, away]), expit(truth.log_odds[frozen.size - 1, near])))
    return MatchArrays(
        home=np.concatenate((frozen[home], np.full(near.size, LEARNER))),
        away=frozen[np.concatenate((away, near))],
        score=(rng.random(chance.size) < chance).astype(np.float64),
        training=np.arange(chance.size) >= home.size,
    )


def _summary(outcomes: list[Outcome]) -> str:
    truth, rating, deviation, log_odds = (
        np.array([getattr(outcome, name) for outcome in outcomes])
        for name in ("truth", "rating", "deviation", "log_odds")
    )
    inside = np.abs(rating - truth) < BAND * deviation
    bias = (rating - truth)[:, -1]
    foretold, seen = _far_pairs(truth, rating, log_odds)
    shares = (f"{share.mean():.1%} ± {_twice_error(share):.1%}" for share in (inside, inside[:, -NEWEST:]))
    return (
        "".join(f"{share:>15}" for share in shares) + f"{f'{bias.mean():+.0f} ± {_twice_error(bias):.0f}':>16}"
        f"{np.sqrt(np.square(rating - truth).mean()):>7.0f}{foretold:>20}{seen:>8}{_wait(outcomes):>7.0f}"
        f"{_log_loss(outcomes):>10.4f}"
    )


def _row(plan: Plan, name: str, outcomes: list[Outcome]) -> record.Row:
    inside = np.array([np.abs(each.rating - each.truth) < BAND * each.deviation for each in outcomes])
    league = f"intransitive share {plan.intransitive:g}, drift {plan.drift:g}, gain {plan.step:g}"
    bias = np.array([(each.rating - each.truth)[-1] for each in outcomes])
    newest = f"newest {bias.mean():+.0f} ± {_twice_error(bias):.0f} points"
    if name == PAIR_MODEL:
        newest += f", log-loss of pairs that have not met {_log_loss(outcomes):.4f}"
    waited = f"{_wait(outcomes):.0f} rating matches until a median snapshot can be promoted"
    return {
        "work": f"true ratings inside 95 % intervals, {league}, {name}",
        "measured": f"{inside.mean():.1%} ± {_twice_error(inside):.1%}, {newest}, {waited}",
        "aim": "93 to 97 %" if name == (PAIR_MODEL if plan.drift else "whole history") else "",
    }


def _wait(outcomes: list[Outcome]) -> float:
    """Return the median number of rating matches until a snapshot can be promoted; infinity if most never can."""
    return float(np.median([outcome.wait for outcome in outcomes]))


def _log_loss(outcomes: list[Outcome]) -> float:
    return float(np.mean([outcome.log_loss for outcome in outcomes]))


def _twice_error(values: NDArray[np.generic]) -> float:
    """Return twice the standard error of a mean over leagues, (leagues, ...): the players of a league err together."""
    by_league = values.reshape(len(values), -1).mean(axis=1)
    return float(2.0 * by_league.std(ddof=1) / np.sqrt(by_league.size))


def _far_pairs(truth: FloatArray, rating: FloatArray, log_odds: FloatArray) -> tuple[str, str]:
    """Return the mean score of players far ahead of others, as the ratings foretell it and as it is."""
    ahead = truth[:, :, None] - truth[:, None, :] > FAR
    if not ahead.any():
        return "-", "-"
    leads = (rating[:, :, None] - rating[:, None, :]) / SCALE, log_odds
    foretold, seen = (expit(lead[ahead]).mean() for lead in leads)
    return f"{foretold:.2%}", f"{seen:.2%}"


if __name__ == "__main__":
    main()
