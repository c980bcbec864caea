import pytest
import torch

from trainer.config.loading import resolve
from trainer.runtime.benchmark import bench
from trainer.runtime.benchmark.bench import Bench
from trainer.runtime.benchmark.synthetic_env import SYNTHETIC, SyntheticSpec

SMALL = ["environment.num_envs=8", "rollout.num_steps=32", "network.encoder_sizes=[16]", "network.recurrent_size=16"]
STILL = ["optimizer.learning_rate=0.0", "optimizer.learning_rate_final=0.0"]


@pytest.mark.parametrize("environment", [SYNTHETIC, "recall"])
def test_throughput_counts_rollout_and_update(environment):
    measured = Bench(resolve(environment, None, SMALL), SyntheticSpec()).measure(1)
    assert measured.env_steps_per_s == pytest.approx(256 / (measured.rollout_s + measured.update_s))


def test_the_parts_of_a_rollout_are_timed():
    measured = Bench(resolve("rps", None, SMALL), SyntheticSpec(), opponents=3).measure(3)
    shares = (measured.arena_s, measured.acting_s, measured.opponents_s)
    assert min(shares) > 0.0
    assert sum(shares) < measured.rollout_s
    assert measured.agent_steps_per_s == pytest.approx(2 * measured.env_steps_per_s)
    assert measured.decisions_per_s == pytest.approx((8 + 3) / 8 * measured.env_steps_per_s)
    assert measured.resident_bytes > 2**20
    assert measured.device_bytes is None


def test_opponents_with_different_weights_are_assigned_in_turn():
    """The weights are the same in every run."""
    bench, again = (Bench(resolve("rps", None, SMALL), SyntheticSpec(), opponents=3) for _ in range(2))
    bench.collect()
    keys = [each.opponent.key for pair in bench.collector.pending for each in pair]
    assert set(keys) == {"opponent 0", "opponent 1", "opponent 2"}
    weights, repeated = (
        {each.opponent.key: each.opponent.policy.network.actor.weight for pair in played for each in pair}
        for played in (bench.collector.pending, again.collector.pending)
    )
    assert all(torch.equal(weights[key], repeated[key]) for key in set(keys))
    assert not torch.equal(weights["opponent 0"], weights["opponent 1"])


@pytest.mark.holds("B6")
@pytest.mark.parametrize("end_chance", [0.0, 0.05, 0.5])
def test_rollout_and_update_agree_in_every_chunk(end_chance):
    errors = Bench(resolve(SYNTHETIC, None, [*SMALL, *STILL]), SyntheticSpec(end_chance=end_chance)).ratio_errors()
    assert len(errors) == 2
    assert max(errors) < 1e-5


@pytest.mark.holds("F4")
def test_rollout_and_update_agree_on_teams_with_masks_on_every_kind_of_head():
    errors = Bench(resolve("mech-pack", None, [*SMALL, *STILL]), SyntheticSpec()).ratio_errors()
    assert max(errors) < 1e-5


@pytest.mark.holds("B6")
def test_a_lost_state_between_chunks_is_detected(monkeypatch):
    """The measure detects a wrong recurrent state."""
    item = Bench(resolve(SYNTHETIC, None, [*SMALL, *STILL]), SyntheticSpec())
    rollout = item.rollout
    collect = item.collector.collect

    def forgetful(*arguments):
        collect(*arguments)
        rollout.hidden[1].zero_()
        return True

    monkeypatch.setattr(item.collector, "collect", forgetful)
    first, second = item.ratio_errors()
    assert first < 1e-5 < second


def test_a_chunk_without_decisions_has_no_error():
    """At the end of a rollout of a game in turns."""
    short = ["environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=2", "network.encoder_sizes=[8]"]
    errors = Bench(resolve("openspiel:leduc_poker", None, short), SyntheticSpec()).ratio_errors()
    assert len(errors) == 8
    assert errors[-1] == 0.0
    assert max(errors) < 1e-5


@pytest.mark.parametrize(("device", "waited"), [("cuda:1", ["cuda:1"]), ("cuda", ["cuda"]), ("cpu", [])])
def test_timing_waits_for_the_gpu_of_the_run(device, waited, monkeypatch):
    devices = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: devices.append(str(device)))
    bench._settling(resolve("rps", None, [f"run.device={device}"]))()
    assert devices == waited
