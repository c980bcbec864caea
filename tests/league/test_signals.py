"""Signals that ask to end are counted where they are awaited, and nowhere else."""

import signal
from contextlib import suppress

import pytest

from league.signals import ENDING, EndSignals


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


def test_afterwards_signals_do_what_they_did_before() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with suppress(ZeroDivisionError), EndSignals():
        assert all(signal.getsignal(number) not in before for number in ENDING)
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in ENDING] == before
