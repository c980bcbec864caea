"""The rules as NVIDIA Warp kernels, one thread for every mech of every match.

A decision is `admit`, then five ticks of integrate, collide, sense, fire, resolve, then score, reward and observe.
Within a tick everybody acts on what the tick began with: no result depends on the order of threads, each of which
writes its own mech's entries only (`resolve`: the column of its own wounds).

Kernels are Warp's language, not Python's: Warp checks their types, so they are marked `no_type_check`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from arena.errors import ArenaError

try:
    import warp as wp
except (ImportError, OSError) as error:
    raise ArenaError(
        f"the mech arena needs NVIDIA Warp, which does not load here ({error}): pip install warp-lang"
    ) from error

__all__ = ["MODULE_OPTIONS", "wp"]

MODULE_OPTIONS = {"enable_backward": False, "fuse_fp": False, "max_unroll": 0}
"""No gradients; no fused multiply-add, so that processors agree on the last bit; only the compiler unrolls loops."""


def _start_warp() -> None:
    """Initialise Warp; it makes its cache folder."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        with nullcontext() if torch.cuda.is_available() else _silent_stderr():
            wp.init()  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        raise ArenaError(
            f"NVIDIA Warp does not start here ({error}): set WARP_CACHE_PATH to a folder that can be written to"
        ) from error


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Drop what native code writes to stderr: where there is no GPU, Warp complains."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


_start_warp()
