"""The rules as NVIDIA Warp kernels: one thread per match on a CPU, one per mech of every match on a GPU.

A decision is admit and smoke, then five ticks of integrate, collide, sense, fire, resolve, then score, earn, share,
look and observe. Within a stage all mechs act on the state at its beginning, so no result depends on the order of
threads. A stage writes only the entries of its own mech (resolve: the column of its own damage). Exceptions are flags
that several threads may set to true, and counters that several threads may increment.

Kernels are written in Warp's language, so Warp checks their types, and mypy does not (see pyproject.toml).
"""

from arena.native.warp import MODULE_OPTIONS, device_function, wp

__all__ = ["MODULE_OPTIONS", "device_function", "wp"]
