"""What can be wrong with training, in numbers: one symptom, one reading of the latest metrics.

Pure and without torch.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trainer.history import OPENING_UPDATES, History


@dataclass(frozen=True)
class Reading:
    """A symptom's level now, and the numbers that it comes from."""

    level: float
    evidence: Mapping[str, float]


EVEN = 0.45
"""Win rate that is no defeat: two equal players differ by less from 0.5 over 200 matches."""

Measure = Callable[[History, int], Reading | None]
"""Reads a symptom from a history over a window; None where there is nothing to say, which is no symptom."""


def frozen_policy(history: History, window: int) -> Reading | None:
    """KL, unless anything else says that the policy moves: clipping, the ratio, the course of entropy."""
    kl, clipped = history.last("losses/approx_kl"), history.last("losses/clipfrac")
    off = history.last("losses/ratio_deviation") or 0.0
    entropy = history.values("losses/entropy", 5)
    spread = max(entropy) - min(entropy) if entropy else 0.0
    moves = (clipped or 0.0) > 1e-3 or off > 0.01 or spread > 0.05 * max(1.0, abs(median(entropy or [0.0])))
    if kl is None or moves or history.setup.optimizer_steps == 1:
        return None
    rate = history.last("charts/learning_rate")
    named = {"KL": kl, "clip fraction": clipped, "ratio off 1 by": off, "entropy spread": spread, "learning rate": rate}
    return Reading(kl, {name: value for name, value in named.items() if value is not None})


def entropy_collapsed(history: History, window: int) -> Reading | None:
    """What the widest head has left of its opening: standard deviation where it is continuous, else entropy."""
    stds, entropies = history.of_heads("std"), history.of_heads("entropy")
    left = {
        head: value / opening
        for head, value in (entropies | stds).items()
        if (opening := history.opening.get(f"heads/{head}/{'std' if head in stds else 'entropy'}", 0.0)) > 0.01
    }
    return Reading(max(left.values()), {f"{head} has left": share for head, share in left.items()}) if left else None


def critic(history: History, window: int) -> Reading | None:
    """Median explained variance; undefined where returns are constant, which is nobody's fault."""
    values = history.full("losses/explained_variance", window)
    return Reading(median(values), {"explained variance": median(values)}) if values else None


def kl_stop(history: History, window: int) -> Reading | None:
    """Share of updates that the KL stop cut short."""
    return _mean(history, "losses/kl_stop", window, "share of updates stopped")


def always_clipped(history: History, window: int) -> Reading | None:
    """Mean gradient norm over its limit, where every step was clipped; 0 where some were not."""
    clipped, norms = history.full("losses/gradient_clipped", window), history.full("losses/gradient_norm", window)
    if not clipped or not norms:
        return None
    norm, limit = sum(norms) / len(norms), history.setup.max_gradient_norm
    return Reading(norm / limit if min(clipped) >= 0.99 else 0.0, {"gradient norm": norm, "limit": limit})


def never_clipped(history: History, window: int) -> Reading | None:
    """Share of clipped steps."""
    return _mean(history, "losses/gradient_clipped", window, "share of steps clipped")


def gradient_norm(history: History, window: int) -> Reading | None:
    """Norm before clipping."""
    return _mean(history, "losses/gradient_norm", window, "gradient norm")


def saturation(history: History, window: int) -> Reading | None:
    """Share of saturated actions of the head that has most."""
    shares = {
        head: sum(values) / len(values)
        for head in history.of_heads("saturated")
        if (values := history.full(f"heads/{head}/saturated", window))
    }
    return (
        Reading(max(shares.values()), {f"{head} saturated": each for head, each in shares.items()}) if shares else None
    )


def ratio_alarms(history: History, window: int) -> Reading | None:
    """Share of samples with a ratio far off."""
    alarms, samples = history.last("losses/ratio_alarms"), max(history.of_heads("samples").values(), default=0.0)
    return Reading(alarms / samples, {"samples off": alarms, "of": samples}) if alarms is not None and samples else None


def starving_head(history: History, window: int) -> Reading | None:
    """Smallest gradient of a head over the largest; heads with nothing to decide have none."""
    norms = history.of_heads("gradient_norm")
    most = max(norms.values(), default=0.0)
    if len(norms) < 2 or most == 0.0:
        return None
    least = min(norms, key=lambda head: norms[head])
    return Reading(norms[least] / most, {f"gradient of {least}": norms[least], "largest": most})


