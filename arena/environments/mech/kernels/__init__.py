"""The rules as NVIDIA Warp kernels, one thread for every mech of every match.

A decision is `admit`, then five ticks of integrate, collide, sense, fire, resolve, then score, reward and observe.
Within a tick everybody acts on what the tick began with: no result depends on the order of threads, each of which
writes its own mech's entries only (`resolve`: the column of its own wounds).

Kernels are Warp's language, not Python's: Warp checks their types, so they are marked `no_type_check`.
"""

from arena.native import wp

__all__ = ["MODULE_OPTIONS", "wp"]

MODULE_OPTIONS = {"enable_backward": False, "fuse_fp": False, "max_unroll": 0}
"""No gradients; no fused multiply-add, so that processors agree on the last bit; only the compiler unrolls loops."""
