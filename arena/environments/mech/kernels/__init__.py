"""The rules as NVIDIA Warp kernels: a thread for every match on a CPU, for every mech of every match on a GPU.

A decision is admit and smoke, then five ticks of integrate, collide, sense, fire, resolve, then score, earn, share,
look and observe. Within a stage everybody acts on what it began with: no result depends on the order of threads. A
stage writes its own mech's entries only (resolve: the column of its own wounds), but for flags that many may set to
true and counts that many may add to.

Kernels are written in Warp's language, so Warp checks their types, and mypy does not (see pyproject.toml).
"""

from arena.native.warp import MODULE_OPTIONS, device_function, wp

__all__ = ["MODULE_OPTIONS", "device_function", "wp"]
