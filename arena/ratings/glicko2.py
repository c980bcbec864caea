"""Glicko-2: one rating period for a whole population, as array arithmetic.

All players are rated against the ratings frozen at the start of the period, so the order of results does not matter.
Reproducible sums make this hold to the last bit (see `_order_free_sums`).

The code works with the information I = 1/v in place of the paper's variance v. I is 0 for an idle player. The
volatility equation is written with two dimensionless numbers per player (see `log_volatility_change`). Both forms stay
finite where the paper's divide by zero or overflow.

Source: Glickman, "Example of the Glicko-2 system" (2022), steps 1 to 8.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.arrays import (
    FloatArray,
    IntArray,
    finite_column,
    integer_column,
    player_indices,
    refuse,
    require_players,
    sum_by_index,
)
from arena.ratings.posterior_mode import PairRecords, Prior, rate_bursts
from arena.ratings.volatility import log_volatility_change

SCALE = 173.7178  # 400 / ln 10, rounded as in the paper
START_RATING = 1500.0
START_DEVIATION = 350.0
START_VOLATILITY = 0.06

TAU_MAX = 100.0  # far beyond any use (the paper suggests 0.3 to 1.2); prevents an overflow of tau^2

_LOGIT_MAX = 500.0  # 86,859 points between certain players: exp(-500) = 7e-218 still squares against 1e40 below
_ONE_GRID_ROWS = 256  # rows of one player whose sums are exact to 3e-11 of the largest on one grid
_ROOM_PER_ROW = 8  # build a table of all possible rows only if it has at most this many cells per row
_MAGNITUDE_MAX = 1e40  # larger deviations and volatilities are clipped to this


class Kind(IntEnum):
    """Role of a player in a rating period.

    LEARNER is plain Glicko-2. FROZEN has a constant strength: volatility counts as 0, idle periods add no deviation,
    and games reduce it. ANCHOR has a fixed rating. OBSERVED counts as an opponent and is not updated.
    """

    LEARNER = 0
    FROZEN = 1
    ANCHOR = 2
    OBSERVED = 3


@dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of P players on the Glicko scale.

    Attributes:
        rating: (P,) float64, finite, in points; new players start at 1500.
        deviation: (P,) float64, finite, >= 0, in points; new players start at 350.
        volatility: (P,) float64, finite, >= 0; new players start at 0.06.

    Raises:
        ValueError: Columns differ in length, are not finite, or a deviation or volatility is negative.
    """

    rating: FloatArray
    deviation: FloatArray
    volatility: FloatArray

    def __post_init__(self) -> None:
        rating = finite_column("rating", self.rating, None)
        deviation = finite_column("deviation", self.deviation, rating.size)
        volatility = finite_column("volatility", self.volatility, rating.size)
        refuse("deviation", deviation, deviation < 0.0, "a deviation must be 0 or more; newcomers start at 350")
        refuse("volatility", volatility, volatility < 0.0, "a volatility must be 0 or more; use 0.06 to start")
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
        away: (M,) int64, index of the away player. `rate_period` drops rows of a player against itself.
        score: (M,) float64 in [0, 1], home's mean score over the row's games.
        games: (M,) int64 >= 1, number of games in the row.

    Raises:
        ValueError: Columns differ in length, a score is out of range, an index is negative, a count is under 1.
    """

    home: IntArray
    away: IntArray
    score: FloatArray
    games: IntArray

    def __post_init__(self) -> None:
        home = integer_column("home", self.home, None, 0, "a player index counts from 0")
        away = integer_column("away", self.away, home.size, 0, "a player index counts from 0")
        score = finite_column("score", self.score, home.size)
        games = integer_column("games", self.games, home.size, 1, "a row needs at least one game; omit it")
        wrong = (score < 0.0) | (score > 1.0)
        refuse("score", score, wrong, "home's mean score must be in [0, 1]; a win is 1, a draw 0.5, a loss 0")
        object.__setattr__(self, "home", home)
        object.__setattr__(self, "away", away)
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "games", games)

    def __len__(self) -> int:
        return self.home.size


def newcomers(count: int) -> Ratings:
    """Return the initial ratings of `count` new players: 1500, deviation 350, volatility 0.06."""
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

    Symmetric: swapping home and away gives 1 - E. If home's deviation is 0, this is the paper's E.

    Args:
        ratings: Ratings of P players.
        home: (M,) player indices.
        away: (M,) player indices.

    Returns:
        (M,) expected scores in [0, 1].

    Source: Glickman, "Parameter estimation in large dynamic paired comparison experiments" (1999), equation 16.
    """
    at_home = player_indices("home", home, len(ratings))
    abroad = player_indices("away", away, len(ratings))
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
    burst_games: int = 0,
) -> Ratings:
    """Return the ratings after one period, each player rated against the ratings at the period's start.

        I     = sum_j n_j g(phi_j)^2 E_j (1 - E_j)              information, 1 / v
        u     = sum_j n_j g(phi_j) (s_j - E_j)                  so that Delta = u / I
        phi*  = sqrt(phi^2 + sigma'^2)                          sigma' from `log_volatility_change`
        phi'  = 1 / sqrt(1 / phi*^2 + I)
        mu'   = mu + phi'^2 u

    The result is bit-identical for any order of the rows. A row of several games agrees with single-game rows to
    rounding. Every finite input gives a finite result.

    This is one Newton step towards the posterior mode, which is enough for the 10 to 15 games that Glickman recommends.
    With `burst_games`, a player with more games is rated at the mode itself: I and u are evaluated at mu', and n games
    of a learner count as n / burst_games periods, in each of which its strength may change by sigma'.

    Args:
        ratings: Ratings of P players at the period's start.
        results: M rows over those players. Rows of a player against itself are dropped.
        tau: Constraint on volatility changes, in (0, 100]; typical values are 0.3 to 1.2.
        kinds: (P,) values of `Kind`. None treats all players as LEARNER, which is plain Glicko-2.
        deviation_floor: Lowest deviation of an updated player, in points.
        deviation_cap: Highest deviation of an updated player, in points.
        volatility_cap: Highest volatility of a learner, applied before the volatility increases the deviation.
        burst_games: Most games of a player that are rated by a single Newton step. 0 for no limit.

    Returns:
        New ratings. ANCHOR, OBSERVED and idle FROZEN players are unchanged to the last bit.

    Raises:
        ValueError: An index is out of range, or `kinds` or a limit is invalid.
    """
    kind = _kinds(kinds, len(ratings))
    _require_limits(tau, deviation_floor, deviation_cap, volatility_cap)
    _require_burst_games(burst_games)
    learner = kind == Kind.LEARNER
    require_players("home", results.home, len(ratings))
    require_players("away", results.away, len(ratings))
    rows = _distinct(results)
    information, gradient = _evidence(ratings, rows)
    played = information > 0.0
    updated = learner | ((kind == Kind.FROZEN) & played)

    # Larger values would overflow when they are squared.
    phi = np.minimum(ratings.deviation / SCALE, _MAGNITUDE_MAX)
    sigma = np.minimum(ratings.volatility, _MAGNITUDE_MAX)
    moving = learner & played & (sigma > 0.0)
    volatility = ratings.volatility.copy()
    volatility[moving] = sigma[moving] * np.exp(
        0.5 * log_volatility_change(phi[moving], sigma[moving], information[moving], gradient[moving], tau)
    )
    volatility[learner] = np.minimum(volatility[learner], volatility_cap)

    phi_star = np.hypot(phi, np.where(learner, np.minimum(volatility, _MAGNITUDE_MAX), 0.0))
    # A deviation of 0 gives 1 / inf: an exactly known rating stays.
    with np.errstate(divide="ignore", over="ignore"):
        posterior = np.where(played, 1.0 / np.hypot(1.0 / phi_star, np.sqrt(information)), phi_star)
    step = posterior * posterior * gradient
    periods = np.maximum(_games_of(rows, len(ratings)) / burst_games, 1.0) if burst_games else np.ones(len(ratings))
    burst = np.flatnonzero(updated & (periods > 1.0))
    if burst.size:
        prior = Prior(phi, np.where(learner, sigma, 0.0), periods)
        records = _pair_records(ratings, rows, burst, np.where(updated, prior.variance(prior.sigma), 0.0))
        step[burst], posterior[burst], moved = rate_bursts(records, prior.of(burst), tau, volatility_cap)
        volatility[burst] = np.where(learner[burst], moved, volatility[burst])
    rating = ratings.rating + SCALE * step
    deviation = np.clip(SCALE * posterior, deviation_floor, deviation_cap)
    return Ratings(
        rating=np.where(updated, rating, ratings.rating),
        deviation=np.where(updated, deviation, ratings.deviation),
        volatility=volatility,
    )


