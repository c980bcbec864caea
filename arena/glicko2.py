"""Glicko-2: one rating period for a whole population, as array arithmetic.

Everybody is rated against the ratings frozen at the period's start, so the order of results cannot matter; sums are
taken so that it does not matter in the last bit either (see `_order_free_sum`).

Inside, the paper's v (variance) is kept as information I = 1/v, which is 0 for an idle player, and the volatility
equation is written in two dimensionless numbers per player (see `_log_volatility_change`). Both forms stay finite
where the paper's divide by zero or overflow.

Source: Glickman, "Example of the Glicko-2 system" (2022), steps 1 to 8.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SCALE = 173.7178
START_RATING = 1500.0
START_DEVIATION = 350.0
START_VOLATILITY = 0.06

TAU_MAX = 100.0  # far beyond any use (the paper suggests 0.3 to 1.2); keeps tau^2 harmless

_LOGIT_MAX = 500.0  # 86,859 points between certain players: exp(-500) = 7e-218 still squares against 1e40 below
_MAGNITUDE_MAX = 1e40  # a deviation or volatility beyond this is computed as this
_ROOT_TOLERANCE = 1e-11  # of ln(volatility^2)
_ROOT_STEPS = 400  # the interval at least halves every fourth step: 1,500 wide to 1e-11 takes 190


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

    Raises:
        ValueError: Columns differ in length, a score is outside [0, 1], an index is negative, a count is under 1.
    """

    home: IntArray
    away: IntArray
    score: FloatArray
    games: IntArray

    def __post_init__(self) -> None:
        home = _whole_column("home", self.home, None, 0, "a player index counts from 0")
        away = _whole_column("away", self.away, home.size, 0, "a player index counts from 0")
        score = _column("score", self.score, home.size)
        games = _whole_column("games", self.games, home.size, 1, "a row stands for at least one game; leave it out")
        wrong = (score < 0.0) | (score > 1.0)
        _refuse("score", score, wrong, "home's mean score lies in [0, 1]; a win is 1, a draw 0.5, a loss 0")
        object.__setattr__(self, "home", home)
        object.__setattr__(self, "away", away)
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "games", games)

    def __len__(self) -> int:
        return self.home.size


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


