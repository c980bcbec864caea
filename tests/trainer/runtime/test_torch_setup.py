import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refused import refused

from arena.malloc import give_back_freed_memory
from trainer.config.loading import resolve
from trainer.config.schema import RunSettings
from trainer.runtime import torch_setup as machine
from trainer.runtime.torch_setup import (
    COMPILE_CACHE_LIMITS,
    ProcessMemory,
    configure_torch,
    process_memory,
)


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    for name in ("CUBLAS_WORKSPACE_CONFIG", *COMPILE_CACHE_LIMITS):
        monkeypatch.setenv(name, "")  # so that it is as before in the end
        monkeypatch.delenv(name)
    threads = torch.get_num_threads()
    _as_torch_has_it()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    _as_torch_has_it()


def _as_torch_has_it():
    torch.backends.cudnn.deterministic = torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True


def flags():
    cudnn = torch.backends.cudnn
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark


@pytest.mark.holds("I1")
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (False, False, False)),
        ({"cudnn_benchmark": True}, (False, False, True)),
        ({"deterministic": True}, (True, True, False)),
        ({"deterministic": True, "cudnn_benchmark": True}, (True, True, False)),
    ],
)
def test_settings_choose_cudnn_benchmark_and_determinism(settings, expected):
    configure_torch(RunSettings(**settings))
    assert flags() == expected
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == settings.get("deterministic", False)


@pytest.mark.holds("I1")
def test_a_run_resets_the_settings_of_an_earlier_one():
    configure_torch(RunSettings(deterministic=True, threads=2, matmul_precision="high"))
    configure_torch(RunSettings(cudnn_benchmark=True))
    assert flags() == (False, False, True)
    assert allowed_tf32() == (False, False)
    assert torch.get_num_threads() == 1


@pytest.mark.holds("I1")
def test_the_cublas_workspace_is_deterministic_for_torch_and_cudnn():
    """torch accepts `:4096:8` or `:16:8` for its own products, and asks for `:4096:2` or `:16:8` for an LSTM."""
    configure_torch(RunSettings(deterministic=True))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_a_cublas_workspace_of_the_user_stays(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    configure_torch(RunSettings(deterministic=True))
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"


def allowed_tf32():
    """Of the library that acting multiplies with, and of the one that takes the LSTM through an update."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


@pytest.mark.holds("I1")
@pytest.mark.parametrize(("settings", "allowed"), [({}, False), ({"matmul_precision": "high"}, True)])
def test_acting_and_learning_have_the_same_matmul_precision(settings, allowed):
    assert allowed_tf32() == (False, True), "torch's own would have them differ"
    configure_torch(RunSettings(**settings))
    assert allowed_tf32() == (allowed, allowed)


def test_matmul_precision_does_not_change_cpus():
    before = torch.backends.mkldnn.matmul.fp32_precision
    configure_torch(RunSettings(matmul_precision="high"))
    assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_an_unknown_matmul_precision_is_refused():
    with refused("invalid-setting", "run.matmul_precision", "tf32"):
        resolve(None, None, ["run.matmul_precision=tf32"])


@pytest.mark.parametrize(("device", "chosen"), [("cuda:1", [1]), ("cuda", []), ("cpu", [])])
def test_the_gpu_of_a_run_is_the_default_device(device, chosen, monkeypatch):
    taken = []
    monkeypatch.setattr(machine, "check_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: taken.append(torch.device(device).index))
    configure_torch(RunSettings(device=device))
    assert taken == chosen


def test_training_works_with_deterministic_algorithms(play, never):
    configure_torch(RunSettings(deterministic=True))
    played = play()
    assert played.learner.learn(played.collect(), never)["losses/rejected_steps"] == 0.0


@pytest.mark.parametrize("device", ["quantum", "meta"])
def test_an_unusable_device_is_refused_before_anything_is_set(device):
    with refused("invalid-setting", "run.device", device, "cuda:INDEX"):
        configure_torch(RunSettings(device=device, deterministic=True))
    assert not torch.are_deterministic_algorithms_enabled()


says_memory = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not say what memory was used"
)


@pytest.mark.integration
@says_memory
def test_peak_memory_does_not_include_the_parent_process():
    code = "held = b'x' * 2**26; held = None; print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        child.stdout.readline()
        own, other = process_memory(os.getpid()), process_memory(child.pid)
        child.stdin.write(b"\n")
    assert 2**26 < other.peak_bytes < own.now_bytes
    assert other.now_bytes < other.peak_bytes - 2**25
    assert process_memory(child.pid) == ProcessMemory(0, 0), "it has ended"


@says_memory
@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's allocator that is told")
def test_freed_memory_is_returned_to_the_system():
    held = [b"x" * (1000 + number % 2) for number in range(100_000)]
    held = held[::1000]  # what lies above the freed keeps the allocator from shrinking
    before = process_memory(os.getpid()).now_bytes
    give_back_freed_memory()
    assert process_memory(os.getpid()).now_bytes < before - 5e7
    assert held


PRODUCTS_OF_MANY_SIZES = """
import sys
from pathlib import Path

import torch

from trainer.runtime.torch_setup import configure_torch
from trainer.config.schema import RunSettings

if sys.argv[1] == "prepared":
    configure_torch(RunSettings())
weight, seen = torch.randn(512, 400).bfloat16(), torch.randn(2000, 400).bfloat16()
for size in range(1000, 1400):
    (seen[:size] @ weight.t()).t() @ seen[:size]
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))
"""


@pytest.mark.integration
@says_memory
def test_half_precision_minibatches_of_many_sizes_do_not_fill_the_memory():
    def most_mb(when: str) -> int:
        run = [sys.executable, "-c", PRODUCTS_OF_MANY_SIZES, when]
        return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    kept = most_mb("as torch does it")
    if kept < 500:
        pytest.skip("this processor multiplies bfloat16 without compiling")
    assert most_mb("prepared") < 0.7 * kept


def test_compile_cache_limits_of_the_user_stay(monkeypatch):
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    configure_torch(RunSettings())
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"
