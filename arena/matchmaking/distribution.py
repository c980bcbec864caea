"""Opponent distribution of a learner, and sampling from it.

The distribution is a mixture of branches. "self-play" takes a fixed share. While the learner has few games, the rest
goes to "warm-up", a Gaussian kernel over opponents of similar rating. Afterwards it goes to one weighting rule ("pfsp",
prioritised fictitious self-play if the rule uses win rates) or is divided among several rules, each with a branch of
its own. A small uniform share within each branch gives every opponent that passes the filter a positive probability, so
propensities are never 0.

Rules weight snapshots, so a learner with many snapshots is chosen more often. With balance "learners", each weight is
divided by the number of snapshots of the same learner.

Rating matches serve to estimate the ranking and are paired separately in `arena.matchmaking.rating_matches`.

Sources: Vinyals et al., "Grandmaster level in StarCraft II" (2019), methods, "Prioritized fictitious self-play".
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from arena.arrays import BoolArray, FloatArray, IntArray
from arena.matchmaking.pfsp import (
    WEIGHT_FLOOR,
    normalize,
    rating_kernel,
    require_power,
    require_share,
    require_sigma,
)
from arena.matchmaking.rules import Candidates, Need, Rule, find_rule

Balance = Literal["snapshots", "learners"]
"""Whether opponent weights are normalised per snapshot or per learner."""

SELF = -1
"""Index of the learner itself among opponents."""

SELF_PLAY = "self-play"
WARM_UP = "warm-up"
PFSP = "pfsp"


@dataclass(frozen=True)
class MatchmakingConfig:
    """Settings of a learner's opponent distribution.

    Attributes:
        self_play_share: Probability of self-play, in [0, 1].
        weighting: Name of the weighting rule after the warm-up (see `arena.matchmaking.rules`).
        mixture: Names of rules and their shares, > 0, of the probability not used by self-play. They need not sum to 1.
            If not empty, it replaces `weighting`.
        power: Exponent of the weighting "hard", >= 0.
        skill_sigma: Width of the skill kernel in rating points, > 0.
        warm_up_games: A learner with fewer games is in warm-up, >= 0.
        warm_up_widths: Increasing rating distances; warm-up uses the first that contains an opponent, else all
            opponents.
        uniform_share: Share of the uniform distribution mixed into a branch, in [0, 1].
        balance: Normalisation of rules and of the uniform share. With "learners", the weight of each of n snapshots of
            one learner is divided by n. A baseline counts as one learner. Warm-up always counts snapshots.
        past_games: Window of the rule "forgotten", >= 2: a learner's last games, split into halves per opponent.

    Raises:
        ValueError: A value is out of range.
    """

    self_play_share: float = 0.35
    weighting: str = "hard"
    mixture: tuple[tuple[str, float], ...] = ()
    power: float = 2.0
    skill_sigma: float = 200.0
    warm_up_games: int = 20
    warm_up_widths: tuple[float, ...] = (200.0, 400.0, 800.0)
    uniform_share: float = 0.05
    balance: Balance = "snapshots"
    past_games: int = 20_000

    def __post_init__(self) -> None:
        require_share("self_play_share", self.self_play_share)
        require_share("uniform_share", self.uniform_share)
        require_power(self.power)
        require_sigma("skill_sigma", self.skill_sigma)
        _require_mixture(self.mixture)
        for name in (self.weighting, *(name for name, _ in self.mixture)):
            self.rule(name)
        if self.balance not in get_args(Balance):
            raise ValueError(f"balance is {self.balance!r}: choose one of {', '.join(get_args(Balance))}")
        if self.past_games < 2:
            raise ValueError(f"past_games is {self.past_games}: it must be 2 or more, for two halves")
        if self.warm_up_games < 0:
            raise ValueError(f"warm_up_games is {self.warm_up_games}: it must be 0 or more; 0 skips the warm-up")
        if not (np.diff((0.0, *self.warm_up_widths)) > 0.0).all():
            raise ValueError(f"warm_up_widths is {self.warm_up_widths}: widths must be above 0 and grow")

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Names and shares of the rules used after the warm-up."""
        return self.mixture or ((self.weighting, 1.0),)

    def warming(self, learner_games: int) -> bool:
        """Return whether a learner with this number of games is in warm-up."""
        return learner_games < self.warm_up_games

    def needs(self, learner_games: int) -> frozenset[Need]:
        """Return the data that the active rules need beyond ratings and win rates."""
        if self.warming(learner_games):
            return frozenset()
        return frozenset[Need]().union(*(self.rule(name).needs for name, _ in self.parts))

    def rule(self, name: str) -> Rule:
        """Return a rule with the parameters of this configuration.

        Raises:
            ValueError: No rule has that name.
        """
        return find_rule(name, power=self.power, skill_sigma=self.skill_sigma)


