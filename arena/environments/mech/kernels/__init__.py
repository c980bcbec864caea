"""The rules as NVIDIA Warp kernels: a thread for every match on a CPU, for every mech of every match on a GPU.

A decision is admit and smoke, then five ticks of integrate, collide, sense, fire, resolve, then score, earn, share,
look and observe. Within a stage everybody acts on what it began with: no result depends on the order of threads. A
stage writes its own mech's entries only (resolve: the column of its own wounds), but for flags that many may set to
true and counts that many may add to.

Kernels are Warp's language, not Python's: Warp checks their types, so they are marked `no_type_check`.
"""

from arena.native import wp

__all__ = ["MODULE_OPTIONS", "wp"]

MODULE_OPTIONS = {"enable_backward": False, "fuse_fp": False, "max_unroll": 0}
"""No gradients; no fused multiply-add, so that processors agree on the last bit; only the compiler unrolls loops."""
