"""Freed memory that malloc keeps."""

import subprocess
import sys

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
