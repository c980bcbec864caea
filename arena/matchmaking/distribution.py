"""Whom to play: the distribution over opponents, and draws from it.

A learner's next opponent comes from a mixture of branches. "self-play" takes a fixed share. While the learner has few
games, the rest goes to "warm-up": the skill kernel among opponents near its rating. Afterwards it goes to one rule
("pfsp", prioritised fictitious self-play where the rule looks at win rates) or is divided among several, each a branch
of its own. Inside a branch a small uniform share keeps every opponent possible, so propensities are never 0 for a
candidate that no filter took out.

A rule weighs snapshots, so that a learner is met the more often the more of them it left. Where learners are balanced,
the weight of each is divided by how many its learner left.

Rating matches, whose purpose is to learn the players' order, are paired apart: `arena.matchmaking.rating_matches`.

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
"""Who counts alike, whatever a rule thinks of them: every snapshot, or every learner, however many it left."""

SELF = -1
"""Stands for the learner itself where an opponent's index is expected."""

SELF_PLAY = "self-play"
WARM_UP = "warm-up"
PFSP = "pfsp"


@dataclass(frozen=True)
class MatchmakingConfig:
    """How a learner's opponents are chosen.

    Attributes:
        self_play_share: Probability of playing against oneself, in [0, 1].
        weighting: Name of the rule by which opponents are preferred once warm; see `arena.matchmaking.rules`.
        mixture: Names of rules and their shares, > 0, of what self-play leaves; they need not sum to 1. Takes the
            place of `weighting` where it is not empty.
        power: Exponent of the weighting "hard", >= 0.
        skill_sigma: Width of the skill kernel in rating points, > 0.
        warm_up_games: A learner with fewer games is in warm-up, >= 0.
        warm_up_widths: Rating distances tried one after the other until somebody is near enough; then everybody.
        uniform_share: Share of the uniform distribution mixed into a branch, in [0, 1].
        balance: Who counts alike for rules and the uniform share. With "learners" the weight of each of n snapshots of
            one learner is divided by n, so that it counts by their mean; a baseline is nobody's snapshot. Warm-up goes
            by snapshots in any case.
        past_games: How many of a learner's last games "forgotten" looks at, >= 2; of those against each opponent it
            compares the older half with the newer.

    Raises:
        ValueError: A value is out of its range.
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
        """Names of the rules that a warm learner's opponents are chosen by, and their shares."""
        return self.mixture or ((self.weighting, 1.0),)

    def warming(self, learner_games: int) -> bool:
        """Say whether a learner with so many games is in warm-up."""
        return learner_games < self.warm_up_games

    def needs(self, learner_games: int) -> frozenset[Need]:
        """Return what the rules of a learner with so many games look at beyond ratings and win rates."""
        if self.warming(learner_games):
            return frozenset()
        return frozenset[Need]().union(*(self.rule(name).needs for name, _ in self.parts))

    def rule(self, name: str) -> Rule:
        """Return a rule with this configuration's numbers.

        Raises:
            ValueError: No rule has that name.
        """
        return find_rule(name, power=self.power, skill_sigma=self.skill_sigma)


@dataclass(frozen=True, eq=False)
class Branch:
    """One component of the mixture over the K opponents.

    Attributes:
        name: "warm-up", "pfsp" or, in a mixture, the rule's name.
        share: Probability that the branch is taken, in [0, 1].
        rule: How it weighs opponents, in words.
        weights: (K,) distribution inside the branch, uniform share mixed in; sums to 1.
        excluded: (K,) true for opponents that a filter took out; their weight is 0.
        filter: What the filter asks for in words; empty where nothing is asked.
    """

    name: str
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
class OpponentSample:
    """Opponents drawn for one request.

    Attributes:
        opponents: (N,) int64 index of the opponent, or SELF.
        propensities: (N,) probability, in (0, 1], with which a draw gives that opponent.
        branches: N names of the branches taken.
    """

    opponents: IntArray
    propensities: FloatArray
    branches: tuple[str, ...]


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
    everybody by the configured rule or mixture of rules. In a mixture, a rule that has nobody to propose leaves its
    share to the others; where none has, all opponents are alike.

    Args:
        candidates: The learner and its K possible opponents.
        config: Shares, rules and widths.

    Raises:
        ValueError: A rule failed or gave no weights.
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
    shares = np.where(proposes | ~proposes.any(), shares, 0.0)
    shares *= (1.0 - config.self_play_share) / shares.sum()
    kin, alike = np.ones(candidates.ratings.size, dtype=np.int64), ""
    if config.balance == "learners":
        kin, alike = candidates.kin, "; each learner by the mean of its snapshots"
    return tuple(
        Branch(
            name=rule.name if config.mixture else PFSP,
            share=float(share),
            rule=_in_words(rule, config) + alike,
            weights=_mixed(each, kin, config.uniform_share),
            excluded=np.zeros(each.size, dtype=bool),
            filter="",
        )
        for rule, share, each in zip(rules, shares, weights, strict=True)
    )


def _in_words(rule: Rule, config: MatchmakingConfig) -> str:
    mixed = f"; {config.uniform_share:.0%} uniform" if config.uniform_share else ""
    return rule.words + mixed


def _mixed(weights: FloatArray, kin: IntArray, uniform_share: float) -> FloatArray:
    """Divide each weight by the number of kin, and mix in what is divided so of equal ones; the sum is 1."""
    preferred = normalize(normalize(weights) / kin)
    return (1.0 - uniform_share) * preferred + uniform_share * normalize(1.0 / kin)


def _require_mixture(mixture: tuple[tuple[str, float], ...]) -> None:
    names = [name for name, _ in mixture]
    if len(set(names)) < len(names):
        raise ValueError(f"mixture names {', '.join(names)}: each rule may stand in it once")
    for name, share in mixture:
        if not 0.0 < share < np.inf:
            raise ValueError(f"mixture gives {name!r} the share {share}: a share must be finite and above 0")
