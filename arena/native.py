"""Where NVIDIA Warp is started, for whoever runs its kernels."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch

from arena.errors import ArenaError

try:
    import warp as wp
except (ImportError, OSError) as error:
    raise ArenaError(f"NVIDIA Warp does not load here ({error}): pip install warp-lang") from error

__all__ = ["wp"]


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
