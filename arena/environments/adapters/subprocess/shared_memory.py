"""Memory that processes share by handing on a file that has no name: nobody has to remove it."""

import os
import tempfile
from pathlib import Path


def create(size_bytes: int) -> int:
    """Return the descriptor of such a file, filled with zeros, kept in memory where the system can.

    Raises:
        OSError: There is no room for it.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("echelon-league")
    else:
        descriptor, path = tempfile.mkstemp()
        Path(path).unlink()
    try:
        os.ftruncate(descriptor, size_bytes)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
