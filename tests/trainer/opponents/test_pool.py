import dataclasses
import hashlib
import json
import os
import sys

import pytest
import torch
from fake_games import fake_spec
from nonsense_weights import as_integers, huge, named, rewritten
from onnx_models import linear
from refused import assert_names, refused
from safetensors.torch import load, save

from arena.environments import declare, make
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from arena.policies.onnx.policy import OnnxPolicy
from league.errors import UnknownCheckpointError
from trainer.errors import UnusableOpponentError
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool, unplayable_report


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
        cache = CheckpointCache(tmp_path / "cache", disk)
        return OpponentPool(spec, store.download, cache, memory_limit_bytes=memory, device="cpu")

    return make_pool


def test_a_checkpoint_is_downloaded_once_and_cached(pool_of, store, spec):
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
    "damage",
    [
        *("unknown", "pickle", "other environment", "other name", "other shape", "not finite", "integers", "huge"),
        *("away", "no baseline"),
    ],
)
def test_an_unplayable_opponent_raises_an_error_with_its_name(pool_of, store, spec, damage):
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
        case "integers":
            wanted = store.put(*named(as_integers(checkpoint(spec)[1])))
        case "huge":
            wanted = store.put(*named(huge(checkpoint(spec)[1])))
        case "other name":
            wanted = store.put(*named(rewritten(checkpoint(spec)[1], lambda _, tensor: tensor, environment="rps")))
        case "away":
            store.away = True
        case "no baseline":
            wanted = "baseline:champion"
    with pytest.raises(UnusableOpponentError) as error:
        pool_of().resolve(wanted, "bad")
    assert wanted.removeprefix("baseline:") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_report_is_valid_json_whatever_names_a_checkpoint_contains(pool_of, store, spec):
    _, data = checkpoint(spec)
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    architecture = json.loads(header["__metadata__"]["architecture"])
    architecture["heads"][0]["\ud800\0" + "x" * 1000] = 1
    odd = save(load(data), header["__metadata__"] | {"architecture": json.dumps(architecture)})
    with pytest.raises(UnusableOpponentError) as refusal:
        pool_of().resolve(store.put(hashlib.sha256(odd).hexdigest(), odd), "odd")
    (report,) = unplayable_report(5, refusal.value)
    assert r"\ud800 xxx" in report.reason
    assert report.model_dump_json()


def test_an_opponent_of_other_rules_is_rejected_even_if_its_shapes_fit(pool_of, store, spec):
    other = dataclasses.replace(spec, rules={**spec.rules, "of another version": True})
    assert other.signature != spec.signature
    wanted = store.put(*checkpoint(other))
    with refused("unusable-opponent", other.signature, spec.name, spec.signature):
        pool_of().resolve(wanted, "bad")


def test_a_damaged_cache_file_is_downloaded_again(pool_of, store, spec, tmp_path):
    sha256 = store.put(*checkpoint(spec))
    pool_of().resolve(sha256, "one")
    file = next((tmp_path / "cache").iterdir())
    file.write_bytes(file.read_bytes()[:-1])
    pool_of().resolve(sha256, "one")
    assert store.downloads == 2


def test_an_unreadable_cache_file_is_downloaded_instead(pool_of, store, spec, tmp_path, caplog):
    sha256 = store.put(*checkpoint(spec))
    pool_of()
    (tmp_path / "cache" / f"{sha256}.safetensors").mkdir()
    assert pool_of().resolve(sha256, "one").key == sha256
    assert store.downloads == 1
    assert_names(caplog.text, "Is a directory")


def test_an_invalid_checkpoint_is_removed_from_the_disk_cache(pool_of, store, tmp_path):
    data = b"no checkpoint at all"
    sha256 = store.put(hashlib.sha256(data).hexdigest(), data)
    with pytest.raises(UnusableOpponentError):
        pool_of().resolve(sha256, "bad")
    assert list((tmp_path / "cache").iterdir()) == []


def test_memory_is_bounded_by_bytes_with_lru_eviction(pool_of, store, spec):
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


def test_the_disk_cache_is_bounded_by_bytes_with_lru_eviction(tmp_path):
    cache = CheckpointCache(tmp_path, 250)
    files = {}
    for number in range(3):
        data = bytes([number]) * 100
        files[number] = hashlib.sha256(data).hexdigest()
        cache.put(files[number], data)
        os.utime(tmp_path / f"{files[number]}.safetensors", (number, number))
        if number == 1:
            assert cache.get(files[0]) is not None  # used again: newer than 1
    assert set(cache.hashes()) == {files[0], files[2]}


