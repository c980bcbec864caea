"""Weighting rules of matchmaking, by name: the preferred opponents of a learner.

A rule maps the candidates to weights of 0 or more, of which only the ratios count. If all weights are 0, the rule has
no preferred opponent. A custom rule is a function of `Candidates` that an installed distribution registers in the entry
point group `echelon_league.matchmaking`:

    [project.entry-points."echelon_league.matchmaking"]
    nemesis = "my_package.rules:nemesis"

    def nemesis(candidates: Candidates) -> ArrayLike:
        '''The opponent with the learner's lowest win rate.'''
        return candidates.win_rates == candidates.win_rates.min()

Source: Lanctot et al., "A unified game-theoretic approach to multiagent reinforcement learning" (2017), for "nash" as
the opponents of a best response (PSRO).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from importlib.metadata import entry_points
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.arrays import FloatArray, IntArray, finite_column, share_column
from arena.evaluation.payoff import WinCounts, count_results, expected_matrix
from arena.matchmaking.pfsp import WinRateWeighting, pfsp_weights, rating_kernel
from arena.ratings.glicko2 import Ratings

NO_LINEAGE = -1
"""Lineage of players that no learner published: baselines."""

ENTRY_POINTS = "echelon_league.matchmaking"

Need = Literal["between", "pasts"]
"""Data that a rule may use beyond ratings and win rates (see `Candidates`)."""


@dataclass(frozen=True, eq=False)
class WinRateHistory:
    """A learner's scores against its K possible opponents in two disjoint windows.

    Attributes:
        earlier: (K,) counts of the earlier games.
        recent: (K,) counts of the recent games.
    """

    earlier: WinCounts
    recent: WinCounts

    @classmethod
    def halves(cls, opponent: IntArray, score: FloatArray, opponents: int) -> "WinRateHistory":
        """Split a learner's games against each opponent into an older and a newer half; an odd game counts as newer.

        Args:
            opponent: (M,) opponent of each game, in [0, opponents), games in the order of play.
            score: (M,) the learner's score, in [0, 1].
            opponents: K.
        """
        order = np.argsort(opponent, kind="stable")
        played = np.bincount(opponent, minlength=opponents)
        number = np.empty_like(order)
        number[order] = np.arange(order.size) - np.repeat(np.cumsum(played) - played, played)
        recent = number >= (played // 2)[opponent]

        def counted(chosen: NDArray[np.bool_]) -> WinCounts:
            return count_results(opponent[chosen], score[chosen], np.zeros(chosen.sum(), dtype=np.bool_), opponents)

        return cls(earlier=counted(~recent), recent=counted(recent))


@dataclass(frozen=True, eq=False)
class Candidates:
    """Data available to matchmaking when a learner requests opponents.

    Attributes:
        learner_rating: The learner's rating in points.
        learner_games: Number of games behind that rating, >= 0.
        ratings: (K,) float64 ratings of the possible opponents, in points. K may be 0.
        win_rates: (K,) float64 probability that the learner beats each, in [0, 1].
        between: (K, K) win rates of the opponents against each other, for rules that need "between". None for the
            predictions of their ratings.
        pasts: The learner's scores in two windows, for rules that need "pasts". None without history.
        lineage: (K,) int64 lineage of each opponent, NO_LINEAGE for baselines. None if unknown, which treats each as a
            lineage of its own.

    Raises:
        ValueError: A value is not finite or out of range, or the columns differ in length.
    """

    learner_rating: float
    learner_games: int
    ratings: FloatArray
    win_rates: FloatArray
    between: FloatArray | None = None
    pasts: WinRateHistory | None = None
    lineage: IntArray | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.learner_rating):
            raise ValueError(f"learner_rating is {self.learner_rating}: it must be finite")
        if self.learner_games < 0:
            raise ValueError(f"learner_games is {self.learner_games}: it must be 0 or more")
        ratings = finite_column("ratings", self.ratings)
        win_rates = share_column("win_rates", self.win_rates, "a win rate")
        if ratings.size != win_rates.size:
            raise ValueError(f"{ratings.size} ratings but {win_rates.size} win_rates: pass one of each per opponent")
        object.__setattr__(self, "ratings", ratings)
        object.__setattr__(self, "win_rates", win_rates)
        _require_shape("between", self.between, (ratings.size, ratings.size))
        if self.pasts is not None:
            _require_shape("pasts.earlier", self.pasts.earlier.games, ratings.shape)
            _require_shape("pasts.recent", self.pasts.recent.games, ratings.shape)
        _require_shape("lineage", self.lineage, ratings.shape)

    @property
    def lineage_sizes(self) -> IntArray:
        """(K,) number of opponents in each opponent's lineage, including itself; 1 for baselines."""
        if self.lineage is None:
            return np.ones(self.ratings.size, dtype=np.int64)
        _, index, count = np.unique(self.lineage, return_inverse=True, return_counts=True)
        return np.where(self.lineage == NO_LINEAGE, 1, count[index])


