"""Attempts of one task, apart for each environment."""

import logging

import pytest

from league.background.isolation import PAUSE_MAX_S, Isolation


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def fail() -> None:
    raise RuntimeError("first line\nsecond line")


def test_pauses_double_up_to_a_minute_and_end_with_a_success() -> None:
    time, pauses = Time(), list[float]()
    isolation = Isolation("the task", 2.0, time)
    for _ in range(8):
        assert not isolation.attempt("rps", fail)
        left = time.now
        while isolation.attempt("rps", fail):
            time.now += 0.5
        pauses.append(time.now - left)
        time.now += PAUSE_MAX_S
    assert pauses[:3] == [2.0, 8.0, 32.0]  # every second attempt begins a measured pause
    assert max(pauses) == PAUSE_MAX_S
    done = list[str]()
    time.now += PAUSE_MAX_S
    assert isolation.attempt("rps", lambda: done.append("again"))
    assert isolation.attempt("rps", lambda: done.append("at once"))
    assert done == ["again", "at once"]


def test_task_failure_does_not_affect_other_environments() -> None:
    isolation, done = Isolation("the task", 2.0, Time()), list[str]()
    assert not isolation.attempt("rps", fail)
    assert isolation.attempt("recall", lambda: done.append("recall"))
    assert done == ["recall"]


def test_task_failure_is_one_log_line_with_traceback_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    Isolation("the task", 2.0, Time()).attempt("rps", fail)
    line, details = caplog.records
    assert (line.levelname, line.getMessage(), line.exc_info) == (
        "ERROR",
        "the task of rps failed (RuntimeError: first line); retrying in 2 s",
        None,
    )
    assert (details.levelname, details.exc_info is not None) == ("DEBUG", True)
