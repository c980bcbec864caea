import dataclasses
import hashlib
import json
import os

import pytest
import torch
from fake_games import fake_spec
from safetensors.torch import load, save

from arena.environments import make
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from league.errors import UnknownCheckpointError
from trainer.errors import UnusableOpponentError
from trainer.opponents import DiskCache, OpponentPool, unplayable


@pytest.fixture(scope="module")
def spec():
    return make("recall", num_envs=1).spec


def checkpoint(spec, claimed=None, bias=0.0):
    """A checkpoint for `spec` that claims to be for `claimed`; another bias makes it another."""
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    torch.nn.init.constant_(network.critic.bias, bias)
    data = encode(network, claimed or spec)
    return hashlib.sha256(data).hexdigest(), data


class Store:
    """The league's store; None for everything while it is away."""

    def __init__(self):
        self.files, self.away, self.downloads = {}, False, 0

    def put(self, sha256, data):
        self.files[sha256] = data
        return sha256

    def download(self, sha256):
        self.downloads += 1
        if self.away:
            return None
        if sha256 not in self.files:
            raise UnknownCheckpointError(sha256, "the store has no such bytes", "upload them first")
        return self.files[sha256]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def pool_of(tmp_path, spec, store):
    def make_pool(memory=2**20, disk=2**20):
        cache = DiskCache(tmp_path / "cache", disk)
        return OpponentPool(spec, store.download, cache, memory_limit_bytes=memory, device="cpu")

    return make_pool


def test_a_learned_opponent_is_fetched_once_and_kept(pool_of, store, spec):
    sha256 = store.put(*checkpoint(spec))
    pool = pool_of()
    opponent = pool.resolve(sha256, "one")
    assert (opponent.key, opponent.name) == (sha256, "one")
    assert pool.resolve(sha256, "one").policy is opponent.policy
    pool_of().resolve(sha256, "one")  # another process finds it on the disk
    assert store.downloads == 1


def test_a_baseline_needs_no_league(pool_of, store):
    store.away = True
    assert pool_of().resolve("baseline:random", "random").policy is not None


@pytest.mark.parametrize(
    "damage", ["unknown", "pickle", "other environment", "other shape", "not finite", "away", "no baseline"]
)
def test_an_opponent_that_cannot_be_played_is_named(pool_of, store, spec, damage):
    wanted = "f" * 64
    match damage:
        case "pickle":
            wanted = store.put(hashlib.sha256(b"\x80\x04boom").hexdigest(), b"\x80\x04boom")
        case "other environment":
            wanted = store.put(*checkpoint(fake_spec()))
        case "other shape":
            wanted = store.put(*checkpoint(dataclasses.replace(spec, observation=spec.observation[:1]), claimed=spec))
        case "not finite":
            wanted = store.put(*checkpoint(spec, bias=float("nan")))
        case "away":
            store.away = True
        case "no baseline":
            wanted = "baseline:champion"
    with pytest.raises(UnusableOpponentError) as error:
        pool_of().resolve(wanted, "bad")
    assert wanted.removeprefix("baseline:") in str(error.value)
    assert "\n" not in str(error.value)


def test_whatever_a_checkpoint_calls_its_parts_the_league_can_be_told(pool_of, store, spec):
    _, data = checkpoint(spec)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    architecture = json.loads(header["__metadata__"]["architecture"])
    architecture["heads"][0]["\ud800\0" + "x" * 1000] = 1
    odd = save(load(data), header["__metadata__"] | {"architecture": json.dumps(architecture)})
    with pytest.raises(UnusableOpponentError) as refusal:
        pool_of().resolve(store.put(hashlib.sha256(odd).hexdigest(), odd), "odd")
    (told,) = unplayable(5, refusal.value)
    assert r"\ud800 xxx" in told.reason
    assert told.model_dump_json()


def test_an_opponent_of_other_rules_is_refused_though_its_shapes_fit(pool_of, store, spec):
    other = dataclasses.replace(spec, rules={**spec.rules, "of another version": True})
    assert other.signature != spec.signature
    wanted = store.put(*checkpoint(other))
    with pytest.raises(UnusableOpponentError, match=rf"signature {other.signature}\), but {spec.name} has signature"):
        pool_of().resolve(wanted, "bad")