@dataclass(frozen=True, eq=False)
class Branch:
    """One component of the mixture over the K opponents.

    Attributes:
        name: "warm-up", "pfsp" or, in a mixture, the name of the rule.
        share: Probability of the branch, in [0, 1].
        rule: Description of the weighting.
        weights: (K,) distribution within the branch, including the uniform share; sums to 1.
        excluded: (K,) true for opponents that the filter excluded; their weight is 0.
        filter: Description of the filter. Empty without a filter.
    """

    name: str
    share: float
    rule: str
    weights: FloatArray
    excluded: BoolArray
    filter: str


@dataclass(frozen=True, eq=False)
class Distribution:
    """Distribution of a learner's next opponent, with its components for explanation.

    Attributes:
        self_play: Probability of self-play. 1 without opponents.
        branches: Components of the rest. Empty without opponents.
        probabilities: (K,) final probability of each opponent. They and `self_play` sum to 1.
    """

    self_play: float
    branches: tuple[Branch, ...]
    probabilities: FloatArray


@dataclass(frozen=True, eq=False)
class OpponentSample:
    """Opponents sampled for one request.

    Attributes:
        opponents: (N,) int64 index of the opponent, or SELF.
        propensities: (N,) probability, in (0, 1], of sampling that opponent.
        branches: N names of the sampled branches.
    """

    opponents: IntArray
    propensities: FloatArray
    branches: tuple[str, ...]


def effective_opponents(weights: ArrayLike) -> float:
    """Return the effective number of opponents, the exponential of the entropy (Hill number of order 1).

        exp(-sum_j w_j ln w_j)

    K equal weights give K, a single weight of 1 gives 1. Weights of 0 do not count.

    Args:
        weights: (K,) distribution over opponents, >= 0, with a sum of 1. If K is 0, the result is 0.

    Source: Hill, "Diversity and evenness" (1973), the number of order 1.
    """
    w = np.asarray(weights, dtype=np.float64)
    likely = w[w > 0.0]
    return float(np.exp(-np.sum(likely * np.log(likely)))) if likely.size else 0.0


def opponent_distribution(candidates: Candidates, config: MatchmakingConfig) -> Distribution:
    """Return the distribution of a learner's next opponent.

    Self-play takes its share, or everything if there is no opponent. A learner with fewer than `warm_up_games` games
    plays by the skill kernel against opponents within the first of `warm_up_widths` that contains any. After the
    warm-up it plays against all by the configured rule or mixture. In a mixture, the share of a rule without any
    positive weight goes to the other rules. If no rule has a positive weight, opponents are uniform.

    Args:
        candidates: The learner and its K possible opponents.
        config: Shares, rules and widths.

    Raises:
        ValueError: A rule failed or returned invalid weights.
    """
    count = candidates.ratings.size
    if count == 0:
        return Distribution(self_play=1.0, branches=(), probabilities=np.zeros(0))
    warming = config.warming(candidates.learner_games)
    branches = (_warm_up_branch(candidates, config),) if warming else _rule_branches(candidates, config)
    return Distribution(
        self_play=config.self_play_share,
        branches=branches,
        probabilities=np.sum([branch.share * branch.weights for branch in branches], axis=0),
    )


