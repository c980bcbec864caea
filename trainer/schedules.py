"""Values that change with training progress."""


def progress(step: int, horizon_steps: int) -> float:
    """Share of the schedule's horizon that has passed, in [0, 1]."""
    return min(1.0, step / horizon_steps)


def linear(start: float, final: float, done: float) -> float:
    """Go from `start` at progress 0 to `final` at progress 1."""
    return start + (final - start) * done


def warm_up(step: int, steps: int) -> float:
    """Rise from 0 at step 0 to 1 at step `steps`, and stay there; 1 throughout where `steps` is 0."""
    return min(1.0, step / steps) if steps else 1.0
