"""Origin of a process: masked command and git revision."""

import subprocess

import pytest

from league.client.origin import mask_secrets, revision


@pytest.mark.parametrize("secret", [["--token", "abc"], ["--token=abc"]])
def test_secrets_in_the_command_are_masked(secret):
    masked = mask_secrets(["trainer", "run", *secret, "--learner", "abc"])
    assert "abc" not in " ".join(masked[:-1])
    assert masked[-2:] == ["--learner", "abc"]


def git(folder, *arguments):
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *own, *arguments], check=True, capture_output=True)


def test_origin_has_the_revision_of_a_checkout_and_whether_it_was_changed(tmp_path):
    assert revision(tmp_path) is None
    git(tmp_path, "init")
    assert revision(tmp_path) is None  # nothing is committed
    (tmp_path / "file").write_text("1")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    found = revision(tmp_path)
    assert len(found["revision"]) == 40
    assert found["changed"] is False
    folder = tmp_path / "folder"
    folder.mkdir()
    assert revision(folder) == found
    (tmp_path / "file").write_text("2")
    assert revision(tmp_path) == {**found, "changed": True}
