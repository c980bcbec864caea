"""Whom to play: the distribution over opponents, and draws from it.

A learner's next opponent comes from a mixture of branches. "self-play" takes a fixed share; the rest goes to "warm-up"
while the learner has few games (the skill kernel among opponents near its rating) and to "pfsp" afterwards
(prioritised fictitious self-play on win rates). Inside a branch a small uniform share keeps every opponent possible,
so propensities are never 0 for a candidate that no filter took out.

Rating matches, whose purpose is to learn the players' order, are paired apart, by Thompson sampling.

Sources: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods, "Prioritized fictitious self-play";
Thompson, "On the likelihood that one unknown probability exceeds another" (1933).
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SELF = -1
"""Stands for the learner itself where an opponent's index is expected."""

WinRateWeighting = Literal["hard", "variance", "linear", "capped", "uniform"]
Weighting = Literal["hard", "variance", "linear", "capped", "uniform", "skill"]
BranchName = Literal["self-play", "warm-up", "pfsp"]

WEIGHT_FLOOR = 1e-10  # weights that sum to less say nothing: uniform instead

_DISTANCE_MAX = 1e150  # in sigmas; its square is finite


@dataclass(frozen=True)
class MatchmakingConfig:
    """How a learner's opponents are chosen.

    Attributes:
        self_play_share: Probability of playing against oneself, in [0, 1].
        weighting: Preference among opponents once warm; see `pfsp_weights` and, for "skill", `skill_weights`.
        power: Exponent of the weighting "hard", >= 0.
        skill_sigma: Width of the skill kernel in rating points, > 0.
        warm_up_games: A learner with fewer games is in warm-up, >= 0.
        warm_up_widths: Rating distances tried one after the other until somebody is near enough; then everybody.
        uniform_share: Share of the uniform distribution mixed into a branch, in [0, 1].

    Raises:
        ValueError: A value is out of its range.
    """

    self_play_share: float = 0.35
    weighting: Weighting = "hard"
    power: float = 2.0
    skill_sigma: float = 200.0
    warm_up_games: int = 20
    warm_up_widths: tuple[float, ...] = (200.0, 400.0, 800.0)
    uniform_share: float = 0.05

    def __post_init__(self) -> None:
        _require_share("self_play_share", self.self_play_share)
        _require_share("uniform_share", self.uniform_share)
        _require_weighting(self.weighting, get_args(Weighting))
        _require_power(self.power)
        _require_sigma("skill_sigma", self.skill_sigma)
        if self.warm_up_games < 0:
            raise ValueError(f"warm_up_games is {self.warm_up_games}: it must be 0 or more; 0 skips the warm-up")
        if not (np.diff((0.0, *self.warm_up_widths)) > 0.0).all():
            raise ValueError(f"warm_up_widths is {self.warm_up_widths}: widths must be above 0 and grow")


@dataclass(frozen=True, eq=False)
class Candidates:
    """What matchmaking knows when a learner asks for opponents.

    Attributes:
        learner_rating: The learner's rating in points.
        learner_games: Games behind that rating, >= 0.
        ratings: (K,) float64 ratings of the possible opponents, in points. K may be 0.
        win_rates: (K,) float64 probability that the learner beats each, in [0, 1].

    Raises:
        ValueError: A value is not finite, is out of range, or the columns differ in length.
    """

    learner_rating: float
    learner_games: int
    ratings: FloatArray
    win_rates: FloatArray

    def __post_init__(self) -> None:
        if not np.isfinite(self.learner_rating):
            raise ValueError(f"learner_rating is {self.learner_rating}: it must be finite")
        if self.learner_games < 0:
            raise ValueError(f"learner_games is {self.learner_games}: it must be 0 or more")
        ratings, win_rates = _ratings("ratings", self.ratings), _win_rates(self.win_rates)
        if ratings.size != win_rates.size:
            raise ValueError(f"{ratings.size} ratings but {win_rates.size} win_rates: pass one of each per opponent")
        object.__setattr__(self, "ratings", ratings)
        object.__setattr__(self, "win_rates", win_rates)


