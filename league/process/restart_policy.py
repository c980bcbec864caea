"""When a process that died is started again, and when that has failed often enough."""

from dataclasses import dataclass

_DOUBLINGS_MOST = 64  # so that no number of them is too large to compute with


@dataclass(frozen=True)
class RestartPolicy:
    """Restart with doubling delays; give up when too many lives in a row were short.

    Attributes:
        short_life_s: A life under this counts as short; a longer one clears the count.
        most_short_lives: So many short lives in a row end the attempts.
        first_delay_s: Wait before the first restart.
        longest_delay_s: Longest wait.
    """

    short_life_s: float
    most_short_lives: int
    first_delay_s: float
    longest_delay_s: float


def count_short_lives(before: int, lived_s: float, rule: RestartPolicy) -> int:
    """Return the short lives in a row, this one included."""
    return before + 1 if lived_s < rule.short_life_s else 0


def restart_delay_s(short_lives: int, rule: RestartPolicy) -> float | None:
    """Return how long to wait before the next start, or none when it is time to give up.

    delay = first * 2^(short_lives - 1), at most `longest_delay_s`
    """
    return None if short_lives >= rule.most_short_lives else backoff_delay_s(short_lives, rule)


def backoff_delay_s(times: int, rule: RestartPolicy) -> float:
    """Return how long to wait before the next start, as `restart_delay_s` does, but without giving up."""
    doublings = min(max(times - 1, 0), _DOUBLINGS_MOST)
    return float(min(rule.first_delay_s * 2**doublings, rule.longest_delay_s))
