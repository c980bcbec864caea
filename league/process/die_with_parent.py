"""Run a command that ends with its parent process.

    python -m league.process.die_with_parent PARENT_PID COMMAND [ARGUMENT ...]

On Linux the kernel sends SIGTERM to the command when its parent dies, even by SIGKILL, so that a killed supervisor
leaves no processes behind. On other systems the command continues to run.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2); survives execve


def die_with_parent(parent: int) -> None:
    """Request SIGTERM at the parent's death, and exit at once if the parent is already dead."""
    _signal_at_death(signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(f"league.process.die_with_parent: parent {parent} has died; the new parent is {os.getppid()}")


def outlive_parent() -> None:
    """Cancel the request, because every exiting thread of the parent sends a SIGTERM and a second one may kill."""
    _signal_at_death(0)


def _signal_at_death(number: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - the command is the caller's own
