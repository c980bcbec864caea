"""Rows of metrics: access by name, and combination over micro-batches."""

import torch

from trainer.ppo.update_metrics import MEANS, PER_HEAD, SINGLE, TOTALS, MinibatchMetrics


def metrics_of(per_head, **single):
    """Return metrics of two heads, 0 by default."""
    heads = [value for name in PER_HEAD for value in per_head.get(name, [0.0, 0.0])]
    return MinibatchMetrics(torch.tensor([*(single.get(name, 0.0) for name in SINGLE), *heads]))


def test_metrics_are_found_and_logged_by_name():
    row = metrics_of({"samples": [3.0, 4.0], "entropy": [0.5, 0.7]}, approx_kl=0.1, ratio_alarms=2.0)
    assert float(row.single("approx_kl")) == torch.tensor(0.1)
    assert row.per_head("entropy").tolist() == torch.tensor([0.5, 0.7]).tolist()
    named = dict(zip(MinibatchMetrics.names(["move", "aim"]), row.row.tolist(), strict=True))
    assert {name: value for name, value in named.items() if value} == {
        "losses/approx_kl": float(torch.tensor(0.1)),
        "losses/ratio_alarms": 2.0,
        "heads/move/samples": 3.0,
        "heads/aim/samples": 4.0,
        "heads/move/entropy": 0.5,
        "heads/aim/entropy": float(torch.tensor(0.7)),
    }


def test_samples_are_reduced_over_those_with_a_choice():
    two = torch.tensor([1.0, 3.0])
    single = dict.fromkeys((*MEANS, *TOTALS), two)
    heads = dict.fromkeys(PER_HEAD[1:], torch.stack([two, torch.tensor([float("nan"), 5.0]), two], dim=1))
    has_choice = torch.tensor([[True, False, False], [True, True, False]])
    row = MinibatchMetrics.of(torch.tensor(0.25), single, heads, has_choice)
    found = [row.single(name).item() for name in ("ratio_error", "value_loss", "ratio_alarms")]
    assert found == [0.25, 2.0, 4.0]
    assert row.per_head("samples").tolist() == [2.0, 1.0, 0.0]
    *means, never = row.per_head("entropy").tolist()
    assert (means, never == never) == ([2.0, 5.0], False)


def test_micro_batches_are_weighted_by_their_samples():
    nothing = float("nan")
    parts = [
        metrics_of(
            {"samples": [6.0, 0.0], "entropy": [1.0, nothing]}, ratio_error=0.5, value_loss=1.0, ratio_alarms=1.0
        ),
        metrics_of(
            {"samples": [2.0, 0.0], "entropy": [3.0, nothing]}, ratio_error=0.2, value_loss=5.0, ratio_alarms=2.0
        ),
    ]
    whole = MinibatchMetrics.combine(parts, [0.75, 0.25])
    assert [float(whole.single(name)) for name in ("ratio_error", "value_loss", "ratio_alarms")] == [0.5, 2.0, 3.0]
    assert whole.per_head("samples").tolist() == [8.0, 0.0]
    entropy, never = whole.per_head("entropy").tolist()
    assert (entropy, never == never) == (1.5, False)


def test_single_micro_batch_is_combined_bit_for_bit():
    part = metrics_of({"samples": [7.0, 3.0], "entropy": [0.1, 0.3]}, value_loss=0.7)
    assert torch.equal(MinibatchMetrics.combine([part], [1.0]).row, part.row)
