"""Memory that glibc's malloc caches after it is freed; no effect with other allocators."""

import ctypes
import sys
from collections.abc import Callable

MALLOC_OPTIONS = {-1: 2**30, -2: 2**26, -3: 2**25}
"""Options of glibc's malloc in bytes.

M_TRIM_THRESHOLD (freed memory that stays allocated), M_TOP_PAD (extra memory per system request) and M_MMAP_THRESHOLD
(size from which memory is mapped, at its maximum).

Updates of a network and rating periods need the same large arrays again and again. Requesting them from the system each
time took a sixth of an update, and a third of a period of 100,000 games (5,000 page faults).
"""


def keep_freed_memory() -> None:
    """Let malloc cache freed memory."""
    if mallopt := _of_glibc("mallopt"):
        for parameter, size in MALLOC_OPTIONS.items():
            mallopt(parameter, size)


def give_back_freed_memory() -> None:
    """Return freed memory to the system (malloc_trim)."""
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    """A glibc function; None on systems without glibc."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
