"""Torch set-up from the settings of a run: device, threads, precision, determinism and memory."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

import torch

from arena.malloc import keep_freed_memory
from trainer.config.runtime import MatmulPrecision
from trainer.config.schema import RunSettings
from trainer.errors import ConfigError

DEVICE = re.compile(r"(cpu|cuda)(:\d+)?")

CUBLAS_WORKSPACE = ":16:8"
"""Workspace setting that makes cuBLAS deterministic; it must be set before the first matrix product on a GPU.

The documentation of `nn.LSTM` asks for `:16:8` or `:4096:2`, since cuDNN's RNNs use several streams. For its own matrix
products torch accepts only `:16:8` and `:4096:8`. The first satisfies both.
"""

COMPILE_CACHE_LIMITS = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "32", "LRU_CACHE_CAPACITY": "32"}
"""Number of compiled half-precision kernels that oneDNN and torch cache, unless the user sets these variables. Nearly
every minibatch has a different size, so the default of 1,024 takes 3 GB and has hardly any hits."""


@dataclass(frozen=True)
class ProcessMemory:
    """Resident memory of a process in bytes; zeros if the process has ended or the system has no /proc.

    Attributes:
        now_bytes: Current resident set size.
        peak_bytes: Peak resident set size since the program started (exec).
    """

    now_bytes: int
    peak_bytes: int


def configure_torch(settings: RunSettings) -> None:
    """Check the device, then set threads, precision, cuDNN's benchmark mode, determinism and cache limits.

    Call it before the first matrix product: some libraries read these settings only once.

    Raises:
        ConfigError: The device cannot be used.
    """
    check_device(settings.device)
    device = torch.device(settings.device)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)  # otherwise streams and libraries without an explicit device use cuda:0
    torch.set_num_threads(settings.threads)
    keep_freed_memory()
    for name, value in COMPILE_CACHE_LIMITS.items():
        os.environ.setdefault(name, value)
    if settings.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", CUBLAS_WORKSPACE)
    if torch.are_deterministic_algorithms_enabled() != settings.deterministic:  # the call imports torch's compiler
        torch.use_deterministic_algorithms(settings.deterministic)
    set_matmul_precision(settings.matmul_precision)
    torch.backends.cudnn.deterministic = settings.deterministic
    torch.backends.cudnn.benchmark = settings.cudnn_benchmark and not settings.deterministic


def set_matmul_precision(precision: MatmulPrecision) -> None:
    """Allow TF32 in float32 matrix products for both cuBLAS and cuDNN, or for neither.

    By default torch allows it for cuDNN only. Acting uses cuBLAS, while the update runs the LSTM in cuDNN: probability
    ratios before the first optimiser step were then off by about 1e-3. `torch.set_float32_matmul_precision` would
    change cuBLAS alone, and CPUs too.
    """
    tf32 = precision is MatmulPrecision.HIGH
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32


def process_memory(pid: int) -> ProcessMemory:
    """Read the resident memory of a process from `/proc/PID/status`."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return ProcessMemory(0, 0)
    rows = (line.split() for line in status.splitlines() if line.endswith(" kB"))
    counted = {row[0]: 1024 * int(row[1]) for row in rows}
    return ProcessMemory(*(counted.get(name, 0) for name in ("VmRSS:", "VmHWM:")))


def check_device(device: str) -> None:
    """Check that torch can use the device.

    Raises:
        ConfigError: The device cannot be used.
    """
    if not DEVICE.fullmatch(device):
        raise ConfigError(f"run.device is {device!r}: give cpu, cuda or cuda:INDEX")
    try:
        # `is_available` is true for a GPU that a driver or another process makes unusable.
        torch.zeros((), device=device).item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"run.device is {device!r}: it cannot be used here ({reason}); choose cpu") from error


def physical_bytes() -> int | None:
    """Physical memory of this machine in bytes; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def device_bytes(device: torch.device) -> int | None:
    """Memory of a GPU that this process has reserved or can still allocate; None for a CPU."""
    if device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device)  # reserved memory is not free, but this process reuses it


def peak_device_bytes(device: torch.device) -> int | None:
    """Peak memory of this process's tensors on a GPU; None for a CPU."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
