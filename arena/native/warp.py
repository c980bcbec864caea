"""Initialisation of NVIDIA Warp, and calls of native code on the CPU."""

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from arena.errors import InputError, MissingPackageError

try:
    import warp as wp
except (ImportError, OSError) as error:
    raise MissingPackageError(
        f"NVIDIA Warp does not load here ({error}): pip install 'echelon-league[train]'"
    ) from error

__all__ = [
    "MODULE_OPTIONS",
    "Launch",
    "device_function",
    "openmp",
    "record",
    "recorded",
    "require_memory",
    "share",
    "source",
    "wp",
]

POLICIES = Path(__file__).parents[1] / "policies" / "native"
"""Folder of the networks' native code."""

MODULE_OPTIONS = {"enable_backward": False, "fuse_fp": False, "max_unroll": 0}
"""No gradients. No fused multiply-add, so that processors agree to the last bit. Only the compiler unrolls loops."""

device_function = wp.func(inline=True)
"""Decorator of an inlined Warp function that kernels call."""

_recording = threading.Lock()


def recorded(kernel: wp.Kernel, rows: int, inputs: Sequence[Any], device: str = "cpu") -> Any:  # noqa: ANN401  Warp's
    """Record a launch with one thread per row, to be repeated.

    Loading is serialised by a lock. If two threads load the same code at once, Warp stores both modules under one name
    and unloads it with the first that is released. The next launch of the other then crashes the process.
    """
    with _recording:
        return wp.launch(kernel, dim=rows, inputs=inputs, device=device, record_cmd=True)


def share(kind: Any, tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401  Warp's types
    """Return a Warp struct that shares the memory of tensors, by the same names."""
    struct = kind()
    for name, tensor in tensors.items():
        setattr(struct, name, wp.from_torch(tensor))
    return struct


def record(kernel: Any, rows: int, device: torch.device, *inputs: Any) -> Callable[[], None]:  # noqa: ANN401  as above
    """Return a recorded launch with one thread per row; packing the arguments costs more than running a few rows."""
    launch = recorded(kernel, rows, inputs, str(device)).launch
    return launch if device.type == "cpu" else lambda: launch(wp.stream_from_torch(device))  # type: ignore[no-untyped-call]


class Launch:
    """A CPU kernel that consists of one native function; threads that share it take turns.

    Args:
        kernel: Runs in one thread and takes an array of int32 and one of uint64.
        sizes: Number of int32 parameters.
        addresses: Number of addresses.
    """

    def __init__(self, kernel: wp.Kernel, sizes: int, addresses: int) -> None:
        numbers, pointers = torch.zeros(sizes, dtype=torch.int32), torch.zeros(addresses, dtype=torch.int64)
        self._numbers, self._pointers = numbers.numpy(), pointers.numpy()
        self._launch = recorded(kernel, 1, [wp.from_torch(numbers), wp.from_torch(pointers, dtype=wp.uint64)])
        self._lock = threading.Lock()

    def __call__(self, sizes: Sequence[int], addresses: Sequence[int]) -> list[int]:
        """Run the function and return the int32 parameters afterwards.

        Memory at the addresses must stay alive meanwhile.
        """
        with self._lock:
            # The launch is recorded once with these two arrays, so a call only has to fill them.
            self._numbers[:], self._pointers[:] = sizes, addresses
            self._launch.launch()
            left: list[int] = self._numbers.tolist()
            return left


def source(*files: str, folder: Path = POLICIES) -> str:
    """Return the body of a native function: the concatenated files of a folder."""
    return "\n".join((folder / file).read_text(encoding="utf-8") for file in files)


def require_memory(tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> None:
    """Check tensors before native code accesses them by address without bounds.

    Raises:
        ArenaError: A tensor is not on the CPU, or has an unexpected shape or dtype.
    """
    for number, (tensor, shape, dtype) in enumerate(zip(tensors, shapes, dtypes, strict=True)):
        if tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_cpu:
            raise InputError(
                f"native code got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device} as its input {number}: "
                f"it takes {dtype} {shape} on the CPU"
            )


@functools.cache
def openmp() -> tuple[int, ...] | None:
    """Return the addresses of torch's OpenMP functions for teams; None without OpenMP.

    Torch's own thread team has just been used and is awake, and a second team would compete with it.
    """
    maps = Path("/proc/self/maps")
    for file in mapped_files(maps.read_bytes()) if maps.exists() else ():
        if "omp" in Path(file).name and "torch" in file and (found := _teamwork(file)):
            return found
    return None


def mapped_files(maps: bytes) -> list[str]:
    """Return the files mapped by a process, sorted, from the content of `/proc/PID/maps`."""
    rows = (line.split(maxsplit=5) for line in maps.splitlines())
    return sorted({os.fsdecode(row[5]) for row in rows if len(row) == 6 and row[5].startswith(b"/")})


def _teamwork(file: str) -> tuple[int, ...] | None:
    """Return the function addresses of an OpenMP library; None if it is another library or its file is gone."""
    try:
        library = ctypes.CDLL(file)
    except OSError:
        return None
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    # A library of Intel or LLVM may lack GNU's entry point.
    if not all(hasattr(library, name) for name in names):
        return None
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    return tuple(each for each in found if each)


def _start_warp() -> None:
    """Initialise Warp, which creates its cache folder."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        # File descriptor 2 and not `sys.stderr`, because the warnings come from native code.
        with nullcontext() if torch.cuda.is_available() else _silent_stderr():
            wp.init()  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        raise MissingPackageError(
            f"NVIDIA Warp does not start here ({error}): set WARP_CACHE_PATH to a folder that can be written to"
        ) from error


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Discard the warnings that Warp's native code writes to stderr on machines without a GPU."""
    stderr, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(null)


_start_warp()
