import math

import pytest
import torch

from trainer.ppo.update_metrics import MetricAccumulator


def test_values_are_averaged_name_by_name():
    tally = MetricAccumulator()
    for value in (1.0, 2.0, 6.0):
        tally.add("kl", torch.tensor(value))
    tally.add_each(["move", "speak"], torch.tensor([1.0, -1.0]))
    assert float(tally.latest("kl")) == 6.0
    assert tally.means() == pytest.approx({"kl": 3.0, "move": 1.0, "speak": -1.0})


def test_what_is_not_a_number_does_not_count_and_a_name_without_any_is_left_out():
    tally = MetricAccumulator()
    for move, speak in ((1.0, math.nan), (math.nan, math.nan), (3.0, math.nan)):
        tally.add_each(["move", "speak"], torch.tensor([move, speak]))
    assert tally.means() == {"move": 2.0}
    assert MetricAccumulator().means() == {}


def test_values_keep_no_graph():
    tally = MetricAccumulator()
    tally.add("loss", torch.ones((), requires_grad=True) * 2.0)
    assert not tally.latest("loss").requires_grad
