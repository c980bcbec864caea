"""Levels that the health rules judge, measured from the latest metrics. Pure and without torch."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from trainer.monitoring.health.history import OPENING_UPDATES, History


@dataclass(frozen=True)
class Measurement:
    """A rule's current level and the numbers behind it; `case` names more specific advice of `rules.toml`."""

    level: float
    evidence: Mapping[str, float]
    case: str = ""


Measure = Callable[[History, int], Measurement | None]
"""Measures a level over the last `window` updates; None if it is undefined, which counts as good."""

MATCHES_WITHOUT_REWARD = 20
"""Finished matches without a reward from which on rewards count as missing, even those paid at the end of a match."""

EVEN = 0.45
"""Lowest win rate of an equal player: over 200 matches, two equal players differ by less from 0.5."""

CLEAR_GAIN = 0.5
"""Gain of the mean over 200 matches, in standard deviations of a return: seven standard errors."""

TOO_LARGE_KL = 0.1
"""KL of an update outside the region in which PPO's surrogate is valid; healthy updates are below 0.02."""

TOO_MANY_OUTLIERS = 1e-3
"""Share of samples with a ratio over 5 or under 0.1 from which on an update was too large."""

HIGH_RATE = 0.03
"""Learning rate that is not too small for any game; presets have up to 0.01."""

COLLAPSED = 0.1
"""Share of the initial entropy below which a policy is nearly deterministic."""


def no_reward(history: History, window: int) -> Measurement | None:
    """1 if no agent has received a reward so far; undefined before some matches have ended."""
    matches = history.last("charts/episodes")
    if history.rewarded is None or (matches is not None and matches < MATCHES_WITHOUT_REWARD):
        return None
    evidence = {"updates": float(history.seen)} | ({} if matches is None else {"finished matches": matches})
    return Measurement(0.0 if history.rewarded else 1.0, evidence)


def frozen_policy(history: History, window: int) -> Measurement | None:
    """KL of the last update; undefined if clipping, ratios or the course of entropy show that the policy changes."""
    kl, clipped = history.last("losses/approx_kl"), history.last("losses/clipfrac")
    deviation, rate = history.last("losses/ratio_deviation") or 0.0, history.last("charts/learning_rate")
    entropy = history.values("losses/normalized_entropy", 5) or [0.0]
    entropy_range = max(entropy) - min(entropy)
    named = {
        "KL": kl,
        "clip fraction": clipped,
        "ratio off 1 by": deviation,
        "entropy range": entropy_range,
        "learning rate": rate,
    }
    evidence = {name: value for name, value in named.items() if value is not None}
    if rate == 0.0:
        return Measurement(0.0, evidence, "no_rate")
    # KL is a noisy estimate near 0, so any other sign of a change rules a frozen policy out.
    changes = (clipped or 0.0) > 1e-3 or deviation > 0.01 or entropy_range > 0.05 * max(1.0, abs(median(entropy)))
    if kl is None or changes or history.setup.optimizer_steps == 1:
        return None
    return _diagnose_frozen_policy(history, kl, evidence)


def _diagnose_frozen_policy(history: History, kl: float, evidence: dict[str, float]) -> Measurement:
    """Distinguish a policy that large updates stopped from one that never changed."""
    left, rate = max(_entropy_left(history).values(), default=1.0), history.last("charts/learning_rate") or 0.0
    advantage = history.last("scales/advantage_std")
    if collapsed := left <= COLLAPSED:
        evidence["entropy left"] = left
    if history.rewarded is False or (advantage == 0.0 and not collapsed):
        return Measurement(kl, evidence | {"advantage deviation": advantage or 0.0}, "some_advantage")
    if rate >= HIGH_RATE or (collapsed and _had_large_update(history)):
        return Measurement(kl, evidence | _peaks(history), "lower_rate")
    return Measurement(kl, evidence, "more_entropy" if collapsed else "")


def _had_large_update(history: History) -> bool:
    """Whether an update of the run changed the policy too much at once, as too high a learning rate does."""
    return history.largest_kl >= TOO_LARGE_KL or history.largest_outlier_share >= TOO_MANY_OUTLIERS


