"""Glicko-2: one rating period for a whole population, as array arithmetic.

Everybody is rated against the ratings frozen at the period's start, so the order of results cannot matter; sums are
taken so that it does not matter in the last bit either (see `_order_free_sums`).

Inside, the paper's v (variance) is kept as information I = 1/v, which is 0 for an idle player, and the volatility
equation is written in two dimensionless numbers per player (see `log_volatility_change`). Both forms stay finite
where the paper's divide by zero or overflow.

Source: Glickman, "Example of the Glicko-2 system" (2022), steps 1 to 8.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.volatility import log_volatility_change

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SCALE = 173.7178
START_RATING = 1500.0
START_DEVIATION = 350.0
START_VOLATILITY = 0.06

TAU_MAX = 100.0  # far beyond any use (the paper suggests 0.3 to 1.2); keeps tau^2 harmless

_LOGIT_MAX = 500.0  # 86,859 points between certain players: exp(-500) = 7e-218 still squares against 1e40 below
_ONE_GRID_ROWS = 256  # rows of one player whose sums are exact to 3e-11 of the largest on one grid
_ROOM_PER_ROW = 8  # cells of a table of all that can happen in a game, up to which rows are counted in it
_MAGNITUDE_MAX = 1e40  # a deviation or volatility beyond this is computed as this


class Kind(IntEnum):
    """How a player takes part in a rating period.

    LEARNER is plain Glicko-2. FROZEN plays with unchanging strength: its volatility counts as 0, idling adds no
    deviation, evidence takes deviation away. ANCHOR never moves. OBSERVED is read as an opponent and not updated.
    """

    LEARNER = 0
    FROZEN = 1
    ANCHOR = 2
    OBSERVED = 3


def _refuse(name: str, values: NDArray[np.generic], wrong: BoolArray, rule: str) -> None:
    """Raise ValueError naming the first wrong entry."""
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name}[{place}] is {values[place]}: {rule}")


def _column(name: str, values: ArrayLike, length: int | None) -> FloatArray:
    """Return `values` as a finite float64 vector of the given length (any length for None)."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or (length is not None and column.size != length):
        wanted = "(count,)" if length is None else f"({length},)"
        raise ValueError(f"{name} has shape {column.shape}: pass one value per entry, shape {wanted}")
    _refuse(name, column, ~np.isfinite(column), "every value must be finite; leave the entry out instead")
    return column


def _whole_column(name: str, values: ArrayLike, length: int | None, least: int, rule: str) -> IntArray:
    """Return `values` as an int64 vector of values no lower than `least`."""
    column = np.asarray(values)
    if column.dtype.kind not in "iu" and column.size:
        raise ValueError(f"{name} has type {column.dtype}: pass whole numbers of an integer type")
    whole = column.astype(np.int64, copy=False)
    if whole.ndim != 1 or (length is not None and whole.size != length):
        wanted = "(count,)" if length is None else f"({length},)"
        raise ValueError(f"{name} has shape {whole.shape}: pass one value per entry, shape {wanted}")
    _refuse(name, whole, whole < least, rule)
    return whole


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of P players on the Glicko scale.

    Attributes:
        rating: (P,) float64, finite, in points; newcomers start at 1500.
        deviation: (P,) float64, finite, >= 0, in points; newcomers start at 350.
        volatility: (P,) float64, finite, >= 0; newcomers start at 0.06.

    Raises:
        ValueError: A column has another length, is not finite or is negative where it must not be.
    """

    rating: FloatArray
    deviation: FloatArray
    volatility: FloatArray

    def __post_init__(self) -> None:
        rating = _column("rating", self.rating, None)
        deviation = _column("deviation", self.deviation, rating.size)
        volatility = _column("volatility", self.volatility, rating.size)
        _refuse("deviation", deviation, deviation < 0.0, "a deviation must be 0 or more; newcomers start at 350")
        _refuse("volatility", volatility, volatility < 0.0, "a volatility must be 0 or more; use 0.06 to start")
        object.__setattr__(self, "rating", rating)
        object.__setattr__(self, "deviation", deviation)
        object.__setattr__(self, "volatility", volatility)

    def __len__(self) -> int:
        return self.rating.size


@dataclass(frozen=True, eq=False)
class Results:
    """Results of one rating period, one row per game or per batch of games between the same two players.

    Attributes:
        home: (M,) int64, index of the home player in the ratings.
        away: (M,) int64, index of the away player. A row against oneself is dropped by `rate_period`.
        score: (M,) float64 in [0, 1], home's mean score over the row's games.
        games: (M,) int64 >= 1, how many games the row stands for.
        advantage: (M,) float64 in [-0.5, 0.5], what of the score is home's only because of its side: how much more it
            scores at home than on average over both sides. Ratings are made of the rest. None where sides are alike.

    Raises:
        ValueError: Columns differ in length, a score or an advantage is out of range, an index is negative, a count is
            under 1.
    """

    home: IntArray
    away: IntArray
    score: FloatArray
    games: IntArray
    advantage: FloatArray | None = None

    def __post_init__(self) -> None:
        home = _whole_column("home", self.home, None, 0, "a player index counts from 0")
        away = _whole_column("away", self.away, home.size, 0, "a player index counts from 0")
        score = _column("score", self.score, home.size)
        games = _whole_column("games", self.games, home.size, 1, "a row stands for at least one game; leave it out")
        wrong = (score < 0.0) | (score > 1.0)
        _refuse("score", score, wrong, "home's mean score lies in [0, 1]; a win is 1, a draw 0.5, a loss 0")
        if self.advantage is not None:
            advantage = _column("advantage", self.advantage, home.size)
            rule = "home scores at most 0.5 more on its side than on average over both"
            _refuse("advantage", advantage, np.abs(advantage) > 0.5, rule)
            object.__setattr__(self, "advantage", advantage)
        object.__setattr__(self, "home", home)
        object.__setattr__(self, "away", away)
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "games", games)

    def __len__(self) -> int:
        return self.home.size

    @property
    def deserved(self) -> FloatArray:
        """(M,) the score without what home's side gave it; below 0 or above 1 where a side was of no use."""
        return self.score if self.advantage is None else self.score - self.advantage


