"""Levels that the health rules judge, measured from the latest metrics. Pure and without torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from trainer.monitoring.health.history import OPENING_UPDATES, History


@dataclass(frozen=True)
class Measurement:
    """A rule's current level and the numbers behind it; `advice` replaces the rule's own where these call for it."""

    level: float
    evidence: Mapping[str, float]
    advice: str = ""


MATCHES_WITHOUT_REWARD = 20
"""Finished matches after which a reward should have come: one that is paid at the end has been due so often."""

EVEN = 0.45
"""Win rate that is no defeat: two equal players differ by less from 0.5 over 200 matches."""

CLEAR_GAIN = 0.5
"""Gain of the mean over 200 matches, in standard deviations of a return: seven standard errors."""

Measure = Callable[[History, int], Measurement | None]
"""Measures a level over the last `window` updates; None if it is undefined, which counts as good."""

TOO_LARGE_KL = 0.1
"""KL of an update that has left the region in which PPO's surrogate means anything; healthy ones are below 0.02."""

TOO_MANY_OFF = 1e-3
"""Share of samples with a ratio over 5 or under 0.1 in an update, from which on it was too large."""

HIGH_RATE = 0.03
"""Learning rate from which on too small a rate is not the reason why a policy rests; presets have up to 0.01."""

COLLAPSED = 0.1
"""Share of the opening's entropy below which a policy is nearly deterministic."""

NO_RATE = (
    "set optimizer.learning_rate and optimizer.learning_rate_final above 0: the learning rate is 0, so that no update "
    "can change the policy"
)
LOWER_RATE = (
    "lower optimizer.learning_rate, by a factor of 10 at first, and begin a new run: too large updates drove the "
    "policy to where it hardly moves, and few policies recover"
)
MORE_ENTROPY = (
    "raise ppo.normalized_ent_coef and ppo.normalized_ent_coef_final or set ppo.entropy_floors, and begin a new run: "
    "the policy is "
    "nearly deterministic, so that its gradient is next to nothing at any learning rate"
)
SOME_ADVANTAGE = (
    "look for the reason why advantages are all 0: rewards that never come or are always the same, or "
    "normalization.advantage_std_floor; no learning rate helps without advantages"
)


def no_reward(history: History, window: int) -> Measurement | None:
    """1 if no agent ever got a reward; undefined before some matches have ended."""
    matches = history.last("charts/episodes")
    if history.rewarded is None or (matches is not None and matches < MATCHES_WITHOUT_REWARD):
        return None
    evidence = {"updates": float(history.seen)} | ({} if matches is None else {"finished matches": matches})
    return Measurement(0.0 if history.rewarded else 1.0, evidence)


def frozen_policy(history: History, window: int) -> Measurement | None:
    """KL, unless anything else says that the policy moves: clipping, the ratio, the course of entropy."""
    kl, clipped = history.last("losses/approx_kl"), history.last("losses/clipfrac")
    off, rate = history.last("losses/ratio_deviation") or 0.0, history.last("charts/learning_rate")
    entropy = history.values("losses/normalized_entropy", 5)
    spread = max(entropy) - min(entropy) if entropy else 0.0
    named = {"KL": kl, "clip fraction": clipped, "ratio off 1 by": off, "entropy spread": spread, "learning rate": rate}
    evidence = {name: value for name, value in named.items() if value is not None}
    if rate == 0.0:
        return Measurement(0.0, evidence, NO_RATE)
    moves = (clipped or 0.0) > 1e-3 or off > 0.01 or spread > 0.05 * max(1.0, abs(median(entropy or [0.0])))
    if kl is None or moves or history.setup.optimizer_steps == 1:
        return None
    return _why_frozen(history, kl, evidence)


def _why_frozen(history: History, kl: float, evidence: dict[str, float]) -> Measurement:
    """Distinguish a policy that large updates stopped from one that never moved."""
    left, rate = _entropy_left(history), history.last("charts/learning_rate") or 0.0
    advantage = history.last("scales/advantage_std")
    collapsed = bool(left) and max(left.values()) <= COLLAPSED
    if collapsed:
        evidence["entropy left"] = max(left.values())
    if history.rewarded is False or (advantage == 0.0 and not collapsed):
        return Measurement(kl, evidence | {"advantage spread": advantage or 0.0}, SOME_ADVANTAGE)
    if rate >= HIGH_RATE or (collapsed and _had_large_update(history)):
        return Measurement(kl, evidence | _peaks(history), LOWER_RATE)
    return Measurement(kl, evidence, MORE_ENTROPY if collapsed else "")


