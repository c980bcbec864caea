"""Signals of a real process: when it leaves, and that it is ended in time whatever it does."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from trainer.shutdown import ENDED_BY_SIGTERM, GRACE_S, LEAVE_WITHIN_S, SIGNALS, ShutdownSignals

HEAD = """
import hashlib, os, sys, time
from trainer.errors import CallCutShortError
from trainer.shutdown import ShutdownSignals
say = lambda line: os.write(1, f"{line}\\n".encode())  # print() refuses a signal's handler while it prints itself
signals = ShutdownSignals(say)
with signals.entered() as run_context:
    say("ready")
"""

WATCHFUL = """
    while not run_context.stopping():
        time.sleep(0.05)
say("saved")
"""

STILL_SAVING = """
    while not run_context.stopping():
        time.sleep(0.05)
    sys.stdin.read()
    say("saved")
"""

TETHERED = """
    import ctypes
    from league.process.die_with_parent import die_with_parent
    die_with_parent(os.getppid())
    def asked_for():
        number = ctypes.c_int(-1)
        ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
        return number.value
    say(asked_for())
    while not run_context.stopping():
        time.sleep(0.05)
say(asked_for())
"""

IN_A_CALL = """
    try:
        with signals.calling():
            say("calling")
            time.sleep(600)
    except CallCutShortError:
        say("cut short")
say("saved")
"""

IN_NATIVE_CODE = """
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**30)
"""


def start(body, hanging_up="SIG_DFL", within_s=300.0):
    """A process that is ended so long after a SIGTERM, by default when the test would have failed anyhow."""
    script = (
        f"import signal\nfrom trainer import shutdown\nshutdown.LEAVE_WITHIN_S = {within_s}\n"
        f"signal.signal(signal.SIGHUP, signal.{hanging_up})\n{HEAD}{body}"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def leave(process, number):
    """End its input after a signal. Exit status, what was said and what went wrong."""
    process.send_signal(number)
    said, wrong = process.communicate()
    return process.returncode, said.decode().splitlines(), wrong.decode()


@pytest.mark.integration
@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells of a parent's death")
def test_a_parents_death_is_signalled_once():
    """The kernel signals it for each of its threads; a second one would be taken for the wish to leave at once."""
    process = start(TETHERED)
    assert process.stdout.readline() == f"{int(signal.SIGTERM)}\n".encode()
    status, said, wrong = leave(process, signal.SIGTERM)
    assert (status, wrong) == (0, "")
    assert said[-1] == "0"


@pytest.mark.integration
@pytest.mark.parametrize("number", SIGNALS)
def test_first_signal_requests_a_graceful_stop(number):
    status, said, _ = leave(start(WATCHFUL), number)
    assert (status, said[0].partition(":")[0], said[1:]) == (0, number.name, ["saved"])


@pytest.mark.integration
def test_a_call_to_the_league_is_cut_short():
    process = start(IN_A_CALL)
    assert process.stdout.readline() == b"calling\n"
    status, said, _ = leave(process, signal.SIGTERM)
    assert (status, said[-2:]) == (0, ["cut short", "saved"])


@pytest.mark.integration
def test_native_code_that_ignores_signals_is_ended_in_time():
    """As while a kernel is compiled: the main thread is not there to heed anything."""
    process, began = start(IN_NATIVE_CODE, within_s=0.5), time.monotonic()
    status, _, wrong = leave(process, signal.SIGTERM)
    assert status == ENDED_BY_SIGTERM
    assert "still busy" in wrong
    assert time.monotonic() - began >= 0.5


def test_shutdown_deadline_precedes_the_kill_of_supervisors():
    assert GRACE_S < LEAVE_WITHIN_S < 10.0


@pytest.mark.integration
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_the_process_at_once(number):
    process = start("    time.sleep(600)\n")
    process.send_signal(number)
    process.stdout.readline()
    assert leave(process, number)[0] == -number


@pytest.mark.integration
def test_a_terminal_that_hangs_up_twice_lets_the_process_save():
    """A shell passes its SIGHUP on, and when it has left the system sends another."""
    process = start(STILL_SAVING)
    process.send_signal(signal.SIGHUP)
    assert process.stdout.readline().startswith(b"SIGHUP: ")
    status, said, _ = leave(process, signal.SIGHUP)
    assert (status, said) == (0, ["saved"])


@pytest.mark.integration
def test_an_ignored_hangup_stays_ignored():
    """As under `nohup`: what is ignored from the start stays so, also after another signal."""
    process = start(WATCHFUL, hanging_up="SIG_IGN")
    process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert process.poll() is None
    status, said, _ = leave(process, signal.SIGTERM)
    assert (status, said[0].partition(":")[0], said[1:]) == (0, "SIGTERM", ["saved"])


def test_previous_signal_handlers_are_restored():
    before = [signal.getsignal(number) for number in SIGNALS]
    threads = threading.active_count()
    with ShutdownSignals(lambda _: None).entered() as run_context:
        assert [signal.getsignal(number) for number in SIGNALS] != before
        assert not run_context.stopping()
        assert not run_context.past_grace()
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert signal.set_wakeup_fd(-1) == -1
    while threading.active_count() > threads:  # the test's own time limit is the limit
        time.sleep(0.01)


def test_the_grace_period_ends_some_time_after_the_signal(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("trainer.shutdown.time.monotonic", lambda: now[0])
    with ShutdownSignals(lambda _: None).entered() as run_context:
        os.kill(os.getpid(), signal.SIGINT)
        assert run_context.stopping()
        assert not run_context.past_grace()
        now[0] += GRACE_S + 0.5
        assert run_context.past_grace()


def test_in_another_thread_no_call_is_cut_short():
    signals, reached = ShutdownSignals(lambda _: None), threading.Event()
    over = threading.Event()

    def call():
        with signals.calling():
            reached.set()
            over.wait()

    with signals.entered() as run_context:
        thread = threading.Thread(target=call)
        thread.start()
        reached.wait()
        os.kill(os.getpid(), signal.SIGINT)
        assert run_context.stopping()
        over.set()
        thread.join()