def newcomers(count: int) -> Ratings:
    """Return the ratings of `count` strangers: 1500, deviation 350, volatility 0.06."""
    return Ratings(
        rating=np.full(count, START_RATING),
        deviation=np.full(count, START_DEVIATION),
        volatility=np.full(count, START_VOLATILITY),
    )


def conservative(ratings: Ratings) -> FloatArray:
    """Return (P,) r - 2 RD, the rating a player exceeds with about 97.7 % probability, in points."""
    return ratings.rating - 2.0 * ratings.deviation


def expected_score(ratings: Ratings, home: ArrayLike, away: ArrayLike) -> FloatArray:
    """Predict home's mean score from both ratings and both deviations.

        E = 1 / (1 + exp(-g(sqrt(phi_h^2 + phi_a^2)) (mu_h - mu_a)))

    Symmetric: swapping home and away gives 1 - E. With a certain home player it is the paper's E.

    Args:
        ratings: Ratings of P players.
        home: (M,) player indices.
        away: (M,) player indices.

    Returns:
        (M,) expected scores in [0, 1].

    Source: Glickman, "Parameter estimation in large dynamic paired comparison experiments" (1999), equation 16.
    """
    at_home = _player_indices("home", home, len(ratings))
    abroad = _player_indices("away", away, len(ratings))
    spread = np.hypot(ratings.deviation[at_home], ratings.deviation[abroad]) / SCALE
    logit = _attenuation(spread) * _gap(ratings.rating[at_home], ratings.rating[abroad])
    x = np.exp(-np.abs(logit))
    return np.where(logit >= 0.0, 1.0, x) / (1.0 + x)


