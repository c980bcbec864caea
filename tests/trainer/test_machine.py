import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.errors import ConfigError
from trainer.machine import FEW_COMPILED, Residence, give_back_freed_memory, prepare, residence
from trainer.settings import RunSettings


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    for name in ("CUBLAS_WORKSPACE_CONFIG", *FEW_COMPILED):
        monkeypatch.setenv(name, "")  # so that it is as before in the end
        monkeypatch.delenv(name)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)
    torch.backends.cudnn.deterministic = torch.backends.cudnn.benchmark = False


def flags():
    cudnn = torch.backends.cudnn
    return torch.are_deterministic_algorithms_enabled(), cudnn.deterministic, cudnn.benchmark


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, (False, False, True)),
        ({"cudnn_tuner": False}, (False, False, False)),
        ({"deterministic": True}, (True, True, False)),
        ({"deterministic": True, "cudnn_tuner": False}, (True, True, False)),
    ],
)
def test_the_settings_choose_cudnns_tuner_and_determinism(settings, expected):
    prepare(RunSettings(**settings))
    assert flags() == expected
    assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == settings.get("deterministic", False)


def test_what_one_run_asked_for_is_not_left_to_the_next():
    prepare(RunSettings(deterministic=True, threads=2))
    prepare(RunSettings())
    assert flags() == (False, False, True)
    assert torch.get_num_threads() == 1


def test_training_works_with_deterministic_algorithms(play, never):
    prepare(RunSettings(deterministic=True))
    played = play()
    assert played.learner.learn(played.collect(), never)["losses/rejected_steps"] == 0.0


@pytest.mark.parametrize("device", ["quantum", "meta"])
def test_a_device_that_cannot_be_used_is_refused_before_anything_is_set(device):
    with pytest.raises(ConfigError, match=rf"run\.device is '{device}': give cpu, cuda or cuda:INDEX$"):
        prepare(RunSettings(device=device, deterministic=True))
    assert not torch.are_deterministic_algorithms_enabled()


says_memory = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="this system does not say what memory was used"
)


@says_memory
def test_the_peak_of_a_process_is_its_own_and_not_that_of_whoever_started_it():
    code = "held = b'x' * 2**26; held = None; print(flush=True); input()"
    child = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        child.stdout.readline()
        own, other = residence(os.getpid()), residence(child.pid)
        child.stdin.write(b"\n")
    assert 2**26 < other.peak_bytes < own.now_bytes
    assert other.now_bytes < other.peak_bytes - 2**25
    assert residence(child.pid) == Residence(0, 0, 0), "it has ended"


@says_memory
@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's allocator that is told")
def test_memory_that_was_freed_is_given_back():
    held = [b"x" * (1000 + number % 2) for number in range(100_000)]
    held = held[::1000]  # what lies above the freed keeps the allocator from shrinking
    before = residence(os.getpid()).now_bytes
    give_back_freed_memory()
    assert residence(os.getpid()).now_bytes < before - 5e7
    assert held


PRODUCTS_OF_MANY_SIZES = """
import sys
from pathlib import Path

import torch

from trainer.machine import prepare
from trainer.settings import RunSettings

if sys.argv[1] == "prepared":
    prepare(RunSettings())
weight, seen = torch.randn(512, 400).bfloat16(), torch.randn(2000, 400).bfloat16()
for size in range(1000, 1400):
    (seen[:size] @ weight.t()).t() @ seen[:size]
lines = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM")))
"""


@says_memory
def test_minibatches_of_ever_other_sizes_in_half_precision_do_not_fill_the_memory():
    def most_mb(when: str) -> int:
        run = [sys.executable, "-c", PRODUCTS_OF_MANY_SIZES, when]
        return int(subprocess.run(run, check=True, capture_output=True, text=True).stdout)

    kept = most_mb("as torch does it")
    if kept < 500:
        pytest.skip("this processor multiplies bfloat16 without compiling")
    assert most_mb("prepared") < 0.7 * kept


def test_what_the_user_says_of_compiled_products_holds(monkeypatch):
    monkeypatch.setenv("LRU_CACHE_CAPACITY", "7")
    prepare(RunSettings())
    assert os.environ["LRU_CACHE_CAPACITY"] == "7"


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's allocator that is told")
def test_freed_memory_is_kept_for_the_next_who_asks():
    """In a process of its own, since what the allocator is told holds for good."""
    code = """
import resource, torch
from trainer.machine import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        [torch.ones(2**20) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = pages()
keep_freed_memory()
pages()
print(first, pages())
"""
    first, kept = map(int, subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split())
    assert kept < first / 20