def test_offline_checkpoints_are_listed_in_sorted_order(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(3)]
    pool = pool_of()
    for name in reversed(names):
        pool.resolve(name, name)
    pool.resolve("baseline:random", "random")
    assert pool.available_offline() == sorted([*names, "baseline:random"])


@pytest.mark.holds("D6")
def test_an_opponent_brings_its_own_observation_statistics(pool_of, store, spec):
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    network.observation_mean.fill_(3.0)
    data = encode(network, spec)
    sha256 = store.put(hashlib.sha256(data).hexdigest(), data)
    assert pool_of().resolve(sha256, "one").policy.network.observation_mean.mean() == 3.0


def test_prefetched_opponents_need_no_league(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(3)]
    pool = pool_of()
    pool.prefetch([names[0], "baseline:random", names[1], names[0]], should_stop=lambda: False)
    assert store.downloads == 2
    store.away = True
    assert [pool.resolve(name, "one").key for name in names[:2]] == names[:2]
    assert store.downloads == 2


def test_prefetch_skips_a_broken_checkpoint_and_resolve_raises_its_error(pool_of, store, spec):
    broken, good = "f" * 64, store.put(*checkpoint(spec))
    pool = pool_of()
    pool.prefetch([broken, good], should_stop=lambda: False)
    assert pool.available_offline() == [good]
    with refused("unusable-opponent", broken):
        pool.resolve(broken, "broken")


def test_prefetch_stops_on_request_or_when_memory_is_full(pool_of, store, spec):
    names = [store.put(*checkpoint(spec, bias=number)) for number in range(9)]
    answers = iter([False, False, True])
    pool_of().prefetch(names, should_stop=lambda: next(answers))
    assert store.downloads == 2
    pool = pool_of(memory=3 * len(store.files[names[0]]))
    pool.prefetch(names, should_stop=lambda: False)
    assert store.downloads == 4
    assert pool.loaded_bytes <= 3 * len(store.files[names[0]])


def test_all_caches_are_bounded_after_many_opponents(pool_of, store, spec, tmp_path):
    network = ActorCritic(Architecture.of(spec, encoder_sizes=(4,), recurrent_size=4))
    pool, size = pool_of(memory=2**14, disk=2**16), 0
    for number in range(200):
        network.critic.bias.data.fill_(float(number))
        data = encode(network, spec)
        sha256, size = store.put(hashlib.sha256(data).hexdigest(), data), len(data)
        pool.resolve(sha256, "passing")
        store.files.clear()
        assert pool.loaded_bytes <= 2**14
    assert 0 < len(pool._loaded) <= 2**14 // size
    assert sum(file.stat().st_size for file in (tmp_path / "cache").iterdir()) <= 2**16


def test_an_onnx_model_is_loaded_once_and_one_that_does_not_fit_is_reported(pool_of, store, spec):
    fitting, other = linear(spec.observation_size, "answer", 5), linear(3, "answer", 5)
    names = [store.put(hashlib.sha256(data).hexdigest(), data) for data in (fitting, other)]
    pool = pool_of()
    opponent = pool.resolve(names[0], "one")
    assert isinstance(opponent.policy, OnnxPolicy)
    assert pool.resolve(names[0], "one").policy is opponent.policy
    with refused("unusable-opponent", "'observation'", names[1]) as refusal:
        pool.resolve(names[1], "other")
    (sent,) = unplayable_report(7, refusal.value)
    assert (sent.player_id, sent.local) == (7, False)


def test_an_onnx_model_without_onnxruntime_is_reported_as_local_and_stays_cached(pool_of, store, spec, monkeypatch):
    data = linear(spec.observation_size, "answer", 5)
    name, pool = store.put(hashlib.sha256(data).hexdigest(), data), pool_of()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        with refused("unsupported-opponent", "onnxruntime", "echelon-league[onnx]") as refusal:
            pool.resolve(name, "one")
    assert [each.local for each in unplayable_report(7, refusal.value)] == [True]
    pool.resolve(name, "one")
    assert store.downloads == 1


def test_a_network_of_a_module_that_is_not_allowed_is_reported_as_local(tmp_path, store):
    spec = declare("space_games:bazaar")
    data = encode(ActorCritic(Architecture.of(spec, encoder_sizes=(8,), module="space_games:Reader")), spec)
    cache = CheckpointCache(tmp_path / "cache", 2**20)
    pool = OpponentPool(spec, store.download, cache, memory_limit_bytes=2**20, device="cpu")
    with refused("unsupported-opponent", "space_games:Reader", "--module") as refusal:
        pool.resolve(store.put(hashlib.sha256(data).hexdigest(), data), "one")
    assert [each.local for each in unplayable_report(7, refusal.value)] == [True]
