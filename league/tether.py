"""Become a command that ends when the process that started it does.

    python -m league.tether PARENT_PID COMMAND [ARGUMENT ...]

On Linux the kernel then sends SIGTERM to the command once its parent has died, however it died, so that a supervisor
killed with -9 leaves nothing running. Elsewhere the command runs untethered.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2); survives execve


def tether(parent: int) -> None:
    """Ask the kernel for SIGTERM at the parent's death; end at once where that has already happened."""
    _signal_at_death(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(f"league.tether: parent {parent} is gone; {os.getppid()} took over")


def untie() -> None:
    """Ask for no more of them: they come for threads of the parent one by one, and a second may mean more than one."""
    _signal_at_death(0)


def _signal_at_death(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


if __name__ == "__main__":
    tether(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command is the caller's own
