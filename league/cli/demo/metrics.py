"""Training metrics and health verdicts of simulated learners."""

import numpy as np

from league import wire

LEARNING_STEPS = 6e7
"""Steps in which a learner covers 63 % of the way to its final strength."""

_NOISE = 0.04


def progress(step: int) -> float:
    """Return the share of its way that a learner has covered, in [0, 1)."""
    return float(1.0 - np.exp(-step / LEARNING_STEPS))


def sample(step: int, rng: np.random.Generator) -> dict[str, float | None]:
    """Return the metrics that a trainer reports at a step."""
    done = progress(step)
    means = {
        "charts/SPS": 41_000.0,
        "charts/updates": step / 65_536,
        "charts/episodic_return": -1.0 + 4.0 * done,
        "charts/episodic_length": 420.0 - 120.0 * done,
        "charts/score": 0.35 + 0.25 * done,
        "charts/learning_rate": 3e-4 * (1.0 - 0.6 * done),
        "win_rate_by_branch/pfsp": 0.42 + 0.2 * done,
        "win_rate_by_branch/self-play": 0.5,
        "losses/approx_kl": 0.009,
        "losses/clipfrac": 0.11,
        "losses/explained_variance": 0.4 + 0.5 * done,
        "losses/gradient_norm": 0.6,
        "losses/policy_loss": 0.02,
        "losses/value_loss": 0.4 - 0.25 * done,
        "heads/move/entropy": 1.9 - 0.8 * done,
        "heads/fire/entropy": 0.69 - 0.3 * done,
        "heads/move/approx_kl": 0.007,
        "heads/fire/approx_kl": 0.002,
        "heads/move/gradient_norm": 0.5,
        "heads/fire/gradient_norm": 0.2,
        "scales/advantage_mean": -0.02,
        "scales/advantage_std": 1.4 - 0.5 * done,
        "reward_share/zone": 0.2 + 0.1 * done,
        "reward_share/damage": 0.45 - 0.1 * done,
        "reward_share/win": 0.35,
    }
    return {name: float(mean * rng.normal(1.0, _NOISE)) for name, mean in means.items()}


ENTROPY_COLLAPSED = wire.HealthVerdict(
    name="entropy_collapsed",
    severity="warning",
    since_update=31,
    meaning="the policy tries hardly anything new any more",
    evidence="head fire has 0.39 of 0.69 nats left",
    advice="raise ppo.normalized_ent_coef, or look at the run with `trainer doctor`",
)
