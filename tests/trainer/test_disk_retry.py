"""A full disk: training goes on, the failure is logged once, and everything is written once there is room."""

import errno
import resource
from contextlib import contextmanager

import pytest

from arena.durable_log import BLOCK_BYTES, AppendFile, LineFile
from trainer.disk_retry import DiskRetry


@contextmanager
def files_of_at_most(size):
    """Let no file of this process grow beyond `size`: a real refusal by the system, in the middle of a write."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_a_failed_write_is_logged_once_as_is_its_recovery():
    logged = []
    disk = DiskRetry(logged.append)

    def refuse():
        raise OSError(errno.ENOSPC, "No space left on device")

    assert [disk.write("metrics", refuse) for _ in range(3)] == [False] * 3
    assert disk.failures == "metrics: No space left on device"
    assert disk.write("metrics", lambda: None)
    assert disk.write("metrics", lambda: None)
    assert disk.failures == ""
    failed, recovered = logged
    assert failed.startswith("cannot write metrics (No space left on device)")
    assert recovered == "metrics can be written again"


def test_refused_writes_wait_and_the_file_stays_whole(tmp_path):
    path = tmp_path / "lines"
    file = LineFile(path)
    file.add(b"one")
    file.write(durably=True)
    with files_of_at_most(10):
        for line in (b"second", b"third"):
            file.add(line)
            with pytest.raises(OSError, match="too large"):
                file.write(durably=True)
            assert path.read_bytes() == b"one\n"
            assert file.end == 4
    file.write(durably=True)
    assert path.read_bytes() == b"one\nsecond\nthird\n"
    assert file.end == 17
    file.close()


def test_a_line_that_a_crash_cut_short_is_removed(tmp_path):
    path = tmp_path / "lines"
    for torn in (b"tor", b"x" * (3 * BLOCK_BYTES)):
        path.write_bytes(b"one\ntwo\n" + torn)
        file = LineFile(path)
        file.add(b"three")
        file.write(durably=False)
        file.close()
        assert path.read_bytes() == b"one\ntwo\nthree\n"
    path.write_bytes(b"nothing whole")
    LineFile(path).close()
    assert path.read_bytes() == b""


def test_appended_file_resumes_at_its_end(tmp_path):
    for record in (b"a", b"b"):
        file = AppendFile(tmp_path / "file")
        file.add(record)
        file.write(durably=False)
        file.close()
    assert (tmp_path / "file").read_bytes() == b"ab"
