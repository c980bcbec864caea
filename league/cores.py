"""The core of the machine that a server's interpreter keeps to.

Python's threads hand its lock to one another. From core to core that means to wake another one and to load into its
cache what the thread works with, for every call several times.
"""

import os
import sys

from league.errors import ConfigurationError


def require_usable(core: int | None) -> None:
    """Refuse a core that this process may not run on; None is any.

    Raises:
        ConfigurationError: It may not, or the system does not know.
    """
    cores = _usable()
    if core is not None and core not in cores:
        here = f"this process may run on {', '.join(map(str, sorted(cores)))}" if cores else "only Linux knows of these"
        raise ConfigurationError(f"LEAGUE_CORE={core}", here, "name a core that it may run on, or unset it")


def keep_to(core: int | None) -> None:
    """Run this thread, and those that it starts from now on, on a core; None leaves them alone."""
    if core is not None and sys.platform == "linux":
        os.sched_setaffinity(0, {core})


def _usable() -> set[int]:
    return os.sched_getaffinity(0) if sys.platform == "linux" else set()