def draw(distribution: Distribution, count: int, rng: np.random.Generator) -> OpponentSample:
    """Sample opponents by systematic sampling.

    Each sample follows the distribution exactly. Together they follow it as evenly as `count` allows: an option of
    probability p is chosen floor(p count) or ceil(p count) times. The order is shuffled.

    Args:
        distribution: Distribution over K opponents and self-play.
        count: Number of opponents, >= 1.
        rng: Random generator.

    Raises:
        ValueError: The count is below 1.
    """
    if count < 1:
        raise ValueError(f"count is {count}: draw at least one opponent")
    opponents = distribution.probabilities.size
    shares = [branch.share * branch.weights for branch in distribution.branches]
    edges = np.cumsum(np.concatenate(([distribution.self_play], *shares)))
    # Rounding can give exactly 1, which lies behind the last edge.
    points = np.minimum((np.arange(count) + rng.random()) / count, np.nextafter(1.0, 0.0))
    # Divided by the last edge, which rounding leaves near 1 and not at it.
    taken = rng.permutation(np.searchsorted(edges / edges[-1], points, side="right"))

    # Interval 0 is self-play, and each branch adds K more.
    chosen = np.where(taken == 0, SELF, (taken - 1) % max(opponents, 1))
    propensity = np.append(distribution.probabilities, distribution.self_play)[chosen]
    names = [SELF_PLAY, *(branch.name for branch in distribution.branches)]
    branch_of = np.where(taken == 0, 0, 1 + (taken - 1) // max(opponents, 1))
    return OpponentSample(opponents=chosen, propensities=propensity, branches=tuple(names[i] for i in branch_of))


def _warm_up_branch(candidates: Candidates, config: MatchmakingConfig) -> Branch:
    distance = np.abs(candidates.ratings - candidates.learner_rating)
    width = next((width for width in config.warm_up_widths if (distance <= width).any()), np.inf)
    near = distance <= width
    weights = np.zeros(distance.size)
    kernel = rating_kernel(candidates.learner_rating, candidates.ratings[near], config.skill_sigma)
    weights[near] = _mixed(kernel, np.ones(kernel.size, dtype=np.int64), config.uniform_share)
    return Branch(
        name=WARM_UP,
        share=1.0 - config.self_play_share,
        rule=_in_words(config.rule("skill"), config),
        weights=weights,
        excluded=~near,
        filter="" if np.isinf(width) else f"rating within {width:g} of {candidates.learner_rating:.0f}",
    )


def _rule_branches(candidates: Candidates, config: MatchmakingConfig) -> tuple[Branch, ...]:
    rules = [config.rule(name) for name, _ in config.parts]
    weights = [rule.weights(candidates) for rule in rules]
    shares = np.array([share for _, share in config.parts])
    proposes = np.array([each.sum() >= WEIGHT_FLOOR for each in weights])
    # If no rule proposes an opponent, all keep their shares and `normalize` makes them uniform.
    shares = np.where(proposes | ~proposes.any(), shares, 0.0)
    shares *= (1.0 - config.self_play_share) / shares.sum()
    lineage_sizes, suffix = np.ones(candidates.ratings.size, dtype=np.int64), ""
    if config.balance == "learners":
        lineage_sizes, suffix = candidates.lineage_sizes, "; each learner by the mean of its snapshots"
    return tuple(
        Branch(
            name=rule.name if config.mixture else PFSP,
            share=float(share),
            rule=_in_words(rule, config) + suffix,
            weights=_mixed(each, lineage_sizes, config.uniform_share),
            excluded=np.zeros(each.size, dtype=bool),
            filter="",
        )
        for rule, share, each in zip(rules, shares, weights, strict=True)
    )


def _in_words(rule: Rule, config: MatchmakingConfig) -> str:
    mixed = f"; {config.uniform_share:.0%} uniform" if config.uniform_share else ""
    return rule.words + mixed


def _mixed(weights: FloatArray, lineage_sizes: IntArray, uniform_share: float) -> FloatArray:
    """Divide each weight by the size of its lineage and mix in the uniform share, divided likewise; the sum is 1."""
    # Normalised first, because user-defined rules may return weights of any scale.
    preferred = normalize(normalize(weights) / lineage_sizes)
    return (1.0 - uniform_share) * preferred + uniform_share * normalize(1.0 / lineage_sizes)


def _require_mixture(mixture: tuple[tuple[str, float], ...]) -> None:
    names = [name for name, _ in mixture]
    if len(set(names)) < len(names):
        raise ValueError(f"mixture names {', '.join(names)}: each rule may occur once")
    for name, share in mixture:
        if not 0.0 < share < np.inf:
            raise ValueError(f"mixture gives {name!r} the share {share}: a share must be finite and above 0")
