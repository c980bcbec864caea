"""Values that change with training progress."""

import math

from trainer.config.algorithm import Shape


def progress(step: int, horizon_steps: int) -> float:
    """Share of the schedule's horizon that has passed, in [0, 1]."""
    return min(1.0, step / horizon_steps)


def falling(shape: Shape, start: float, final: float, done: float) -> float:
    """Go from `start` at progress 0 to `final` at progress 1, by the shape that is asked for."""
    return {Shape.LINEAR: linear, Shape.COSINE: cosine}[shape](start, final, done)


def linear(start: float, final: float, done: float) -> float:
    """Go from `start` at progress 0 to `final` at progress 1."""
    return start + (final - start) * done


def cosine(start: float, final: float, done: float) -> float:
    """Go from `start` to `final` along half a cosine: slowly at both ends, half way at progress 0.5.

    Source: Loshchilov and Hutter 2017, equation 5, without restarts.
    """
    return final + (start - final) * (1.0 + math.cos(math.pi * done)) / 2.0


def warm_up(step: int, steps: int) -> float:
    """Rise from 0 at step 0 to 1 at step `steps`, and stay there; 1 throughout where `steps` is 0."""
    return min(1.0, step / steps) if steps else 1.0