def _kinds(kinds: ArrayLike | None, players: int) -> IntArray:
    if kinds is None:
        return np.full(players, int(Kind.LEARNER))
    column = integer_column("kinds", kinds, players, 0, "use a value of Kind")
    refuse("kinds", column, column > max(Kind), "use a value of Kind")
    return column


def _require_limits(tau: float, deviation_floor: float, deviation_cap: float, volatility_cap: float) -> None:
    if not 0.0 < tau <= TAU_MAX:
        raise ValueError(f"tau is {tau}: it must be in (0, {TAU_MAX:g}]; 0.5 is typical")
    if not 0.0 <= deviation_floor <= deviation_cap:
        raise ValueError(
            f"deviation_floor is {deviation_floor} and deviation_cap {deviation_cap}: pass 0 <= floor <= cap"
        )
    if not volatility_cap > 0.0:
        raise ValueError(f"volatility_cap is {volatility_cap}: it must be above 0; 0.1 is typical, inf means no cap")


def _require_burst_games(burst_games: int) -> None:
    if burst_games < 0:
        raise ValueError(f"burst_games is {burst_games}: pass a number of games, or 0 for plain Glicko-2")


def _attenuation(phi: FloatArray) -> FloatArray:
    """Return g(phi) = 1 / sqrt(1 + 3 phi^2 / pi^2), the paper's weight of an opponent of deviation phi."""
    return 1.0 / np.sqrt(1.0 + (3.0 / np.pi**2) * np.square(np.minimum(phi, _MAGNITUDE_MAX)))