def scale_drift(history: History, window: int) -> Reading | None:
    """Spread of the last ten updates against the first ten of the window, whichever of returns and values is worse."""
    if history.seen < OPENING_UPDATES + window // 2:
        return None
    readings = []
    for name in ("return", "value"):
        spreads = history.values(f"scales/{name}_std", min(window, history.seen - OPENING_UPDATES))
        before, now = median(spreads[:10] or [0.0]), median(spreads[-10:] or [0.0])
        if before > 0.0 and now > 0.0:
            level = max(before / now, now / before)
            readings.append(Reading(level, {f"{name} spread before": before, f"{name} spread now": now}))
    return max(readings, key=lambda reading: reading.level, default=None)


def unstable_batches(history: History, window: int) -> Reading | None:
    """Greatest spread of the last five batches over the usual one of the window; quiet batches do no harm."""
    if history.seen < OPENING_UPDATES + window // 2:
        return None
    readings = []
    for name in ("advantage", "value", "reward"):
        spreads = history.values(f"scales/{name}_std", min(window, history.seen - OPENING_UPDATES))
        usual, greatest = median(spreads or [0.0]), max(spreads[-5:], default=0.0)
        if usual > 0.0:
            evidence = {f"usual {name} spread": usual, f"greatest {name} spread": greatest}
            readings.append(Reading(greatest / usual, evidence))
    return max(readings, key=lambda reading: reading.level, default=None)


def weakest_result(history: History, window: int) -> Reading | None:
    """Win rate against the opponent that is worst to meet."""
    rates = history.win_rates()
    return _named("least win rate", min(rates, key=lambda name: rates[name]), rates) if rates else None


def strongest_result(history: History, window: int) -> Reading | None:
    """Win rate against the opponent that is best to meet."""
    rates = history.win_rates()
    return _named("greatest win rate", max(rates, key=lambda name: rates[name]), rates) if rates else None


def fallen_win_rate(history: History, window: int) -> Reading | None:
    """Greatest fall of a win rate from its best."""
    rates = history.win_rates()
    falls = {name: history.best[name] - rate for name, rate in rates.items()}
    if not falls:
        return None
    name = max(falls, key=lambda name: falls[name])
    return Reading(falls[name], {f"best against {name}": history.best[name], "now": rates[name]})


def dominating_component(history: History, window: int) -> Reading | None:
    """Greatest share of a component of the reward over the one that it may have; a single component is all there is."""
    shares = history.shares()
    if len(shares) < 2:
        return None
    name = max(shares, key=lambda name: shares[name])
    return Reading(shares[name] / history.setup.component_share, {f"share of {name}": shares[name]})


def left_to_learn(history: History, window: int) -> Reading | None:
    """Spread of advantages over that of the opening, where matches bring the best that they ever brought.

    That is nothing where they bring no more than at first, or where anybody who is rated wins against the learner.
    """
    opening = history.opening.get("scales/advantage_std", 0.0)
    spreads, earned = history.full("scales/advantage_std", window), history.last("charts/episodic_return")
    if earned is None or history.returns is None or not spreads or opening <= 0.0:
        return None
    first, best = history.returns
    worst = min(history.win_rates().values(), default=0.0)
    if best <= first or earned < best - 0.05 * (best - first) or worst < EVEN:
        return None
    level = median(spreads) / opening
    return Reading(level, {"spread of advantages left": level, "return": earned, "best return": best})


def rejected(history: History, window: int) -> Reading | None:
    """Rejected updates in the window; the count begins anew when a run resumes."""
    counts = history.values("losses/rejected_steps", window)
    steps = [max(0.0, later - earlier) for earlier, later in pairwise(counts)]
    started = counts[0] if counts and len(counts) == history.seen else 0.0
    return Reading(sum(steps) + started, {"rejected updates": sum(steps) + started}) if counts else None


def _mean(history: History, name: str, window: int, words: str) -> Reading | None:
    values = history.full(name, window)
    return Reading(math.fsum(values) / len(values), {words: math.fsum(values) / len(values)}) if values else None


def _named(words: str, name: str, rates: Mapping[str, float]) -> Reading:
    return Reading(rates[name], {f"{words}, against {name}": rates[name]})