def test_a_file_damaged_on_the_disk_is_fetched_again(pool_of, store, spec, tmp_path):
    sha256 = store.put(*checkpoint(spec))
    pool_of().resolve(sha256, "one")
    file = next((tmp_path / "cache").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    pool_of().resolve(sha256, "one")
    assert store.downloads == 2


def test_a_file_that_the_disk_does_not_give_is_fetched_and_played(pool_of, store, spec, tmp_path, caplog):
    sha256 = store.put(*checkpoint(spec))
    pool_of()
    (tmp_path / "cache" / f"{sha256}.safetensors").mkdir()
    assert pool_of().resolve(sha256, "one").key == sha256
    assert store.downloads == 1
    assert "is played but not kept (Is a directory)" in caplog.text


def test_a_checkpoint_that_cannot_be_read_is_not_kept_on_the_disk(pool_of, store, tmp_path):
    data = b"no checkpoint at all"
    sha256 = store.put(hashlib.sha256(data).hexdigest(), data)
    with pytest.raises(UnusableOpponentError):
        pool_of().resolve(sha256, "bad")
    assert list((tmp_path / "cache").iterdir()) == []


def test_memory_is_bounded_by_bytes_and_forgets_who_was_used_longest_ago(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(4)]
    size = len(store.files[names[0]])
    pool = pool_of(memory=2 * size + size // 2)
    for name in names[:2]:
        pool.resolve(name, name)
    first = pool.resolve(names[0], names[0])
    pool.resolve(names[2], names[2])
    assert pool.loaded_bytes <= 2 * size + size // 2
    assert pool.resolve(names[0], names[0]).policy is first.policy
    assert sorted(pool._loaded) == sorted([names[0], names[2]])


def test_the_disk_is_bounded_by_bytes_and_forgets_who_was_used_longest_ago(tmp_path):
    cache = DiskCache(tmp_path, 250)
    files = {}
    for number in range(3):
        data = bytes([number]) * 100
        files[number] = hashlib.sha256(data).hexdigest()
        cache.put(files[number], data)
        os.utime(tmp_path / f"{files[number]}.safetensors", (number, number))
        if number == 1:
            assert cache.get(files[0]) is not None  # used again: newer than 1
    assert set(cache.names()) == {files[0], files[2]}


def test_who_is_at_hand_is_known_in_a_fixed_order(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(3)]
    pool = pool_of()
    for name in reversed(names):
        pool.resolve(name, name)
    pool.resolve("baseline:random", "random")
    assert pool.at_hand() == sorted([*names, "baseline:random"])


def test_an_opponent_brings_its_own_observation_statistics(pool_of, store, spec):
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    network.observation_mean.fill_(3.0)
    data = encode(network, spec)
    sha256 = store.put(hashlib.sha256(data).hexdigest(), data)
    assert pool_of().resolve(sha256, "one").policy.network.observation_mean.mean() == 3.0


def test_who_will_play_soon_is_loaded_ahead_and_needs_no_league_then(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(3)]
    pool = pool_of()
    pool.prefetch([names[0], "baseline:random", names[1], names[0]], enough=lambda: False)
    assert store.downloads == 2
    store.away = True
    assert [pool.resolve(name, "one").key for name in names[:2]] == names[:2]
    assert store.downloads == 2


def test_who_cannot_be_loaded_ahead_is_left_to_its_match(pool_of, store, spec):
    broken, good = "f" * 64, store.put(*checkpoint(spec))
    pool = pool_of()
    pool.prefetch([broken, good], enough=lambda: False)
    assert pool.at_hand() == [good]
    with pytest.raises(UnusableOpponentError, match=broken):
        pool.resolve(broken, "broken")


def test_loading_ahead_stops_when_it_is_enough_or_memory_is_full(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(9)]
    answers = iter([False, False, True])
    pool_of().prefetch(names, enough=lambda: next(answers))
    assert store.downloads == 2
    pool = pool_of(memory=3 * len(store.files[names[0]]))
    pool.prefetch(names, enough=lambda: False)
    assert store.downloads == 4
    assert pool.loaded_bytes <= 3 * len(store.files[names[0]])


def test_all_caches_are_bounded_after_a_thousand_opponents(pool_of, store, spec, tmp_path):
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    pool, size = pool_of(memory=2**14, disk=2**16), 0
    for number in range(1000):
        network.critic.bias.data.fill_(float(number))
        data = encode(network, spec)
        sha256, size = store.put(hashlib.sha256(data).hexdigest(), data), len(data)
        pool.resolve(sha256, "passing")
        store.files.clear()
        assert pool.loaded_bytes <= 2**14
    assert 0 < len(pool._loaded) <= 2**14 // size
    assert sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 2**16
