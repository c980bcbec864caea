"""Freed memory that malloc keeps."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


@pytest.mark.skipif(sys.platform != "linux", reason="it is glibc's allocator that is told")
def test_freed_memory_is_reused() -> None:
    """Run in a process of its own: the options hold for good."""
    code = """
import resource, numpy
from arena.malloc import keep_freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        [numpy.ones(2**20, numpy.float32) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = pages()
keep_freed_memory()
pages()
print(first, pages())
"""
    first, kept = map(int, subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split())
    assert kept < first / 20


@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="this system has no huge pages"
)
def test_the_heap_and_its_reserve_are_advised_to_use_huge_pages() -> None:
    code = """
from pathlib import Path
from arena.malloc import RESERVED_HEAP, keep_freed_memory_in_huge_pages

keep_freed_memory_in_huge_pages()
heap = Path("/proc/self/smaps").read_text().split("[heap]\\n")[1].split("VmFlags:")
print(int(heap[0].split()[1]) * 1024 >= RESERVED_HEAP, "hg" in heap[1].splitlines()[0].split())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["True", "True"]
