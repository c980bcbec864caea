"""Shapes of schedules; `Learner.coefficients` applies them to the learning rate and the loss coefficients."""

import math

from trainer.config.algorithm import Shape


def progress(step: int, horizon_steps: int) -> float:
    """Return the share of the schedule's horizon that has passed, in [0, 1]."""
    return min(1.0, step / horizon_steps)


def anneal(shape: Shape, start: float, final: float, fraction: float) -> float:
    """Anneal from `start` at fraction 0 to `final` at fraction 1, linearly or along half a cosine.

    The cosine is slower at both ends, and halfway at fraction 0.5.

    Source: Loshchilov and Hutter, "SGDR" (2017), equation 5, without restarts.
    """
    if shape is Shape.LINEAR:
        return start + (final - start) * fraction
    return final + (start - final) * (1.0 + math.cos(math.pi * fraction)) / 2.0


def linear_warmup(step: int, steps: int) -> float:
    """Return a factor that rises from 0 at step 0 to 1 at step `steps` and stays there; always 1 if `steps` is 0."""
    return min(1.0, step / steps) if steps else 1.0