def _gap(rating: FloatArray, opponent: FloatArray) -> FloatArray:
    """Return mu - mu_opponent."""
    with np.errstate(over="ignore"):
        return (rating - opponent) / SCALE


Rows = tuple[IntArray, FloatArray, FloatArray, FloatArray]
"""Rows between two players as `_distinct` returns them."""


def _evidence(ratings: Ratings, rows: Rows) -> tuple[FloatArray, FloatArray]:
    """Sum information and gradient over each player's games.

    Both sides of a row are computed from the favourite's view, with f the favourite's score. With z = g(phi_j) |mu -
    mu_j| and x = exp(-z), E (1 - E) is x / (1 + x)^2 and the favourite's s - E is (f x - (1 - f)) / (1 + x). Both
    expressions keep their relative accuracy if 1 - E is below rounding (6,400 points and more).

    Returns:
        Information I, (P,), and gradient u, (P,), of `rate_period`.
    """
    players = len(ratings)
    pair, score, games, times = rows

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


def _games_of(rows: Rows, players: int) -> FloatArray:
    """Count the games of each player against others, (P,)."""
    pair, _, games, times = rows
    return sum_by_index(pair.ravel(), np.tile(games * times, 2), players)


def _pair_records(ratings: Ratings, rows: Rows, burst: IntArray, opponent_variance: FloatArray) -> PairRecords:
    """Return the points of B players against each of their opponents.

    Args:
        ratings: Ratings of P players.
        rows: The period's rows.
        burst: (B,) player indices.
        opponent_variance: (P,) prior variance of the players that the period rates, 0 for all others.
    """
    players = len(ratings)
    pair, score, games, times = rows
    member = np.full(players, -1)
    member[burst] = np.arange(burst.size)
    own, other = pair.ravel(), pair[::-1].ravel()
    won, lost = games * score, games * (1.0 - score)
    chosen = np.flatnonzero(member.take(own) >= 0)
    codes, index = np.unique(own[chosen] * players + other[chosen], return_inverse=True)
    columns = tuple(np.concatenate(each)[chosen] for each in ((won, lost), (lost, won)))
    won, lost = _order_free_sums(index, columns, np.tile(times, 2)[chosen], codes.size)
    own, other = np.divmod(codes, players)
    yielding = opponent_variance[other]
    return PairRecords(
        player=member[own],
        weight=np.where(yielding > 0.0, 1.0, _attenuation(ratings.deviation / SCALE)[other]),
        lead=np.clip(_gap(ratings.rating[own], ratings.rating[other]), -_MAGNITUDE_MAX, _MAGNITUDE_MAX),
        won=won,
        lost=lost,
        opponent_variance=yielding,
    )