def _peaks(history: History) -> dict[str, float]:
    return {"largest KL": history.largest_kl, "largest share of outlying ratios": history.largest_outlier_share}


def entropy_collapsed(history: History, window: int) -> Measurement | None:
    """Width of the widest head relative to the first updates: standard deviation if it is continuous, else entropy."""
    left = _entropy_left(history)
    if not left:
        return None
    evidence, level = {f"{head} has left": share for head, share in left.items()}, max(left.values())
    if _had_large_update(history):
        return Measurement(level, evidence | _peaks(history), "lower_rate")
    return Measurement(level, evidence)


def _entropy_left(history: History) -> dict[str, float]:
    """Width of each head relative to the first updates."""
    stds, entropies = history.per_head("std"), history.per_head("entropy")
    return {
        head: value / opening
        for head, value in (entropies | stds).items()
        # A head that was deterministic from the start has no width to lose.
        if (opening := history.opening.get(f"heads/{head}/{'std' if head in stds else 'entropy'}", 0.0)) > 0.01
    }


def explained_variance(history: History, window: int) -> Measurement | None:
    """Median explained variance; undefined if returns are constant."""
    values = history.full("losses/explained_variance", window)
    return Measurement(median(values), {"explained variance": median(values)}) if values else None


def _mean_of(metric: str, words: str) -> Measure:
    """Return a measure: the mean of a metric over the window."""

    def measure(history: History, window: int) -> Measurement | None:
        values = history.full(metric, window)
        return Measurement(fmean(values), {words: fmean(values)}) if values else None

    return measure


kl_stop_share = _mean_of("losses/kl_stop", "share of updates stopped")
clipped_step_share = _mean_of("losses/gradient_clipped", "share of steps clipped")
gradient_norm = _mean_of("losses/gradient_norm", "gradient norm")


def clipped_gradient_norm(history: History, window: int) -> Measurement | None:
    """Mean gradient norm relative to its limit if every step was clipped, otherwise 0."""
    clipped, norms = history.full("losses/gradient_clipped", window), history.full("losses/gradient_norm", window)
    if not clipped or not norms:
        return None
    norm, limit = fmean(norms), history.setup.max_grad_norm
    return Measurement(norm / limit if min(clipped) >= 0.99 else 0.0, {"gradient norm": norm, "limit": limit})


def saturated_share(history: History, window: int) -> Measurement | None:
    """Share of saturated actions in the head with the most of them."""
    windows = {head: history.full(f"heads/{head}/saturated", window) for head in history.per_head("saturated")}
    shares = {f"{head} saturated": fmean(values) for head, values in windows.items() if values}
    return Measurement(max(shares.values()), shares) if shares else None


def ratio_outlier_share(history: History, window: int) -> Measurement | None:
    """Share of samples with a probability ratio far from 1."""
    outliers, samples = history.last("losses/ratio_alarms"), max(history.per_head("samples").values(), default=0.0)
    if outliers is None or not samples:
        return None
    return Measurement(outliers / samples, {"outlying ratios": outliers, "samples": samples})


def head_gradient_ratio(history: History, window: int) -> Measurement | None:
    """Smallest gradient of a head relative to the largest; heads without a decision have none."""
    norms = history.per_head("gradient_norm")
    largest = max(norms.values(), default=0.0)
    if len(norms) < 2 or largest == 0.0:
        return None
    head = min(norms, key=norms.__getitem__)
    return Measurement(norms[head] / largest, {f"gradient of {head}": norms[head], "largest": largest})


def scale_drift(history: History, window: int) -> Measurement | None:
    """Change of a deviation between the first ten updates of the window and the last; the worse of two metrics."""

    def change(name: str, deviations: list[float]) -> Measurement | None:
        before, now = median(deviations[:10]), median(deviations[-10:])
        if before <= 0.0 or now <= 0.0:
            return None
        evidence = {f"{name} deviation before": before, f"{name} deviation now": now}
        return Measurement(max(before / now, now / before), evidence)

    return _worst_deviation(history, window, ("return", "value"), change)


