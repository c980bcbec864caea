"""The run folder: who may use it, and what tells its run from others."""

import errno

import pytest

from trainer.checkpointing import run_directory as folder_module
from trainer.checkpointing.run_directory import RunDirectory


def test_a_run_keeps_its_identity_and_another_has_another(tmp_path):
    folder, other = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "b")
    with folder.locked(), other.locked():
        assert folder.instance() == folder.instance() == RunDirectory(tmp_path / "a").instance()
        assert folder.instance() != other.instance()


def test_full_disk_gives_no_instance_id_and_does_not_stop_the_run(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    path = tmp_path / "a"
    with RunDirectory(path).locked():
        with monkeypatch.context() as full:
            full.setattr(folder_module, "write_atomically", refuse)
            assert RunDirectory(path).instance() is None
        assert RunDirectory(path).instance() is not None


def test_unused_run_folder_is_removed(tmp_path):
    folder = RunDirectory(tmp_path / "runs" / "a")
    with pytest.raises(RuntimeError, match="refused"), folder.locked():
        refuse(folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inner", ["", "spool", "opponents", "snapshots"])
def test_partial_files_of_a_crash_are_removed_at_the_next_start(tmp_path, inner):
    half = tmp_path / "run" / inner / ".file.0123456789abcdef"
    half.parent.mkdir(parents=True)
    half.touch()
    stranger = tmp_path / "run" / "notes" / ".file.0123456789abcdef"
    stranger.parent.mkdir()
    stranger.touch()
    with RunDirectory(tmp_path / "run").locked():
        assert not half.exists()
        assert stranger.exists()


def test_the_folder_of_a_run_that_failed_later_stays(tmp_path):
    folder = RunDirectory(tmp_path / "a")
    with pytest.raises(RuntimeError, match="later"), folder.locked():
        fail_later(folder)
    assert folder.settings.exists()


def refuse(folder):
    folder.instance()
    raise RuntimeError("refused")


def fail_later(folder):
    folder.settings.write_text("")
    raise RuntimeError("later")
