"""The volatility equation of Glicko-2, solved for a whole population.

Source: Glickman, "Example of the Glicko-2 system" (2022), step 5.
"""

import numpy as np

from arena.arrays import FloatArray

_ROOT_TOLERANCE = 1e-11  # of ln(volatility^2)
_ROOT_STEPS = 400  # the interval at least halves every eighth step: 5,000 wide (tau = 100) to 1e-11 takes 392


def log_volatility_change(
    phi: FloatArray, sigma: FloatArray, information: FloatArray, gradient: FloatArray, tau: float
) -> FloatArray:
    """Solve the paper's step 5 for t = ln(sigma'^2 / sigma^2).

    With S = phi^2 + v, Y(t) = sigma^2 exp(t) / S and C = Delta^2 / S - 1 the paper's f, times tau^2, is

        f(t) = tau^2 Y (C - Y) / (2 (1 + Y)^2) - t

    The first term is at least -tau^2 / 2, so f(-tau^2 / 2) >= 0 is a lower bracket for every tau (the paper's k = 1
    suffices up to tau = 2). The upper bracket is ln(C / Y(0)). There are up to three roots. The lowest is the one
    reached from an unchanged volatility.

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
    excess = np.square(gradient / root_information / spread) - 1.0  # C
    log_start = 2.0 * (np.log(sigma) + np.log(root_information) - np.log(spread))  # ln Y(0)
    low, high = _lowest_bracket(excess, log_start, tau)
    return _illinois(low, high, excess, log_start, tau)


def _balance(t: FloatArray, excess: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return f(t) of `log_volatility_change`."""
    y = np.exp(log_start + t)
    return (0.5 * tau**2) * (y / (1.0 + y)) * ((excess - y) / (1.0 + y)) - t


def _balance_slope(t: FloatArray, excess: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return f'(t) of `log_volatility_change`."""
    y = np.exp(log_start + t)
    return (0.5 * tau**2) * (y / (1.0 + y)) * ((excess - (excess + 2.0) * y) / np.square(1.0 + y)) - 1.0


def _lowest_bracket(excess: FloatArray, log_start: FloatArray, tau: float) -> tuple[FloatArray, FloatArray]:
    """Bracket the lowest root of `_balance`, with f(low) >= 0 >= f(high) and no other root between.

    If f(0) <= 0, the root is unique and at most 0. Otherwise all roots are above 0. f is convex up to the bend Y = C /
    (2 (C + 1) + sqrt(3 (C + 1)^2 + 1)) and, while positive there, has at most one root beyond it. Before the bend f can
    fall below 0 and rise again: at tau 0.5 that takes a result nine standard deviations from its expectation.
    """
    rises = _balance(np.zeros_like(excess), excess, log_start, tau) > 0.0
    above = np.where(rises, excess, 1.0)
    low = np.where(rises, 0.0, -0.5 * tau**2)
    high = np.where(rises, np.log(above) - log_start, 0.0)
    bend = np.log(above / (2.0 * (above + 1.0) + np.hypot(np.sqrt(3.0) * (above + 1.0), 1.0))) - log_start

    convex = np.flatnonzero(rises & (bend > 0.0))
    if convex.size:
        bottom = _bottom(bend[convex], excess[convex], log_start[convex], tau)
        crossed = _balance(bottom, excess[convex], log_start[convex], tau) <= 0.0
        low[convex] = np.where(crossed, 0.0, bottom)
        high[convex] = np.where(crossed, bottom, high[convex])
    return low, high


def _bottom(bend: FloatArray, excess: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Return the minimizer of `_balance`, which is convex from 0 to `bend`, on that interval."""
    bottom = bend.copy()
    dips = np.flatnonzero(_balance_slope(bend, excess, log_start, tau) > 0.0)
    low, high = np.zeros(dips.size), bend[dips]
    for _ in range(64 if dips.size else 0):  # bisects an interval of 1,500 down to rounding
        middle = 0.5 * (low + high)
        falling = _balance_slope(middle, excess[dips], log_start[dips], tau) < 0.0
        low, high = np.where(falling, middle, low), np.where(falling, high, middle)
    bottom[dips] = high
    return bottom


def _illinois(low: FloatArray, high: FloatArray, excess: FloatArray, log_start: FloatArray, tau: float) -> FloatArray:
    """Find the root of `_balance` in each bracket by the Illinois variant of false position.

    The retained end moves if f_C f_B <= 0. With `<`, a step that lands exactly on the root would never end. Every
    eighth step is a bisection, which bounds the number of steps.
    """
    root = high.copy()
    a, b = low, high
    f_a, f_b = _balance(a, excess, log_start, tau), _balance(b, excess, log_start, tau)
    active = np.arange(low.size)
    for step in range(_ROOT_STEPS):
        wide = np.abs(b - a) > _ROOT_TOLERANCE
        if not wide.all():
            root[active] = b
            a, b, f_a, f_b, active = a[wide], b[wide], f_a[wide], f_b[wide], active[wide]
        if not active.size:
            break
        slope = f_b - f_a
        secant = b - f_b * (b - a) / np.where(slope == 0.0, np.inf, slope)  # a slope of 0 leaves the point at b
        c = 0.5 * (a + b) if step % 8 == 7 else secant
        f_c = _balance(c, excess[active], log_start[active], tau)
        crossed = f_c * f_b <= 0.0
        a, f_a = np.where(crossed, b, a), np.where(crossed, f_b, 0.5 * f_a)
        b, f_b = c, f_c
    root[active] = b
    return root