def rate_period(
    ratings: Ratings,
    results: Results,
    *,
    tau: float = 0.5,
    kinds: ArrayLike | None = None,
    deviation_floor: float = 0.0,
    deviation_cap: float = np.inf,
    volatility_cap: float = np.inf,
) -> Ratings:
    """Rate every player on one period's results, all against the ratings at the period's start.

        I     = sum_j n_j g(phi_j)^2 E_j (1 - E_j)              information, 1 / v
        u     = sum_j n_j g(phi_j) (s_j - E_j)                  so that Delta = u / I
        phi*  = sqrt(phi^2 + sigma'^2)                          sigma' from `log_volatility_change`
        phi'  = 1 / sqrt(1 / phi*^2 + I)
        mu'   = mu + phi'^2 u

    The answer is the same, bit for bit, for the rows in any order; rows of several games agree with the single games
    to rounding. Finite for every finite input.

    Args:
        ratings: Ratings of P players at the period's start.
        results: M rows over those players. Rows of a player against itself are dropped.
        tau: Constraint on volatility changes, in (0, 100]; 0.3 to 1.2 is usual.
        kinds: (P,) values of `Kind`; None takes everybody as LEARNER, which is plain Glicko-2.
        deviation_floor: Lowest deviation of an updated player, in points.
        deviation_cap: Highest deviation of an updated player, in points.
        volatility_cap: Highest volatility of a learner; holds before the deviation grows by it.

    Returns:
        New ratings; ANCHOR, OBSERVED and idle FROZEN players keep theirs bit for bit.

    Raises:
        ValueError: An index names no player, `kinds` or a limit is out of range.
    """
    kind = _kinds(kinds, len(ratings))
    _require_limits(tau, deviation_floor, deviation_cap, volatility_cap)
    learner = kind == Kind.LEARNER
    information, gradient = _evidence(ratings, results)
    played = information > 0.0
    updated = learner | ((kind == Kind.FROZEN) & played)

    phi = np.minimum(ratings.deviation / SCALE, _MAGNITUDE_MAX)
    sigma = np.minimum(ratings.volatility, _MAGNITUDE_MAX)
    moving = learner & played & (sigma > 0.0)
    volatility = ratings.volatility.copy()
    volatility[moving] = sigma[moving] * np.exp(
        0.5 * log_volatility_change(phi[moving], sigma[moving], information[moving], gradient[moving], tau)
    )
    volatility[learner] = np.minimum(volatility[learner], volatility_cap)

    prior = np.hypot(phi, np.where(learner, np.minimum(volatility, _MAGNITUDE_MAX), 0.0))
    with np.errstate(divide="ignore", over="ignore"):
        posterior = np.where(played, 1.0 / np.hypot(1.0 / prior, np.sqrt(information)), prior)
    rating = ratings.rating + SCALE * (posterior * posterior * gradient)
    deviation = np.clip(SCALE * posterior, deviation_floor, deviation_cap)
    return Ratings(
        rating=np.where(updated, rating, ratings.rating),
        deviation=np.where(updated, deviation, ratings.deviation),
        volatility=volatility,
    )


def _player_indices(name: str, values: ArrayLike, players: int) -> IntArray:
    """Return `values` as int64 indices below `players`."""
    indices = _whole_column(name, values, None, 0, "a player index counts from 0")
    _require_players(name, indices, players)
    return indices


def _require_players(name: str, indices: IntArray, players: int) -> None:
    _refuse(name, indices, indices >= players, f"there are {players} players, so an index is below {players}")


def _kinds(kinds: ArrayLike | None, players: int) -> IntArray:
    if kinds is None:
        return np.full(players, int(Kind.LEARNER))
    column = _whole_column("kinds", kinds, players, 0, "use a value of Kind")
    _refuse("kinds", column, column > max(Kind), "use a value of Kind")
    return column


def _require_limits(tau: float, deviation_floor: float, deviation_cap: float, volatility_cap: float) -> None:
    if not 0.0 < tau <= TAU_MAX:
        raise ValueError(f"tau is {tau}: it must be in (0, {TAU_MAX:g}]; 0.5 is usual")
    if not 0.0 <= deviation_floor <= deviation_cap:
        raise ValueError(
            f"deviation_floor is {deviation_floor} and deviation_cap {deviation_cap}: pass 0 <= floor <= cap"
        )
    if not volatility_cap > 0.0:
        raise ValueError(f"volatility_cap is {volatility_cap}: it must be above 0; 0.1 is usual, inf is no cap")


def _attenuation(phi: FloatArray) -> FloatArray:
    """Return g(phi) = 1 / sqrt(1 + 3 phi^2 / pi^2), the paper's weight of an opponent of deviation phi."""
    return 1.0 / np.sqrt(1.0 + (3.0 / np.pi**2) * np.square(np.minimum(phi, _MAGNITUDE_MAX)))


def _gap(rating: FloatArray, opponent: FloatArray) -> FloatArray:
    """Return mu - mu_opponent."""
    with np.errstate(over="ignore"):
        return (rating - opponent) / SCALE


