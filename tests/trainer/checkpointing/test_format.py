import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from refused import refused
from safetensors.torch import save_file

from trainer.checkpointing import format as state
from trainer.errors import StateError
from trainer.ppo.optim.optimizer import MOMENTS


def test_state_round_trips(tmp_path):
    tensors = {"a": torch.randn(3, 2), "b": torch.tensor(5, dtype=torch.int64), "c": torch.tensor(0.1).double()}
    counters = {"steps": 7, "leases": {"pending": [[1, None]]}}
    state.save(tmp_path / "state", tensors, counters)
    saved = state.load(tmp_path / "state")
    assert saved.counters == counters
    assert saved.tensors.keys() == tensors.keys()
    assert all(torch.equal(tensor, saved.tensors[name]) for name, tensor in tensors.items())


def test_tensors_that_share_memory_are_saved_each_for_itself(tmp_path):
    zeros = torch.zeros(3)
    state.save(tmp_path / "state", {"mean": zeros, "squares": zeros}, {})
    assert state.load(tmp_path / "state").tensors.keys() == {"mean", "squares"}


def test_a_learner_that_has_not_learned_yet_is_saved(play, tmp_path):
    state.save(tmp_path / "state", play().learner.tensors(), {})
    assert state.load(tmp_path / "state") is not None


def test_missing_state_loads_as_none(tmp_path):
    assert state.load(tmp_path / "state") is None


@pytest.mark.holds("H3", "T8")
@pytest.mark.parametrize(
    ("damage", "values"),
    [
        ("cut short", ()),
        ("pickle", ()),
        ("another format", ("diary", "echelon-league.run")),
        ("older", (1, 2)),
        ("newer", (3, 2)),
        ("of no version", (2,)),
    ],
)
def test_a_state_that_cannot_be_read_is_refused_in_one_line(tmp_path, damage, values):
    path = tmp_path / "state"
    match damage:
        case "cut short":
            state.save(path, {"a": torch.zeros(100)}, {})
            path.write_bytes(path.read_bytes()[:-7])
        case "pickle":
            path.write_bytes(pickle.dumps({"steps": 1}))
        case "another format":
            save_file({"a": torch.zeros(1)}, path, {"format": "diary"})
        case "older":
            save_file({"a": torch.zeros(1)}, path, {"format": state.FORMAT, "format_version": "1"})
        case "newer":
            save_file({"a": torch.zeros(1)}, path, {"format": state.FORMAT, "format_version": "3"})
        case "of no version":
            save_file({"a": torch.zeros(1)}, path, {"format": state.FORMAT})
    with refused("invalid-run-state", *values) as error:
        state.load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_state_with_numbers_that_are_not_finite_is_refused_by_the_tensors_name(tmp_path, value):
    path = tmp_path / "state"
    weights = torch.zeros(3, 2)
    weights[1, 1] = value
    tensors = {"network.actor.weight": weights, "network.actor.bias": torch.zeros(3), "rng": torch.zeros(2).byte()}
    state.save(path, tensors, {})
    with refused("invalid-run-state", "network.actor.weight"):
        state.load(path)


@pytest.mark.holds("H1")
def test_any_changed_bit_of_a_state_is_detected(tmp_path):
    path = tmp_path / "state"
    state.save(path, {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(True)}, {"steps": 7})
    whole = path.read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            saved = state.load(path)
        except StateError:
            continue
        assert saved.counters == {"steps": 7}, place
        assert torch.equal(saved.tensors["a"], torch.arange(6.0).view(2, 3)), place
        assert bool(saved.tensors["b"]), place


def test_damaged_state_is_rejected_with_a_remedy(tmp_path):
    path = tmp_path / "state"
    state.save(path, {"a": torch.zeros(1000)}, {})
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with refused("invalid-run-state"):
        state.load(path)


def test_a_digest_depends_on_everything():
    one = {"a": torch.zeros(4), "b": torch.ones(2, dtype=torch.int64)}
    others = [
        {"a": torch.zeros(4)},
        {**one, "a": torch.zeros(2, 2)},
        {**one, "a": torch.zeros(4, dtype=torch.int32)},
        {"c": one["a"], "b": one["b"]},
        {**one, "b": torch.tensor([1, 2])},
    ]
    assert len({state.digest(each, "{}") for each in (one, *others)} | {state.digest(one, "")}) == 7
    assert state.digest(dict(reversed(one.items())), "{}") == state.digest(one, "{}")