@dataclass(frozen=True)
class Rule:
    """A weighting rule of matchmaking.

    Attributes:
        name: Name in the configuration.
        words: Description for explanations.
        weigh: Returns the (K,) weights of K candidates.
        needs: Data used beyond ratings and win rates. A custom rule may use everything.
    """

    name: str
    words: str
    weight_function: Callable[[Candidates], ArrayLike]
    needs: frozenset[Need] = frozenset(get_args(Need))

    def weights(self, candidates: Candidates) -> FloatArray:
        """Return (K,) weights >= 0; all are 0 if the rule has no preferred opponent.

        Raises:
            ValueError: The rule failed or returned invalid weights.
        """
        try:
            weights = np.asarray(self.weight_function(candidates), dtype=np.float64)
        except Exception as error:  # a custom rule may raise anything
            raise ValueError(f"rule {self.name!r} failed: {type(error).__name__}: {error}") from error
        wanted = candidates.ratings.shape
        if weights.shape != wanted:
            raise ValueError(f"rule {self.name!r} gave weights of shape {weights.shape}: it must give {wanted}")
        wrong = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
        if wrong.size:
            raise ValueError(
                f"rule {self.name!r} gave the weight {weights[wrong[0]]}: weights must be finite and 0 or more"
            )
        return weights


def find_rule(name: str, *, power: float = 2.0, skill_sigma: float = 200.0) -> Rule:
    """Return a rule by name, built in or from an installed distribution.

    Args:
        name: Name in the configuration.
        power: Exponent of "hard", >= 0.
        skill_sigma: Width of the kernel of "skill", in points, > 0.

    Raises:
        ValueError: No rule has that name, or the rule cannot be loaded.
    """
    nothing = frozenset[Need]()
    by_win_rate: dict[WinRateWeighting, str] = {
        "hard": f"(1 - win rate)^{power:g}: players that defeat the learner",
        "variance": "win rate x (1 - win rate): players as strong as the learner",
        "linear": "1 - win rate: players that defeat the learner",
        "capped": "min(0.5, 1 - win rate): like linear, but equal for all stronger players",
        "uniform": "equal for all players",
    }
    lost = "lost win rate: players that the learner used to defeat more often"
    rules = (
        *(
            Rule(weighting, words, partial(_by_win_rate, weighting=weighting, power=power), nothing)
            for weighting, words in by_win_rate.items()
        ),
        Rule("skill", f"nearness of rating, sigma {skill_sigma:g}", partial(_skill, sigma=skill_sigma), nothing),
        Rule("nash", "share in the Nash mixture of the opponents", _nash, frozenset(["between"])),
        Rule("forgotten", lost, _forgotten, frozenset(["pasts"])),
    )
    return next((rule for rule in rules if rule.name == name), None) or _installed(
        name, tuple(rule.name for rule in rules)
    )


@cache
def _installed(name: str, known: tuple[str, ...]) -> Rule:
    brought = entry_points(group=ENTRY_POINTS)
    if name not in brought.names:
        choice = ", ".join([*known, *sorted(brought.names - set(known))])
        raise ValueError(f"weighting is {name!r}: choose one of {choice}, or install a rule of that name")
    try:
        weight_function = brought[name].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"weighting is {name!r}: {brought[name].value} cannot be loaded ({error})") from error
    if callable(weight_function):
        first_line = (weight_function.__doc__ or brought[name].value).strip().splitlines()[0]
        return Rule(name, first_line.rstrip("."), weight_function)
    raise ValueError(f"weighting is {name!r}: {brought[name].value} must be a function of the candidates")


def _by_win_rate(candidates: Candidates, weighting: WinRateWeighting, power: float) -> FloatArray:
    return pfsp_weights(candidates.win_rates, weighting, power)


def _skill(candidates: Candidates, sigma: float) -> FloatArray:
    return rating_kernel(candidates.learner_rating, candidates.ratings, sigma)


def _nash(candidates: Candidates) -> FloatArray:
    between = candidates.between
    if between is None:
        certain = np.zeros_like(candidates.ratings)
        between = expected_matrix(Ratings(candidates.ratings, certain, certain))
    return _mixture(between.astype(np.float64, copy=False).tobytes(), candidates.ratings.size)


@lru_cache(maxsize=2)  # learners of one league share their opponents
def _mixture(between: bytes, players: int) -> FloatArray:
    # lazy import: its solvers take a quarter of a second to load
    from arena.evaluation.nash_averaging import max_entropy_nash

    mixture = max_entropy_nash(np.frombuffer(between).reshape(players, players))
    mixture.flags.writeable = False  # the cache returns the same array to all callers
    return mixture


def _forgotten(candidates: Candidates) -> FloatArray:
    if candidates.pasts is None:
        return np.zeros_like(candidates.ratings)
    from arena.evaluation.forgetting import forgetting  # lazy import, as above

    return forgetting(candidates.pasts.earlier, candidates.pasts.recent).weights


def _require_shape(name: str, values: FloatArray | IntArray | None, shape: tuple[int, ...]) -> None:
    if values is not None and values.shape != shape:
        raise ValueError(f"{name} has shape {values.shape}: with {shape[0]} opponents it must be {shape}")