def _evidence(ratings: Ratings, results: Results) -> tuple[FloatArray, FloatArray]:
    """Sum what the results say about each player.

    Both sides of a row are taken from the favourite's view, f the favourite's score: with z = g(phi_j) |mu - mu_j| and
    x = exp(-z), E (1 - E) is x / (1 + x)^2 and the favourite's s - E is (f x - (1 - f)) / (1 + x). Both keep their
    relative accuracy where 1 - E is below rounding (6,400 points and more).

    Returns:
        Information I, (P,), and gradient u, (P,), of `rate_period`.
    """
    players = len(ratings)
    _require_players("home", results.home, players)
    _require_players("away", results.away, players)
    pair, score, games, times = _distinct(results)

    lead = _gap(ratings.rating.take(pair[0]), ratings.rating.take(pair[1]))
    behind = lead < 0.0
    sign = np.where(behind, -1.0, 1.0)
    weight = _attenuation(ratings.deviation / SCALE).take(pair[::-1])
    x = np.exp(-np.minimum(weight * np.abs(lead), _LOGIT_MAX))
    favourite = 1.0 / (1.0 + x)
    won = np.where(behind, 1.0 - score, score)
    evidence = games * weight * favourite
    gradient = evidence * (won * x - (1.0 - won)) * np.stack((sign, -sign))
    information = evidence * weight * favourite * x

    columns = information.ravel(), gradient.ravel()
    information, gradient = _order_free_sums(pair.ravel(), columns, np.tile(times, 2), players)
    return information, gradient


def _distinct(results: Results) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Return the rows between two players: pairs (2, K), scores and games (K,), and how often each row is there, (K,).

    Where single games far outnumber what can happen in one, rows that are alike become one.
    """
    between_two = results.home != results.away
    pair = np.stack((results.home[between_two], results.away[between_two]))
    score, games = results.deserved[between_two], results.games[between_two].astype(np.float64)
    cell, cells = _cells(pair, results.score[between_two])
    if cells > _ROOM_PER_ROW * games.size or games.max(initial=1.0) > 1.0:
        return pair, score, games, np.ones(games.size)
    times, row = np.bincount(cell), np.empty(cells, dtype=np.int64)
    row[cell] = np.arange(cell.size)
    if (score[row[cell]] != score).any():  # it is not of few values, or an advantage is not the pair's
        return pair, score, games, np.ones(games.size)
    seen = np.flatnonzero(times)
    some = row[seen]
    return pair[:, some], score[some], games[some], times[seen].astype(np.float64)


def _cells(pair: IntArray, score: FloatArray) -> tuple[IntArray, int]:
    """Number K rows by their (2, K) pairs and whether home lost, drew or won, (K,); say how many numbers there are."""
    if not score.size:
        return np.zeros(0, dtype=np.int64), 0
    (home, away), (homes, aways) = pair - pair.min(axis=1, keepdims=True), np.ptp(pair, axis=1) + 1
    return (home * aways + away) * 3 + (2.0 * score).astype(np.int64), int(homes * aways * 3)


def _order_free_sums(
    index: IntArray, columns: tuple[FloatArray, ...], times: FloatArray, size: int
) -> tuple[FloatArray, ...]:
    """Sum each column per index so that neither the order of the rows nor joining equal ones changes a bit of the sums.

    Each value is rounded to a grid that depends only on its group's largest magnitude and count, coarse enough that
    every partial sum is exact. A sum of n values is off by less than n^2 2^-51 of the largest; where groups are large
    enough for that to matter, what was rounded off is summed in the same way on the next finer grid and added.

    Args:
        index: (K,) group of each row, in [0, size).
        columns: (K,) finite values each.
        times: (K,) how often each row counts, whole numbers >= 1.
        size: Number of groups.

    Returns:
        (size,) sums of each column; 0 for an empty group.

    Source: Demmel and Nguyen, "Fast reproducible floating-point summation" (2013), pre-rounding.
    """
    counts = np.bincount(index, weights=times, minlength=size)
    _, count_exponent = np.frexp(counts)
    grids = 1 if counts.max(initial=0.0) <= _ONE_GRID_ROWS else 2
    return tuple(_sum_on_grids(index, values, times, count_exponent, grids) for values in columns)


def _sum_on_grids(
    index: IntArray, values: FloatArray, times: FloatArray, count_exponent: NDArray[np.int32], grids: int
) -> FloatArray:
    """Sum one column of `_order_free_sums` on that many successively finer grids."""
    size = count_exponent.size
    largest = np.zeros(size)
    np.maximum.at(largest, index, np.abs(values))
    _, exponent = np.frexp(largest)
    total = np.zeros(size)
    for _ in range(grids):
        exponent = exponent + count_exponent
        anchor = np.ldexp(1.5, exponent).take(index)  # its unit in the last place is the grid
        rounded = (values + anchor) - anchor
        total += np.bincount(index, weights=times * rounded, minlength=size)
        values = values - rounded
        exponent = exponent - 52
    return total