@pytest.mark.holds("D5", "H4")
def test_restored_learner_has_all_changed_state(play, never):
    one, other = play(), play(run={"seed": 5})
    for _ in range(2):
        one.learner.learn(one.collect(), never)
    other.learner.restore(one.learner.tensors(), one.learner.steps, one.learner.updates)
    mine, theirs = one.learner.tensors(), other.learner.tensors()
    assert mine.keys() == theirs.keys()
    moments = {f"adam.{name}.{key}" for name, _ in one.learner.network.named_parameters() for key in MOMENTS}
    assert moments <= mine.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
    assert (other.learner.steps, other.learner.updates) == (72, 2)


@pytest.mark.holds("H2")
def test_weights_of_another_size_are_refused_by_name(play):
    one, other = play(), play(network={"recurrent_size": 7})
    with refused("invalid-run-state", "actor.weight", "(7, 6)", "(7, 7)", "--run"):
        other.learner.restore(one.learner.tensors(), 0, 0)


@pytest.mark.parametrize("missing", ["rewards.count", "rng.update"])
def test_missing_tensor_is_named(play, missing):
    played = play()
    tensors = played.learner.tensors()
    del tensors[missing]
    with refused("invalid-run-state", missing):
        play().learner.restore(tensors, 0, 0)


SAVER = """
import os, resource, signal, sys
from pathlib import Path
import torch
from trainer.checkpointing import format as state

def save(number):
    state.save(Path(sys.argv[1]), {"numbers": torch.full((20000,), float(number))}, {"number": number})

def die_at_byte(most):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

def die_at(name):
    setattr(os, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))

save(0)
deaths = [lambda: die_at_byte(100), lambda: die_at_byte(40000), lambda: die_at("fsync"), lambda: die_at("replace")]
for prepare in deaths:
    child = os.fork()
    if not child:
        prepare()
        save(1)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
    print(os.WTERMSIG(ended), state.load(Path(sys.argv[1])).counters["number"])
"""


def test_rng_is_seeded_again_on_another_kind_of_device(play):
    """The state of a GPU's generator has 16 bytes, that of a CPU's 5,056: neither can be put into the other."""
    tensors = play().learner.tensors()
    elsewhere = tensors | {name: torch.zeros(16, dtype=torch.uint8) for name in ("rng.acting", "rng.update")}
    moved = [play().learner for _ in range(3)]
    for learner, steps in zip(moved, (64, 64, 128), strict=True):
        learner.restore(elsewhere, steps, 1)
    one, same, later = [torch.rand(4, generator=learner.rng) for learner in moved]
    assert torch.equal(one, same)
    assert not torch.equal(one, later)
    assert not torch.equal(one, torch.rand(4, generator=play().learner.rng))


@pytest.mark.integration
@pytest.mark.holds("H1")
@pytest.mark.skipif(sys.platform != "linux", reason="a process is ended where its file has so many bytes")
def test_kill_9_during_a_save_leaves_a_complete_state(tmp_path):
    """Two savers end while they write, one before what it wrote is on the disk, one before that takes its place."""
    path = tmp_path / "state"
    command = [sys.executable, "-c", SAVER, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    too_large, killed = int(signal.SIGXFSZ), int(signal.SIGKILL)
    assert printed == [f"{too_large} 0", f"{too_large} 0", f"{killed} 0", f"{killed} 0"]
    assert (state.load(path).tensors["numbers"] == 0.0).all()


@pytest.mark.holds("H3")
def test_state_of_format_2_can_be_resumed(play, never):
    """The file was written when its format was the latest."""
    saved = state.load(Path(__file__).parent / "vectors" / "state_v2.safetensors")
    played = play(network={"encoder_sizes": [3], "recurrent_size": 2})
    played.learner.restore(saved.tensors, saved.counters["steps"], saved.counters["updates"])
    assert (played.learner.steps, played.learner.updates) == (36, 1)
    assert played.learner.network.critic.weight.sum().item() == pytest.approx(0.4369083, abs=1e-6)
    assert played.learner.ppo.optimizer.steps == 4
    played.learner.learn(played.collect(), never)
