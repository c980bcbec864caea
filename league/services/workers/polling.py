"""Poll and heartbeat intervals of workers."""

from dataclasses import dataclass

import numpy as np

from league.settings import Settings

_DIGITS = 3  # milliseconds


@dataclass
class WorkerCount:
    """Number of live workers at the last count; 0 before the first."""

    present: int = 0


def next_poll_s(settings: Settings, rng: np.random.Generator) -> float:
    """Return the poll interval in seconds: `next_poll_s` with a uniform jitter of ± `poll_jitter` (a fraction).

    Without jitter, workers that start or reconnect at the same time would poll at the same time forever.
    """
    jitter = settings.poll_jitter * rng.uniform(-1.0, 1.0)
    return round(settings.next_poll_s * (1.0 + jitter), _DIGITS)


def longest_heartbeat_s(settings: Settings, workers: int) -> float:
    """Return the heartbeat interval in seconds that keeps the rate of all workers at `heartbeats_per_s`.

    min(heartbeat_s, workers / heartbeats_per_s)
    """
    return min(settings.heartbeat_s, workers / settings.heartbeats_per_s)


def next_heartbeat_s(settings: Settings, workers: int, rng: np.random.Generator) -> float:
    """Return the seconds until a worker's next heartbeat is due.

    The jitter only shortens the interval, by up to the fraction `poll_jitter`, so that workers spread and no worker
    exceeds the interval at which the league considers it alive.

    Args:
        settings: Settings of the league.
        workers: Number of live workers.
        rng: Source of the jitter.
    """
    return round(longest_heartbeat_s(settings, workers) * (1.0 - settings.poll_jitter * rng.random()), _DIGITS)
