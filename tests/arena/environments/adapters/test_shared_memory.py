"""Memory that processes share has no name and leaves nothing behind."""

import mmap
import os
import tempfile
from pathlib import Path

import pytest

from arena.environments.adapters.subprocess import shared_memory


@pytest.mark.parametrize("in_memory", [True, False])
def test_it_is_as_large_as_asked_empty_shared_and_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    file = shared_memory.create(5000)
    try:
        with mmap.mmap(file, 5000) as one, mmap.mmap(file, 0) as other:
            assert (len(other), other[:]) == (5000, bytes(5000))
            one[4999] = 7
            assert other[4999] == 7
    finally:
        os.close(file)
    assert list(tmp_path.iterdir()) == []


def test_one_that_cannot_be_made_leaves_no_descriptor_open() -> None:
    descriptors = len(list(Path("/dev/fd").iterdir()))
    with pytest.raises(OSError, match="Invalid argument"):
        shared_memory.create(-1)
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