def batch_spread_ratio(history: History, window: int) -> Measurement | None:
    """Largest deviation of the last five batches relative to the usual one of the window, the worst of three metrics.

    Batches with a small deviation do no harm.
    """

    def ratio(name: str, deviations: list[float]) -> Measurement | None:
        usual, largest = median(deviations), max(deviations[-5:])
        evidence = {f"usual {name} deviation": usual, f"largest {name} deviation": largest}
        return Measurement(largest / usual, evidence) if usual > 0.0 else None

    return _worst_deviation(history, window, ("advantage", "value", "reward"), ratio)


def _worst_deviation(
    history: History, window: int, names: Iterable[str], measure: Callable[[str, list[float]], Measurement | None]
) -> Measurement | None:
    """Measure the standard deviations of each name after the first updates; return the highest level."""
    if history.seen < OPENING_UPDATES + window // 2:
        return None
    updates = min(window, history.seen - OPENING_UPDATES)
    deviations = {name: history.values(f"scales/{name}_std", updates) for name in names}
    measured = [each for name, values in deviations.items() if values and (each := measure(name, values))]
    return max(measured, key=lambda each: each.level, default=None)


def lowest_win_rate(history: History, window: int) -> Measurement | None:
    """Lowest win rate over recent opponents."""
    rates = history.win_rates()
    return _named(rates, min(rates, key=rates.__getitem__), "lowest win rate") if rates else None


def highest_win_rate(history: History, window: int) -> Measurement | None:
    """Highest win rate over recent opponents."""
    rates = history.win_rates()
    return _named(rates, max(rates, key=rates.__getitem__), "highest win rate") if rates else None


def _named(rates: Mapping[str, float], name: str, words: str) -> Measurement:
    return Measurement(rates[name], {f"{words}, against {name}": rates[name]})


def win_rate_drop(history: History, window: int) -> Measurement | None:
    """Largest drop of a win rate from its best."""
    drops = {name: history.best[name] - rate for name, rate in history.win_rates().items()}
    if not drops:
        return None
    name = max(drops, key=drops.__getitem__)
    return Measurement(drops[name], {f"best against {name}": history.best[name], "now": history.win_rates()[name]})


def largest_reward_share(history: History, window: int) -> Measurement | None:
    """Largest share of a reward component relative to the limit; undefined with a single component."""
    shares = history.shares()
    if len(shares) < 2:
        return None
    name = max(shares, key=shares.__getitem__)
    return Measurement(shares[name] / history.setup.component_share, {f"share of {name}": shares[name]})


def advantage_spread_left(history: History, window: int) -> Measurement | None:
    """Deviation of advantages relative to the first updates, while returns are at their best.

    Undefined if returns have not risen since the start of the run, or if the learner loses to a rated opponent.
    """
    opening = history.opening.get("scales/advantage_std", 0.0)
    deviations, returns = history.full("scales/advantage_std", window), history.last("charts/episodic_return")
    if returns is None or history.returns is None or not deviations or opening <= 0.0:
        return None
    first, best = history.returns
    if best <= first or returns < best - 0.05 * (best - first) or not _is_unbeaten(history, best - first):
        return None
    level = median(deviations) / opening
    return Measurement(level, {"advantage deviation left": level, "return": returns, "best return": best})


def _is_unbeaten(history: History, gain: float) -> bool:
    """Whether the learner loses to no rated opponent or, without rated opponents, whether returns have clearly risen.

    In a zero-sum game, self-play returns stay the same: their noise must not count as a gain.
    """
    if rates := history.win_rates():
        return min(rates.values()) >= EVEN
    deviation = history.last("scales/reward_divisor")
    return deviation is not None and gain >= CLEAR_GAIN * deviation


def rejected_updates(history: History, window: int) -> Measurement | None:
    """Number of rejected updates in the window; the counter restarts when a run resumes."""
    counts = history.values("losses/rejected_steps", window)
    if not counts:
        return None
    rejected = sum(max(0.0, later - earlier) for earlier, later in pairwise(counts))
    # `pairwise` misses the rejections before the first value, which belong to the window if it covers the whole run.
    rejected += counts[0] if len(counts) == history.seen else 0.0
    return Measurement(rejected, {"rejected updates": rejected})