@dataclass(frozen=True, eq=False)
class Branch:
    """One component of the mixture over the K opponents.

    Attributes:
        name: "warm-up" or "pfsp".
        share: Probability that the branch is taken, in [0, 1].
        rule: How it weighs opponents, in words.
        weights: (K,) distribution inside the branch, uniform share mixed in; sums to 1.
        excluded: (K,) true for opponents that a filter took out; their weight is 0.
        filter: What the filter asks for in words; empty where nothing is asked.
    """

    name: BranchName
    share: float
    rule: str
    weights: FloatArray
    excluded: BoolArray
    filter: str


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distribution that a learner's next opponent is drawn from, with the account of how it came about.

    Attributes:
        self_play: Probability of playing against oneself; 1 where there is no opponent.
        branches: What the rest is made of; empty where there is no opponent.
        probabilities: (K,) final probability of each opponent. They and `self_play` sum to 1.
    """

    self_play: float
    branches: tuple[Branch, ...]
    probabilities: FloatArray


@dataclass(frozen=True, eq=False)
class Draws:
    """Opponents drawn for one request.

    Attributes:
        opponents: (N,) int64 index of the opponent, or SELF.
        propensities: (N,) probability, in (0, 1], with which a draw gives that opponent.
        branches: N names of the branches taken.
    """

    opponents: IntArray
    propensities: FloatArray
    branches: tuple[BranchName, ...]


def pfsp_weights(win_rates: ArrayLike, weighting: WinRateWeighting = "hard", power: float = 2.0) -> FloatArray:
    """Weigh opponents by how useful a game against each is.

        hard      (1 - x)^power       who beats me
        variance  x (1 - x)           who is even with me
        linear    1 - x
        capped    min(0.5, 1 - x)     who beats me, all stronger ones alike
        uniform   1

    Equal win rates give uniform weights. Where the weights sum to less than 1e-10 (everybody is always beaten) they
    are uniform as well.

    Args:
        win_rates: (K,) probability x that the learner beats each opponent, in [0, 1].
        weighting: One of the names above.
        power: Exponent of "hard", >= 0; 0 is uniform, larger looks harder at the strongest.

    Returns:
        (K,) weights that sum to 1. An empty pool has no distribution and gives an empty array:
        `opponent_distribution` turns it into self-play.

    Raises:
        ValueError: A win rate is not in [0, 1], the weighting is unknown, or the power is negative.

    Source: Vinyals et al. (2019), methods; "capped" is min(0.5, 1 - x) of its league exploiters' pseudocode.
    """
    x = _win_rates(win_rates)
    _require_weighting(weighting, get_args(WinRateWeighting))
    _require_power(power)
    match weighting:
        case "hard":
            weights = (1.0 - x) ** power
        case "variance":
            weights = x * (1.0 - x)
        case "linear":
            weights = 1.0 - x
        case "capped":
            weights = np.minimum(0.5, 1.0 - x)
        case "uniform":
            weights = np.ones_like(x)
    return _normalised(weights)


def skill_weights(rating: float, ratings: ArrayLike, sigma: float = 200.0) -> FloatArray:
    """Weigh opponents by closeness of rating.

        w_j proportional to exp(-(r - r_j)^2 / (2 sigma^2))

    Taken relative to the nearest opponent in log space, so that a pool thousands of points away still has weights.

    Args:
        rating: The learner's rating in points.
        ratings: (K,) opponents' ratings in points.
        sigma: Width of the kernel in points, > 0.

    Returns:
        (K,) weights that sum to 1; empty for an empty pool.

    Raises:
        ValueError: A rating is not finite or sigma is not above 0.
    """
    opponents = _ratings("ratings", ratings)
    if not np.isfinite(rating):
        raise ValueError(f"rating is {rating}: it must be finite")
    _require_sigma("sigma", sigma)
    with np.errstate(over="ignore"):
        distance = np.minimum(np.abs(opponents - rating) / sigma, _DISTANCE_MAX)
    nearest = distance.min(initial=_DISTANCE_MAX)
    return _normalised(np.exp(-0.5 * (distance - nearest) * (distance + nearest)))


def effective_opponents(weights: ArrayLike) -> float:
    """Count opponents by how evenly they are weighed.

        exp(-sum_j w_j ln w_j)

    K equal weights give K, a single weight of 1 gives 1; weights of 0 do not count.

    Args:
        weights: (K,) distribution over opponents, >= 0, with a sum of 1. K may be 0: there is then nobody, 0.

    Source: Hill, "Diversity and evenness" (1973), the number of order 1.
    """
    w = np.asarray(weights, dtype=np.float64)
    likely = w[w > 0.0]
    return float(np.exp(-np.sum(likely * np.log(likely)))) if likely.size else 0.0


def opponent_distribution(candidates: Candidates, config: MatchmakingConfig) -> Distribution:
    """Return the distribution of a learner's next opponent.

    Self-play takes its share, all of it where there is no opponent. A learner with fewer than `warm_up_games` games
    meets only opponents within the first of `warm_up_widths` that has any, by the skill kernel; a warm one meets
    everybody by the configured weighting.

    Args:
        candidates: The learner and its K possible opponents.
        config: Shares, weighting and widths.
    """
    count = candidates.ratings.size
    if count == 0:
        return Distribution(self_play=1.0, branches=(), probabilities=np.zeros(0))
    warming = candidates.learner_games < config.warm_up_games
    branch = _warm_up_branch(candidates, config) if warming else _pfsp_branch(candidates, config)
    return Distribution(
        self_play=config.self_play_share, branches=(branch,), probabilities=branch.share * branch.weights
    )


def draw(distribution: Distribution, count: int, rng: np.random.Generator) -> Draws:
    """Draw opponents by systematic sampling.

    Each draw alone follows the distribution exactly; together they follow it as evenly as `count` allows: an option
    of probability p is taken floor(p count) or ceil(p count) times. The order is shuffled.

    Args:
        distribution: Of K opponents and oneself.
        count: How many opponents, >= 1.
        rng: Source of chance.

    Raises:
        ValueError: The count is under 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}: draw at least one opponent")
    opponents = distribution.probabilities.size
    shares = [branch.share * branch.weights for branch in distribution.branches]
    edges = np.cumsum(np.concatenate(([distribution.self_play], *shares)))
    points = np.minimum((np.arange(count) + rng.random()) / count, np.nextafter(1.0, 0.0))
    taken = rng.permutation(np.searchsorted(edges / edges[-1], points, side="right"))

    chosen = np.where(taken == 0, SELF, (taken - 1) % max(opponents, 1))
    propensity = np.append(distribution.probabilities, distribution.self_play)[chosen]
    names: list[BranchName] = ["self-play", *(branch.name for branch in distribution.branches)]
    branch_of = np.where(taken == 0, 0, 1 + (taken - 1) // max(opponents, 1))
    return Draws(opponents=chosen, propensities=propensity, branches=tuple(names[i] for i in branch_of))


def rating_pairs(
    ratings: ArrayLike,
    deviations: ArrayLike,
    games: ArrayLike,
    count: int,
    rng: np.random.Generator,
    *,
    anchors: ArrayLike | None = None,
) -> IntArray:
    """Pair players for rating matches: newcomers first, each with its neighbour in a sample of the ratings.

    A rating is sampled for everybody from N(rating, deviation^2). Players are served by fewest games, then largest
    deviation; each is paired with the unpaired player nearest in the sample. When all are paired and more pairs are
    wanted, a new round starts with new samples. Two anchors are never paired, for their ratings cannot move.

    Args:
        ratings: (P,) ratings in points.
        deviations: (P,) deviations in points, >= 0.
        games: (P,) rated games behind each rating, >= 0.
        count: Pairs wanted, >= 0.
        rng: Source of chance.
        anchors: (P,) true for players whose rating never moves; None for nobody.

    Returns:
        (count, 2) int64 player indices, two different players in each row; (0, 2) where no pair can be made.

    Raises:
        ValueError: Columns differ in length, a value is out of range.

    Source: Thompson sampling of pairs, chosen for games needed to recover the players' order.
    """
    rating, deviation = _ratings("ratings", ratings), _ratings("deviations", deviations)
    played = np.asarray(games, dtype=np.int64)
    anchor = np.zeros(rating.size, dtype=bool) if anchors is None else np.asarray(anchors, dtype=bool)
    if not rating.shape == deviation.shape == played.shape == anchor.shape:
        raise ValueError(
            f"{rating.size} ratings, {deviation.size} deviations, {played.size} games, {anchor.size} anchors: "
            "pass one of each per player"
        )
    if (deviation < 0.0).any():
        raise ValueError(f"a deviation is {deviation.min()}: it must be 0 or more")
    if count < 0:
        raise ValueError(f"count is {count}: it must be 0 or more")

    pairs: list[tuple[int, int]] = []
    while len(pairs) < count:
        sample = rng.normal(rating, deviation)
        order = np.lexsort((rng.random(rating.size), -deviation, played))
        one_round = _pair_neighbours(sample, order[~anchor[order]], anchor, count - len(pairs))
        if not one_round:
            break
        pairs += one_round
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _warm_up_branch(candidates: Candidates, config: MatchmakingConfig) -> Branch:
    distance = np.abs(candidates.ratings - candidates.learner_rating)
    width = next((width for width in config.warm_up_widths if (distance <= width).any()), np.inf)
    near = distance <= width
    weights = np.zeros(distance.size)
    kernel = skill_weights(candidates.learner_rating, candidates.ratings[near], config.skill_sigma)
    weights[near] = _mixed(kernel, config.uniform_share)
    return Branch(
        name="warm-up",
        share=1.0 - config.self_play_share,
        rule=_in_words("skill", config),
        weights=weights,
        excluded=~near,
        filter="" if np.isinf(width) else f"rating within {width:g} of {candidates.learner_rating:.0f}",
    )


def _pfsp_branch(candidates: Candidates, config: MatchmakingConfig) -> Branch:
    if config.weighting == "skill":
        weights = skill_weights(candidates.learner_rating, candidates.ratings, config.skill_sigma)
    else:
        weights = pfsp_weights(candidates.win_rates, config.weighting, config.power)
    return Branch(
        name="pfsp",
        share=1.0 - config.self_play_share,
        rule=_in_words(config.weighting, config),
        weights=_mixed(weights, config.uniform_share),
        excluded=np.zeros(weights.size, dtype=bool),
        filter="",
    )


def _in_words(weighting: Weighting, config: MatchmakingConfig) -> str:
    words: dict[Weighting, str] = {
        "hard": f"(1 - win rate)^{config.power:g}: who beats the learner",
        "variance": "win rate x (1 - win rate): who is even with the learner",
        "linear": "1 - win rate: who beats the learner",
        "capped": "min(0.5, 1 - win rate): who beats the learner, all stronger ones alike",
        "uniform": "everybody alike",
        "skill": f"nearness of rating, sigma {config.skill_sigma:g}",
    }
    mixed = f"; {config.uniform_share:.0%} uniform" if config.uniform_share else ""
    return words[weighting] + mixed


def _pair_neighbours(sample: FloatArray, order: IntArray, anchor: BoolArray, count: int) -> list[tuple[int, int]]:
    """Pair the players of `order`, first come first served, with the free player nearest in the sample."""
    free = np.ones(sample.size, dtype=bool)
    pairs: list[tuple[int, int]] = []
    for player in order:
        if len(pairs) == count:
            break
        if not free[player]:
            continue
        free[player] = False
        others = np.flatnonzero(free)
        if others.size:
            partner = others[np.argmin(np.abs(sample[others] - sample[player]))]
            free[partner] = False
            pairs.append((int(player), int(partner)))
    return pairs


def _mixed(weights: FloatArray, uniform_share: float) -> FloatArray:
    return (1.0 - uniform_share) * weights + uniform_share / weights.size


def _normalised(weights: FloatArray) -> FloatArray:
    total = float(weights.sum())
    if total < WEIGHT_FLOOR:
        return np.full(weights.size, 1.0 / max(weights.size, 1))
    return weights / total


def _ratings(name: str, values: ArrayLike) -> FloatArray:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"{name} has shape {column.shape}: pass one value per player, shape (count,)")
    wrong = np.flatnonzero(~np.isfinite(column))
    if wrong.size:
        raise ValueError(f"{name}[{wrong[0]}] is {column[wrong[0]]}: every value must be finite")
    return column


def _win_rates(values: ArrayLike) -> FloatArray:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"win_rates has shape {column.shape}: pass one value per opponent, shape (count,)")
    wrong = np.flatnonzero(~((column >= 0.0) & (column <= 1.0)))
    if wrong.size:
        raise ValueError(f"win_rates[{wrong[0]}] is {column[wrong[0]]}: a win rate lies in [0, 1]")
    return column


def _require_weighting(weighting: str, known: tuple[str, ...]) -> None:
    if weighting not in known:
        raise ValueError(f"weighting is {weighting!r}: choose one of {', '.join(known)}")


def _require_power(power: float) -> None:
    if not 0.0 <= power < np.inf:
        raise ValueError(f"power is {power}: it must be finite and 0 or more; 2 is usual")


def _require_sigma(name: str, sigma: float) -> None:
    if not 0.0 < sigma < np.inf:
        raise ValueError(f"{name} is {sigma}: it must be finite and above 0; 200 is usual")


def _require_share(name: str, share: float) -> None:
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{name} is {share}: a share lies in [0, 1]")
