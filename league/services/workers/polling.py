"""Poll and heartbeat intervals of workers."""

from dataclasses import dataclass

import numpy as np

from league.settings import Settings

_DIGITS = 3


@dataclass
class WorkerCount:
    """How many workers lived at the last count; 0 before the first."""

    present: int = 0


def next_poll_s(settings: Settings, rng: np.random.Generator) -> float:
    """Return seconds around `next_poll_s`, at most the share `poll_jitter` of it away.

    Workers that were started, or came back, at one moment so drift apart instead of calling all at once for ever.
    """
    jitter = settings.poll_jitter * rng.uniform(-1.0, 1.0)
    return round(settings.next_poll_s * (1.0 + jitter), _DIGITS)


def longest_heartbeat_s(settings: Settings, workers: int) -> float:
    """Return the seconds between beats at which so many workers together beat `heartbeats_per_s` times a second.

    min(heartbeat_s, workers / heartbeats_per_s)
    """
    return min(settings.heartbeat_s, workers / settings.heartbeats_per_s)


def next_heartbeat_s(settings: Settings, workers: int, rng: np.random.Generator) -> float:
    """Return the seconds for which a worker need not beat.

    They are up to the share `poll_jitter` less than `longest_heartbeat_s`, so that workers spread, and never so long
    that a lease could end meanwhile.

    Args:
        settings: Of the league.
        workers: How many live.
        rng: Chance of the jitter.
    """
    return round(longest_heartbeat_s(settings, workers) * (1.0 - settings.poll_jitter * rng.random()), _DIGITS)
