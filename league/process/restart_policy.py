"""Restart policy of a supervised process."""

from dataclasses import dataclass

_DOUBLINGS_MAX = 64  # avoids overflow


@dataclass(frozen=True)
class RestartPolicy:
    """Restart with exponential back-off; give up after too many short lives in a row.

    Attributes:
        short_life_s: A shorter life counts as short; a longer one resets the count.
        most_short_lives: Number of short lives in a row after which to give up.
        first_delay_s: Delay of the first restart.
        longest_delay_s: Maximum delay.
    """

    short_life_s: float
    most_short_lives: int
    first_delay_s: float
    longest_delay_s: float


def count_short_lives(before: int, lived_s: float, rule: RestartPolicy) -> int:
    """Return the number of short lives in a row, including the last one."""
    return before + 1 if lived_s < rule.short_life_s else 0


def restart_delay_s(short_lives: int, rule: RestartPolicy) -> float | None:
    """Return the delay before the next start, or None to give up.

    delay = first * 2^(short_lives - 1), at most `longest_delay_s`
    """
    return None if short_lives >= rule.most_short_lives else backoff_delay_s(short_lives, rule)


def backoff_delay_s(times: int, rule: RestartPolicy) -> float:
    """Return the delay before the next start without ever giving up."""
    doublings = min(max(times - 1, 0), _DOUBLINGS_MAX)
    return float(min(rule.first_delay_s * 2**doublings, rule.longest_delay_s))