def _distinct(results: Results) -> Rows:
    """Return the rows between two players: pairs (2, K), scores and games (K,), and the count of each row, (K,).

    If there are far more games than distinct pairs and scores, equal rows are merged.
    """
    between_two = results.home != results.away
    pair = np.stack((results.home[between_two], results.away[between_two]))
    score, games = results.score[between_two], results.games[between_two].astype(np.float64)
    cell, cells = _cells(pair, results.score[between_two])
    # Merging pays only if the table of all pairs is small beside the rows.
    if cells > _ROOM_PER_ROW * games.size or games.max(initial=1.0) > 1.0:
        return pair, score, games, np.ones(games.size)
    times, row = np.bincount(cell), np.empty(cells, dtype=np.int64)
    row[cell] = np.arange(cell.size)
    if (score[row[cell]] != score).any():  # a score other than a win, a draw or a loss
        return pair, score, games, np.ones(games.size)
    seen = np.flatnonzero(times)
    some = row[seen]
    return pair[:, some], score[some], games[some], times[seen].astype(np.float64)


def _cells(pair: IntArray, score: FloatArray) -> tuple[IntArray, int]:
    """Encode K rows by pair and outcome (loss, draw, win); return the (K,) codes and the number of codes."""
    if not score.size:
        return np.zeros(0, dtype=np.int64), 0
    (home, away), (homes, aways) = pair - pair.min(axis=1, keepdims=True), np.ptp(pair, axis=1) + 1
    return (home * aways + away) * 3 + (2.0 * score).astype(np.int64), int(homes * aways * 3)


def _order_free_sums(
    index: IntArray, columns: tuple[FloatArray, ...], times: FloatArray, size: int
) -> tuple[FloatArray, ...]:
    """Sum each column per index, reproducibly: the order of rows and merged equal rows do not change a bit.

    Each value is rounded to a grid that depends only on its group's largest magnitude and count, coarse enough that
    every partial sum is exact. A sum of n values has an error below n^2 2^-51 of the largest. In large groups, where
    that matters, the rounded-off parts are summed the same way on the next finer grid and added.

    Args:
        index: (K,) group of each row, in [0, size).
        columns: (K,) finite values each.
        times: (K,) multiplicity of each row, whole numbers >= 1.
        size: Number of groups.

    Returns:
        (size,) sums of each column. 0 for an empty group.

    Source: Demmel and Nguyen, "Fast reproducible floating-point summation" (2013), pre-rounding.
    """
    counts = np.bincount(index, weights=times, minlength=size)
    _, count_exponent = np.frexp(counts)
    grids = 1 if counts.max(initial=0.0) <= _ONE_GRID_ROWS else 2
    return tuple(_sum_on_grids(index, values, times, count_exponent, grids) for values in columns)


def _sum_on_grids(
    index: IntArray, values: FloatArray, times: FloatArray, count_exponent: NDArray[np.int32], grids: int
) -> FloatArray:
    """Sum one column of `_order_free_sums` on `grids` successively finer grids."""
    size = count_exponent.size
    largest = np.zeros(size)
    np.maximum.at(largest, index, np.abs(values))
    _, exponent = np.frexp(largest)
    total = np.zeros(size)
    for _ in range(grids):
        exponent = exponent + count_exponent
        # its unit in the last place is the grid, so adding and subtracting it rounds to the grid
        anchor = np.ldexp(1.5, exponent).take(index)
        rounded = (values + anchor) - anchor
        total += np.bincount(index, weights=times * rounded, minlength=size)
        values = values - rounded
        exponent = exponent - 52
    return total