def _had_large_update(history: History) -> bool:
    """Whether some update of the run moved the policy too far at once, as too high a learning rate does."""
    return history.largest_kl >= TOO_LARGE_KL or history.largest_outlier_share >= TOO_MANY_OFF


def _peaks(history: History) -> dict[str, float]:
    return {
        "largest KL of an update": history.largest_kl,
        "largest share of samples off": history.largest_outlier_share,
    }


def entropy_collapsed(history: History, window: int) -> Measurement | None:
    """What the widest head has left of its opening: standard deviation where it is continuous, else entropy."""
    left = _entropy_left(history)
    if not left:
        return None
    evidence = {f"{head} has left": share for head, share in left.items()}
    if _had_large_update(history):
        return Measurement(max(left.values()), evidence | _peaks(history), LOWER_RATE)
    return Measurement(max(left.values()), evidence)


def _entropy_left(history: History) -> dict[str, float]:
    """Width of each head relative to the first updates."""
    stds, entropies = history.per_head("std"), history.per_head("entropy")
    return {
        head: value / opening
        for head, value in (entropies | stds).items()
        if (opening := history.opening.get(f"heads/{head}/{'std' if head in stds else 'entropy'}", 0.0)) > 0.01
    }


def explained_variance(history: History, window: int) -> Measurement | None:
    """Median explained variance; undefined if returns are constant."""
    values = history.full("losses/explained_variance", window)
    return Measurement(median(values), {"explained variance": median(values)}) if values else None


def kl_stop_share(history: History, window: int) -> Measurement | None:
    """Share of updates that the KL stop cut short."""
    return _mean(history, "losses/kl_stop", window, "share of updates stopped")


def clipped_gradient_norm(history: History, window: int) -> Measurement | None:
    """Mean gradient norm over its limit, where every step was clipped; 0 where some were not."""
    clipped, norms = history.full("losses/gradient_clipped", window), history.full("losses/gradient_norm", window)
    if not clipped or not norms:
        return None
    norm, limit = sum(norms) / len(norms), history.setup.max_grad_norm
    return Measurement(norm / limit if min(clipped) >= 0.99 else 0.0, {"gradient norm": norm, "limit": limit})


def clipped_step_share(history: History, window: int) -> Measurement | None:
    """Share of clipped steps."""
    return _mean(history, "losses/gradient_clipped", window, "share of steps clipped")


def gradient_norm(history: History, window: int) -> Measurement | None:
    """Norm before clipping."""
    return _mean(history, "losses/gradient_norm", window, "gradient norm")


def saturated_share(history: History, window: int) -> Measurement | None:
    """Share of saturated actions in the head with the most of them."""
    shares = {
        head: sum(values) / len(values)
        for head in history.per_head("saturated")
        if (values := history.full(f"heads/{head}/saturated", window))
    }
    return (
        Measurement(max(shares.values()), {f"{head} saturated": each for head, each in shares.items()})
        if shares
        else None
    )


def ratio_outlier_share(history: History, window: int) -> Measurement | None:
    """Share of samples with a probability ratio far from 1."""
    alarms, samples = history.last("losses/ratio_alarms"), max(history.per_head("samples").values(), default=0.0)
    return (
        Measurement(alarms / samples, {"samples off": alarms, "of": samples})
        if alarms is not None and samples
        else None
    )


def head_gradient_ratio(history: History, window: int) -> Measurement | None:
    """Smallest gradient of a head over the largest; heads with nothing to decide have none."""
    norms = history.per_head("gradient_norm")
    most = max(norms.values(), default=0.0)
    if len(norms) < 2 or most == 0.0:
        return None
    least = min(norms, key=lambda head: norms[head])
    return Measurement(norms[least] / most, {f"gradient of {least}": norms[least], "largest": most})


