import math
import weakref

import pytest
import torch

from trainer.ppo.update_metrics import MetricAccumulator


def test_values_are_averaged_per_name():
    accumulator = MetricAccumulator()
    for value in (1.0, 2.0, 6.0):
        accumulator.add("kl", torch.tensor(value))
    accumulator.add_each(["move", "speak"], torch.tensor([1.0, -1.0]))
    assert accumulator.means() == pytest.approx({"kl": 3.0, "move": 1.0, "speak": -1.0})


def test_nan_values_are_ignored_and_names_without_a_value_are_omitted():
    accumulator = MetricAccumulator()
    for move, speak in ((1.0, math.nan), (math.nan, math.nan), (3.0, math.nan)):
        accumulator.add_each(["move", "speak"], torch.tensor([move, speak]))
    assert accumulator.means() == {"move": 2.0}
    assert MetricAccumulator().means() == {}


def test_accumulated_values_hold_no_graph():
    accumulator, weight = MetricAccumulator(), torch.ones((), requires_grad=True)
    loss = weight * 2.0
    graph = weakref.ref(loss)
    accumulator.add("loss", loss)
    del loss
    assert graph() is None
