"""Where NVIDIA Warp is started, and what native code on the CPU is called through."""

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
"""Where native code of networks lies."""

MODULE_OPTIONS = {"enable_backward": False, "fuse_fp": False, "max_unroll": 0}
"""No gradients; no fused multiply-add, so that processors agree on the last bit; only the compiler unrolls loops."""

device_function = wp.func(inline=True)
"""Decorator of a Warp function that kernels call: always inlined."""

_recording = threading.Lock()


def recorded(kernel: wp.Kernel, rows: int, inputs: Sequence[Any], device: str = "cpu") -> Any:  # noqa: ANN401  Warp's
    """A launch that can be repeated, with a thread for every row.

    Threads take turns: where two load the same code at once, Warp keeps both under one name, and takes it from memory
    with the first that is forgotten. The next launch of the other ends the process.
    """
    with _recording:
        return wp.launch(kernel, dim=rows, inputs=inputs, device=device, record_cmd=True)


def share(kind: Any, tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401  Warp's types
    """A Warp struct that shares the memory of tensors, by the same names."""
    struct = kind()
    for name, tensor in tensors.items():
        setattr(struct, name, wp.from_torch(tensor))
    return struct


def record(kernel: Any, rows: int, device: torch.device, *inputs: Any) -> Callable[[], None]:  # noqa: ANN401  as above
    """A launch with a thread for every row: packing a kernel's arguments costs more than running it on a few."""
    launch = recorded(kernel, rows, inputs, str(device)).launch
    return launch if device.type == "cpu" else lambda: launch(wp.stream_from_torch(device))  # type: ignore[no-untyped-call]


class Launch:
    """A kernel on the CPU that is one native function; threads that share it take turns.

    Args:
        kernel: One thread of it does all; it takes an array of int32 and one of uint64.
        sizes: How many numbers it takes.
        addresses: How many addresses it takes.
    """

    def __init__(self, kernel: wp.Kernel, sizes: int, addresses: int) -> None:
        numbers, places = torch.zeros(sizes, dtype=torch.int32), torch.zeros(addresses, dtype=torch.int64)
        self._numbers, self._places = numbers.numpy(), places.numpy()
        self._launch = recorded(kernel, 1, [wp.from_torch(numbers), wp.from_torch(places, dtype=wp.uint64)])
        self._lock = threading.Lock()

    def __call__(self, sizes: Sequence[int], addresses: Sequence[int]) -> list[int]:
        """Run it; the numbers as it leaves them. Whatever is at the addresses must stay alive meanwhile."""
        with self._lock:
            self._numbers[:], self._places[:] = sizes, addresses
            self._launch.launch()
            left: list[int] = self._numbers.tolist()
            return left


def source(*files: str, folder: Path = POLICIES) -> str:
    """The body of a native function: what stands in some files of a folder, one behind the other."""
    return "\n".join((folder / file).read_text(encoding="utf-8") for file in files)


def require_memory(tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype]) -> None:
    """Refuse tensors that native code would read or write beyond: it is told addresses alone.

    Raises:
        ArenaError: One is not in the host's memory, or has another shape or type than it must have.
    """
    for number, (tensor, shape, dtype) in enumerate(zip(tensors, shapes, dtypes, strict=True)):
        if tensor.shape != shape or tensor.dtype is not dtype or not tensor.is_cpu:
            raise InputError(
                f"native code got {tensor.dtype} {tuple(tensor.shape)} on {tensor.device} as its input {number}: "
                f"it takes {dtype} {shape} on the CPU"
            )


@functools.cache
def openmp() -> tuple[int, ...] | None:
    """Where the OpenMP that torch has loaded begins a team and numbers its members; None where there is none.

    Its threads are those that torch's own products have just used: they are awake, and no others are in their way.
    """
    maps = Path("/proc/self/maps")
    for file in mapped_files(maps.read_bytes()) if maps.exists() else ():
        if "omp" in Path(file).name and "torch" in file and (found := _teamwork(file)):
            return found
    return None


def mapped_files(maps: bytes) -> list[str]:
    """Files that a process has in memory, sorted, by Linux' account of them (`/proc/PID/maps`)."""
    rows = (line.split(maxsplit=5) for line in maps.splitlines())
    return sorted({os.fsdecode(row[5]) for row in rows if len(row) == 6 and row[5].startswith(b"/")})


def _teamwork(file: str) -> tuple[int, ...] | None:
    """Addresses in a library of OpenMP; None where it is another or its file is no longer there."""
    try:
        library = ctypes.CDLL(file)
    except OSError:
        return None
    names = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
    if not all(hasattr(library, name) for name in names):
        return None
    found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names]
    return tuple(each for each in found if each)


def _start_warp() -> None:
    """Initialise Warp; it makes its cache folder."""
    wp.config.log_level = wp.LOG_ERROR
    try:
        with nullcontext() if torch.cuda.is_available() else _silent_stderr():
            wp.init()  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        raise MissingPackageError(
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
