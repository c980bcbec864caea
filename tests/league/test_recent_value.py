"""A cached value is computed again when it is old or belongs to another key."""

from datetime import UTC, datetime, timedelta
from itertools import count

from league.recent_value import RecentValue

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LIFETIME = timedelta(seconds=5)


def test_value_is_recomputed_when_it_is_old_or_the_key_changes() -> None:
    numbers, cache = count(), RecentValue[int]()

    def get(key: str, seconds: float) -> int:
        return cache.get(key, NOON + timedelta(seconds=seconds), LIFETIME, numbers.__next__)

    assert [get("a", 0), get("a", 4.9), get("a", 5), get("b", 5), get("a", 5)] == [0, 0, 1, 2, 3]


def test_value_is_recomputed_after_the_clock_was_set_back() -> None:
    numbers, cache = count(), RecentValue[int]()
    assert [cache.get(None, NOON - timedelta(hours=hours), LIFETIME, numbers.__next__) for hours in (0, 1)] == [0, 1]


def test_failed_computation_is_not_cached() -> None:
    cache = RecentValue[float]()
    for divisor in (0, 2):
        try:
            assert cache.get(None, NOON, LIFETIME, lambda divisor=divisor: 1 / divisor) == 0.5  # type: ignore[misc]
        except ZeroDivisionError:
            assert divisor == 0
