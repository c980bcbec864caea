"""CPU seconds at the end of a run."""

import cpu_seconds
import pytest
from cpu_seconds import CpuSeconds


@pytest.mark.parametrize(("by_worker", "total"), [([(100.0, 5.0), (90.0, 0.0)], "196.0"), ([], "196.0")])
def test_workers_are_counted_once(
    by_worker: list[tuple[float, float]], total: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ended workers are children of the controller; without workers, its children are those of its tests."""
    monkeypatch.setattr(cpu_seconds, "_used", lambda: (1.0, 195.0))
    counted = CpuSeconds()
    counted._by_worker = by_worker
    (line,) = (line for line in counted._lines() if line.startswith("all"))
    assert line.split() == ["all", "0", total]
