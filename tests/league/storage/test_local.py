"""A folder alone: which of its checkpoints are served without being read again."""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from kept_stores import MAX_BYTES
from league_scene import safetensors, sha256

from league.storage import local
from league.storage.local import DirectoryStore

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

Read = Callable[[], list[str]]


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path, MAX_BYTES)


@pytest.fixture
def read(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> Read:
    """What was read of the folder since the last time that this was asked."""
    names: list[str] = []
    sound = store.sound

    def noted(name: str) -> bool:
        names.append(name)
        return sound(name)

    def since() -> list[str]:
        seen = names.copy()
        names.clear()
        return seen

    monkeypatch.setattr(store, "sound", noted)
    return since


def stored(store: DirectoryStore, contents: Sequence[int]) -> list[str]:
    policies = [safetensors(content) for content in contents]
    for policy in policies:
        store.put(sha256(policy), io.BytesIO(policy))
    return [sha256(policy) for policy in policies]


def test_a_checkpoint_is_read_once_an_hour_however_often_it_is_sent_again(store: DirectoryStore, read: Read) -> None:
    (name,) = stored(store, [1])
    for minutes in range(0, 60, 10):
        assert store.touch(name, NOON + minutes * MINUTE)
    assert read() == [name]
    store.path(name, NOON + 60 * MINUTE)
    assert read() == [name]


def test_it_remembers_so_many_and_reads_the_others_again(
    store: DirectoryStore, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_TRUSTED_MAX", 2)
    first, second, third = stored(store, [1, 2, 3])
    for name in (first, second, second, third, third, second):
        store.path(name, NOON)
    assert read() == [first, second, third]
    assert store.touch(first, NOON)
    assert read() == [first]
    assert len(store._trusted) == 2


def test_a_clock_that_is_set_back_makes_no_trust_last_longer(store: DirectoryStore, read: Read) -> None:
    (name,) = stored(store, [1])
    store.path(name, NOON)
    store.path(name, NOON - 1440 * MINUTE)
    store.path(name, NOON - 1430 * MINUTE)
    assert read() == [name, name]
