import pytest

from trainer.bench import SYNTHETIC, Bench, WorkItem
from trainer.config import resolve

SMALL = ["environment.num_envs=8", "rollout.steps=32", "network.encoder_sizes=[16]", "network.recurrent_size=16"]
STILL = ["schedules.learning_rate=0.0", "schedules.learning_rate_final=0.0"]


@pytest.mark.parametrize("environment", [SYNTHETIC, "recall"])
def test_a_measurement_counts_all_steps_of_rollout_and_update(environment):
    measured = Bench(resolve(environment, None, SMALL), WorkItem()).measure(1)
    assert measured.steps == 256
    assert measured.steps_per_s == pytest.approx(256 / (measured.rollout_s + measured.update_s))


@pytest.mark.parametrize("end_chance", [0.0, 0.05, 0.5])
def test_rollout_and_update_agree_in_every_chunk(end_chance):
    errors = Bench(resolve(SYNTHETIC, None, [*SMALL, *STILL]), WorkItem(end_chance=end_chance)).ratio_errors()
    assert len(errors) == 2
    assert max(errors) < 1e-5


def test_rollout_and_update_agree_on_teams_with_masks_on_every_kind_of_head():
    errors = Bench(resolve("mech-pack", None, [*SMALL, *STILL]), WorkItem()).ratio_errors()
    assert max(errors) < 1e-5


def test_a_state_that_is_lost_between_chunks_shows(monkeypatch):
    """The measure is worth something: it sees what it is there to see."""
    item = Bench(resolve(SYNTHETIC, None, [*SMALL, *STILL]), WorkItem())
    rollout = item._rollout
    collect = item._collector.collect

    def forgetful(*arguments):
        collect(*arguments)
        rollout.hidden[1].zero_()
        return True

    monkeypatch.setattr(item._collector, "collect", forgetful)
    first, second = item.ratio_errors()
    assert first < 1e-5 < second
