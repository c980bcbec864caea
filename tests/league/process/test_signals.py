"""Signals that ask to end are counted where they are awaited, and nowhere else."""

import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from league.process.signals import ENDING, EndSignals, SignalFlag

SIGNALLED_AT_EVERY_LINE = """
import signal, sys
from league.process.signals import EndSignals

def interrupt_at(line):
    def look(frame, event, argument):
        nonlocal line
        if event == "line":
            line -= 1
            if line == 0:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return look
    return look

line = 0
while True:
    line += 1
    with EndSignals() as signals:
        sys.settrace(interrupt_at(line))
        signals.wait(0.0)
        sys.settrace(None)
        if not signals.count:
            break
        assert signals.wait(0.0)
print(line - 1)
"""
"""Sends the signal before each line of Python that a wait runs through, its library's included, in turn."""


@pytest.mark.parametrize("number", ENDING)
def test_the_first_asks_and_every_other_insists(number: signal.Signals) -> None:
    insisted: list[int] = []
    signals = EndSignals(again=lambda: insisted.append(signals.count))
    with signals:
        assert not signals.wait(0.0)
        signal.raise_signal(number)
        assert signals.wait(0.0)
        assert (signals.count, insisted) == (1, [])
        signal.raise_signal(number)
        signal.raise_signal(number)
        assert (signals.count, insisted) == (3, [2, 3])


def test_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with suppress(ZeroDivisionError), EndSignals():
        assert all(signal.getsignal(number) not in before for number in ENDING)
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in ENDING] == before


@pytest.mark.integration
def test_a_signal_may_come_at_any_moment_of_a_wait() -> None:
    command = [sys.executable, "-c", SIGNALLED_AT_EVERY_LINE]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120.0)
    assert ended.stderr == ""
    assert int(ended.stdout) > 2


def test_a_flag_wakes_every_thread_that_waits_for_it() -> None:
    flag, woken = SignalFlag(), []
    threads = [threading.Thread(target=lambda: woken.append(flag.wait(120.0))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert not flag.wait(0.0)
    flag.set()
    for thread in threads:
        thread.join()
    assert woken == [True, True, True]
    assert flag.is_set()
