"""Anonymous shared memory, passed on by file descriptor, so that no name has to be removed."""

import os
import tempfile
from pathlib import Path


def create(size_bytes: int) -> int:
    """Return the descriptor of a zero-filled anonymous file, in memory if the system supports it.

    Raises:
        OSError: There is not enough memory.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("echelon-league")
    else:
        descriptor, path = tempfile.mkstemp()
        Path(path).unlink()  # the descriptor stays valid without a name
    try:
        os.ftruncate(descriptor, size_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
