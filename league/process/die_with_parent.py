"""Start a command that ends when its parent process does.

    python -m league.process.die_with_parent PARENT_PID COMMAND [ARGUMENT ...]

On Linux the kernel then sends SIGTERM to the command once its parent has died, however it died, so that a supervisor
killed with -9 leaves nothing running. Elsewhere the command runs on.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2); survives execve


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGTERM when the parent dies, and exit at once if it is already dead."""
    _signal_at_death(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(f"league.process.die_with_parent: parent {parent} is gone; {os.getppid()} took over")


def outlive_parent() -> None:
    """Ask for no further SIGTERM: every thread of the parent that ends sends one, and a second may kill at once."""
    _signal_at_death(0)


def _signal_at_death(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command is the caller's own