def deviation_after(deviation: ArrayLike, volatility: ArrayLike, periods: ArrayLike) -> FloatArray:
    """Grow the deviation of an idle learner over a (fractional) number of rating periods.

        RD(t) = sqrt(RD^2 + t (173.7178 sigma)^2)

    Args:
        deviation: Deviation in points, >= 0, any shape.
        volatility: Volatility, >= 0, broadcast against `deviation`.
        periods: Rating periods gone by since the last update, >= 0, broadcast against `deviation`.

    Source: Glickman (2022), step 6, with the period as the unit of time.
    """
    growth = SCALE * np.asarray(volatility, dtype=np.float64) * np.sqrt(np.asarray(periods, dtype=np.float64))
    return np.hypot(np.asarray(deviation, dtype=np.float64), growth)


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
    logit = _logit(_attenuation(spread), ratings.rating[at_home], ratings.rating[abroad])
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
        phi*  = sqrt(phi^2 + sigma'^2)                          sigma' from `_log_volatility_change`
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
        0.5 * _log_volatility_change(phi[moving], sigma[moving], information[moving], gradient[moving], tau)
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


def _logit(weight: FloatArray, rating: FloatArray, opponent: FloatArray) -> FloatArray:
    """Return weight (mu - mu_opponent), held within the range where exp(-|logit|) is a normal number."""
    with np.errstate(over="ignore"):
        return np.clip(weight * ((rating - opponent) / SCALE), -_LOGIT_MAX, _LOGIT_MAX)


def _evidence(ratings: Ratings, results: Results) -> tuple[FloatArray, FloatArray]:
    """Sum what the results say about each player.

    With x = exp(-|z|) and z = g(phi_j) (mu - mu_j), E (1 - E) is x / (1 + x)^2 and s - E is taken as
    s (1 - E) - (1 - s) E: both keep their relative accuracy where 1 - E is below rounding (6,400 points and more).

    Returns:
        Information I, (P,), and gradient u, (P,), of `rate_period`.
    """
    players = len(ratings)
    _require_players("home", results.home, players)
    _require_players("away", results.away, players)
    between_two = results.home != results.away
    home, away = results.home[between_two], results.away[between_two]
    score, games = results.score[between_two], results.games[between_two].astype(np.float64)

    player, opponent = np.concatenate((home, away)), np.concatenate((away, home))
    won = np.concatenate((score, 1.0 - score))
    lost = np.concatenate((1.0 - score, score))
    weight = _attenuation(ratings.deviation / SCALE)[opponent]
    logit = _logit(weight, ratings.rating[player], ratings.rating[opponent])
    x = np.exp(-np.abs(logit))
    favourite = 1.0 / (1.0 + x)
    ahead = logit >= 0.0
    expected = np.where(ahead, favourite, x * favourite)
    complement = np.where(ahead, x * favourite, favourite)
    weighted = np.concatenate((games, games)) * weight
    information = _order_free_sum(player, weighted * weight * expected * complement, players)
    gradient = _order_free_sum(player, weighted * (won * complement - lost * expected), players)
    return information, gradient


def _order_free_sum(index: IntArray, values: FloatArray, size: int) -> FloatArray:
    """Sum values per index so that the order of the values cannot change a bit of the sums.

    Each value is rounded to a grid that depends only on its group's largest magnitude and count, coarse enough that
    every partial sum is exact; what was rounded off is summed the same way on the next finer grid and added. An
    infinite precision sum is off by less than count^2 2^-90 of the largest value.

    Args:
        index: (K,) group of each value, in [0, size).
        values: (K,) finite values.
        size: Number of groups.

    Returns:
        (size,) sums; 0 for an empty group.

    Source: Demmel and Nguyen, "Fast reproducible floating-point summation" (2013), pre-rounding.
    """
    largest = np.zeros(size)
    np.maximum.at(largest, index, np.abs(values))
    _, count_exponent = np.frexp(np.bincount(index, minlength=size).astype(np.float64))
    _, exponent = np.frexp(largest)
    total = np.zeros(size)
    for _ in range(2):
        exponent = exponent + count_exponent + 1
        anchor = np.ldexp(1.5, exponent)[index]
        rounded = (values + anchor) - anchor
        total += np.bincount(index, weights=rounded, minlength=size)
        values = values - rounded
        exponent = exponent - 52
    return total


def _log_volatility_change(
    phi: FloatArray, sigma: FloatArray, information: FloatArray, gradient: FloatArray, tau: float
) -> FloatArray:
    """Solve the paper's step 5 for t = ln(sigma'^2 / sigma^2).

    With S = phi^2 + v, Y(t) = sigma^2 exp(t) / S and C = Delta^2 / S - 1 the paper's f, times tau^2, is

        f(t) = tau^2 Y (C - Y) / (2 (1 + Y)^2) - t

    The first term is at least -tau^2 / 2, so f(-tau^2 / 2) >= 0 brackets from below for every tau (the paper's k = 1
    suffices up to tau = 2); ln(C / Y(0)) brackets from above. There are up to three roots; the lowest is taken, the
    one that is reached from an unchanged volatility.

    Args:
        phi: (K,) deviations on the Glicko-2 scale, at most 1e40.
        sigma: (K,) volatilities, in (0, 1e40].
        information: (K,) 1 / v, > 0.
        gradient: (K,) Delta / v.
        tau: Constraint on volatility changes, in (0, 100].

    Returns:
        (K,) t. The new volatility is sigma exp(t / 2).
    """
    root_information = np.sqrt(information)
    spread = np.hypot(1.0, phi * root_information)  # sqrt(S / v)
    surprise = np.square(gradient / root_information / spread) - 1.0  # C
    log_start = 2.0 * (np.log(sigma) + np.log(root_information) - np.log(spread))  # ln Y(0)
    low, high = _lowest_bracket(surprise, log_start, tau)
    return _illinois(low, high, surprise, log_start, tau)


def _balance(t: FloatArray, surprise: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return f(t) of `_log_volatility_change`."""
    y = np.exp(log_start + t)
    return (0.5 * tau**2) * (y / (1.0 + y)) * ((surprise - y) / (1.0 + y)) - t


def _balance_slope(t: FloatArray, surprise: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return f'(t) of `_log_volatility_change`."""
    y = np.exp(log_start + t)
    return (0.5 * tau**2) * (y / (1.0 + y)) * ((surprise - (surprise + 2.0) * y) / np.square(1.0 + y)) - 1.0


def _lowest_bracket(surprise: FloatArray, log_start: FloatArray, tau: float) -> tuple[FloatArray, FloatArray]:
    """Bracket the lowest root of `_balance`, with f(low) >= 0 >= f(high) and no other root between.

    Where f(0) <= 0 the root is unique and at most 0. Otherwise all roots are above 0 and f is convex up to the bend
    Y = C / (2 (C + 1) + sqrt(3 (C + 1)^2 + 1)) and has one root at most beyond it while it is positive there; before
    the bend it can dip below 0 and come back, which takes a surprise of more than five standard deviations.
    """
    rises = _balance(np.zeros_like(surprise), surprise, log_start, tau) > 0.0
    above = np.where(rises, surprise, 1.0)
    low = np.where(rises, 0.0, -0.5 * tau**2)
    high = np.where(rises, np.log(above) - log_start, 0.0)
    bend = np.log(above / (2.0 * (above + 1.0) + np.hypot(np.sqrt(3.0) * (above + 1.0), 1.0))) - log_start

    convex = np.flatnonzero(rises & (bend > 0.0))
    if convex.size:
        at, begin = (surprise[convex], log_start[convex], tau), np.zeros(convex.size)
        bottom = _bottom(begin, bend[convex], *at)
        crossed = _balance(bottom, *at) <= 0.0
        low[convex] = np.where(crossed, begin, bottom)
        high[convex] = np.where(crossed, bottom, high[convex])
    return low, high


def _bottom(begin: FloatArray, bend: FloatArray, surprise: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return where `_balance`, convex from `begin` to `bend`, is lowest on that stretch."""
    low, high = begin, bend
    for _ in range(64):  # 1,500 wide to rounding
        middle = 0.5 * (low + high)
        falling = _balance_slope(middle, surprise, log_start, tau) < 0.0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    return high


def _illinois(low: FloatArray, high: FloatArray, surprise: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Find the root of `_balance` in each bracket by the Illinois variant of false position.

    The retained end moves when f_C f_B <= 0; with `<` a step that lands on the root exactly never ends. Every fourth
    step halves the interval instead, which bounds the number of steps.
    """
    root = high.copy()
    a, b = low, high
    f_a, f_b = _balance(a, surprise, log_start, tau), _balance(b, surprise, log_start, tau)
    active = np.arange(low.size)
    for step in range(_ROOT_STEPS):
        wide = np.abs(b - a) > _ROOT_TOLERANCE
        if not wide.all():
            root[active] = b
            a, b, f_a, f_b, active = a[wide], b[wide], f_a[wide], f_b[wide], active[wide]
        if not active.size:
            break
        slope = f_b - f_a
        secant = b - f_b * (b - a) / np.where(slope == 0.0, np.inf, slope)
        c = 0.5 * (a + b) if step % 4 == 3 else secant
        f_c = _balance(c, surprise[active], log_start[active], tau)
        crossed = f_c * f_b <= 0.0
        a, f_a = np.where(crossed, b, a), np.where(crossed, f_b, 0.5 * f_a)
        b, f_b = c, f_c
    root[active] = b
    return root
