"""When a worker is to call again."""

import numpy as np

from league.config import Settings

_DIGITS = 3


def next_poll_s(settings: Settings, rng: np.random.Generator) -> float:
    """Return seconds around `next_poll_s`, at most the share `poll_jitter` of it away.

    Workers that were started, or came back, at one moment so drift apart instead of calling all at once for ever.
    """
    jitter = settings.poll_jitter * rng.uniform(-1.0, 1.0)
    return round(settings.next_poll_s * (1.0 + jitter), _DIGITS)