def scale_drift(history: History, window: int) -> Measurement | None:
    """Spread of the last ten updates against the first ten of the window, whichever of returns and values is worse."""
    if history.seen < OPENING_UPDATES + window // 2:
        return None
    measured = []
    for name in ("return", "value"):
        spreads = history.values(f"scales/{name}_std", min(window, history.seen - OPENING_UPDATES))
        before, now = median(spreads[:10] or [0.0]), median(spreads[-10:] or [0.0])
        if before > 0.0 and now > 0.0:
            level = max(before / now, now / before)
            measured.append(Measurement(level, {f"{name} spread before": before, f"{name} spread now": now}))
    return max(measured, key=lambda each: each.level, default=None)


def batch_spread_ratio(history: History, window: int) -> Measurement | None:
    """Greatest spread of the last five batches over the usual one of the window; quiet batches do no harm."""
    if history.seen < OPENING_UPDATES + window // 2:
        return None
    measured = []
    for name in ("advantage", "value", "reward"):
        spreads = history.values(f"scales/{name}_std", min(window, history.seen - OPENING_UPDATES))
        usual, greatest = median(spreads or [0.0]), max(spreads[-5:], default=0.0)
        if usual > 0.0:
            evidence = {f"usual {name} spread": usual, f"greatest {name} spread": greatest}
            measured.append(Measurement(greatest / usual, evidence))
    return max(measured, key=lambda each: each.level, default=None)


def lowest_win_rate(history: History, window: int) -> Measurement | None:
    """Lowest win rate over recent opponents."""
    rates = history.win_rates()
    return _named("least win rate", min(rates, key=lambda name: rates[name]), rates) if rates else None


def highest_win_rate(history: History, window: int) -> Measurement | None:
    """Highest win rate over recent opponents."""
    rates = history.win_rates()
    return _named("greatest win rate", max(rates, key=lambda name: rates[name]), rates) if rates else None


def win_rate_drop(history: History, window: int) -> Measurement | None:
    """Largest drop of a win rate from its best."""
    rates = history.win_rates()
    falls = {name: history.best[name] - rate for name, rate in rates.items()}
    if not falls:
        return None
    name = max(falls, key=lambda name: falls[name])
    return Measurement(falls[name], {f"best against {name}": history.best[name], "now": rates[name]})


def largest_reward_share(history: History, window: int) -> Measurement | None:
    """Largest share of a reward component, relative to the limit; undefined with a single component."""
    shares = history.shares()
    if len(shares) < 2:
        return None
    name = max(shares, key=lambda name: shares[name])
    return Measurement(shares[name] / history.setup.component_share, {f"share of {name}": shares[name]})


def advantage_spread_left(history: History, window: int) -> Measurement | None:
    """Spread of advantages over that of the opening, where matches bring the best that they ever brought.

    That is nothing where they bring no more than at first, or where a rated opponent wins against the learner.
    """
    opening = history.opening.get("scales/advantage_std", 0.0)
    spreads, earned = history.full("scales/advantage_std", window), history.last("charts/episodic_return")
    if earned is None or history.returns is None or not spreads or opening <= 0.0:
        return None
    first, best = history.returns
    if best <= first or earned < best - 0.05 * (best - first) or not _is_unbeaten(history, best - first):
        return None
    level = median(spreads) / opening
    return Measurement(level, {"spread of advantages left": level, "return": earned, "best return": best})


def _is_unbeaten(history: History, gained: float) -> bool:
    """Whether no rated opponent wins; where none is rated, whether matches bring clearly more than at first.

    Self-play in a zero-sum game brings the same throughout, so that its noise must not look like a gain.
    """
    rates = history.win_rates()
    if rates:
        return min(rates.values()) >= EVEN
    deviation = history.last("scales/reward_divisor")
    return deviation is not None and gained >= CLEAR_GAIN * deviation


def rejected_updates(history: History, window: int) -> Measurement | None:
    """Rejected updates in the window; the counter restarts when a run resumes."""
    counts = history.values("losses/rejected_steps", window)
    steps = [max(0.0, later - earlier) for earlier, later in pairwise(counts)]
    started = counts[0] if counts and len(counts) == history.seen else 0.0
    return Measurement(sum(steps) + started, {"rejected updates": sum(steps) + started}) if counts else None


def _mean(history: History, name: str, window: int, words: str) -> Measurement | None:
    values = history.full(name, window)
    return Measurement(math.fsum(values) / len(values), {words: math.fsum(values) / len(values)}) if values else None


def _named(words: str, name: str, rates: Mapping[str, float]) -> Measurement:
    return Measurement(rates[name], {f"{words}, against {name}": rates[name]})
