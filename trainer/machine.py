"""What this process asks of torch, from the settings of a run."""

import ctypes
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from trainer.errors import ConfigError
from trainer.settings import RunSettings

DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")

CUBLAS_WORKSPACE = ":4096:8"
"""What cuBLAS needs to repeat itself; it must be said before the first product on a GPU."""

FEW_COMPILED = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32", "LRU_CACHE_CAPACITY": "32"}
"""Products in half precision that oneDNN and torch keep compiled, unless the user says otherwise. Nearly every
minibatch has a size of its own: the usual 1,024 take 3 GB and are hardly ever met again."""

KEPT_BY_THE_ALLOCATOR = {-1: 2**30, -2: 2**26, -3: 2**25}
"""Of glibc's malloc, in bytes: freed memory that it keeps (M_TRIM_THRESHOLD), how much more it takes than it needs
(M_TOP_PAD), and from which size on it maps memory anew (M_MMAP_THRESHOLD, at its most). Every part of an update wants
the same memory again; fetching it from the system each time took a sixth of an update's time."""


@dataclass(frozen=True)
class Residence:
    """Memory of a process that is in the machine's, in bytes; zeros where it has ended or the system does not say.

    Attributes:
        now_bytes: At present.
        peak_bytes: The most that it was, of this program: what its process held before it was started is not in it.
        shared_bytes: What it shares with other processes.
    """

    now_bytes: int
    peak_bytes: int
    shared_bytes: int


def prepare(settings: RunSettings) -> None:
    """Set threads, cuDNN's tuner, determinism and how much stays compiled, after a look at the device.

    Call it before the first product: what was said later is not heard.

    Raises:
        ConfigError: The device cannot be used.
    """
    check_device(settings.device)
    torch.set_num_threads(settings.threads)
    keep_freed_memory()
    for name, value in FEW_COMPILED.items():
        os.environ.setdefault(name, value)
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACE)
    if torch.are_deterministic_algorithms_enabled() != settings.deterministic:  # the call loads torch's compiler
        torch.use_deterministic_algorithms(settings.deterministic)
    torch.backends.cudnn.deterministic = settings.deterministic
    torch.backends.cudnn.benchmark = settings.cudnn_tuner and not settings.deterministic


def keep_freed_memory() -> None:
    """Let the allocator keep what is freed for the next who asks, where it is glibc's."""
    if mallopt := _of_glibc("mallopt"):
        for parameter, size in KEPT_BY_THE_ALLOCATOR.items():
            mallopt(parameter, size)


def give_back_freed_memory() -> None:
    """Have the allocator give back what is freed, where it is glibc's."""
    if trim := _of_glibc("malloc_trim"):
        trim(0)


def residence(pid: int) -> Residence:
    """Memory of a process, by Linux' account of it (`/proc/PID/status`)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return Residence(0, 0, 0)
    rows = (line.split() for line in status.splitlines() if line.endswith(" kB"))
    counted = {row[0]: 1024 * int(row[1]) for row in rows}
    return Residence(*(counted.get(name, 0) for name in ("VmRSS:", "VmHWM:", "RssShmem:")))


def check_device(device: str) -> None:
    """Refuse a device that is not there.

    Raises:
        ConfigError: It cannot be used.
    """
    if not DEVICE.fullmatch(device):
        raise ConfigError(f"run.device is {device!r}: give cpu, cuda or cuda:INDEX")
    try:
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"run.device is {device!r}: it cannot be used here ({reason}); choose cpu") from error


def physical_bytes() -> int | None:
    """Memory of this machine; None where its system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def _of_glibc(name: str) -> Callable[..., int] | None:
    """A function of glibc; None where the C library is another."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
