"""CPU seconds of every test, of this process and of its children, summed by lane at the end of a run."""

import os
import resource
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import lanes
import pytest

SLOWEST = 25
ATTRIBUTE = "cpu_seconds"
"""Of a report: the lane, the seconds of the process and those of children that have ended."""


class CpuSeconds:
    """A plugin for one process of a run; with pytest-xdist the controller sums what its workers report."""

    def __init__(self) -> None:
        self._before = _used()
        self._by_test: dict[str, tuple[str, float, float]] = {}
        self._by_worker: list[tuple[float, float]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._before = _used()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report: Any = yield
        now = _used()
        own, children = (after - before for after, before in zip(now, self._before, strict=True))
        self._before = now
        setattr(report, ATTRIBUTE, (lanes.lane_of(item), own, children))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        lane, own, children = getattr(report, ATTRIBUTE, ("unit", 0.0, 0.0))
        _, own_before, children_before = self._by_test.get(report.nodeid, (lane, 0.0, 0.0))
        self._by_test[report.nodeid] = (lane, own_before + own, children_before + children)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[ATTRIBUTE] = _used()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", None) or {}
        if ATTRIBUTE in output:
            self._by_worker.append(tuple(output[ATTRIBUTE]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._by_test or "PYTEST_XDIST_WORKER" in os.environ:
            return
        terminalreporter.section("CPU seconds")
        for line in self._lines():
            terminalreporter.write_line(line)

    def _lines(self) -> Iterator[str]:
        by_lane: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for lane, *seconds in self._by_test.values():
            by_lane[lane].append((seconds[0], seconds[1]))
        yield f"{'':16}{'tests':>8}{'own':>10}{'children':>10}"
        for lane, tests in sorted(by_lane.items()):
            yield f"{lane:16}{len(tests):8}{sum(own for own, _ in tests):10.1f}{sum(rest for _, rest in tests):10.1f}"
        own, children = _used()  # with pytest-xdist, the children are the workers, which report for themselves
        processes = [(own, 0.0 if self._by_worker else children), *self._by_worker]
        total = sum(map(sum, processes))
        outside = total - sum(own + children for _, own, children in self._by_test.values())
        yield f"{'start, imports':16}{'':8}{outside:10.1f}{'':10} of {len(processes)} processes"
        yield f"{'all':16}{len(self._by_test):8}{total:10.1f}"
        yield ""
        slowest = sorted(self._by_test.items(), key=lambda test: -sum(test[1][1:]))[:SLOWEST]
        yield from (f"{own:8.2f}{children:8.2f}  {name}" for name, (_, own, children) in slowest)


def _used() -> tuple[float, float]:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime
