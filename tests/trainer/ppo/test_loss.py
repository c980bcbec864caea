import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.ppo.loss import (
    approx_kl,
    clipped_surrogate_loss,
    explained_variance,
    is_clipped,
    is_ratio_outlier,
    masked_mean,
    probability_ratio,
    value_loss,
)


@pytest.mark.holds("E1")
@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    [
        (0.5, 1.0, -0.5),
        (0.9, 1.0, -0.9),
        (1.0, 1.0, -1.0),
        (1.1, 1.0, -1.1),
        (1.5, 1.0, -1.2),
        (3.0, 1.0, -1.2),
        (0.5, -1.0, 0.8),
        (0.9, -1.0, 0.9),
        (1.0, -1.0, 1.0),
        (1.1, -1.0, 1.1),
        (1.5, -1.0, 1.5),
        (3.0, -1.0, 3.0),
    ],
)
def test_surrogate_clips_only_improvements(ratio, advantage, expected):
    loss = clipped_surrogate_loss(torch.tensor([ratio]), torch.tensor([advantage]), 0.2)
    assert loss.item() == pytest.approx(expected)


@pytest.mark.holds("E5", "S7")
@given(st.floats(-1e3, 1e3))
def test_kl_estimate_is_finite_and_never_negative_up_to_rounding(log_ratio):
    estimate = approx_kl(torch.tensor([log_ratio], dtype=torch.float64)).item()
    assert math.isfinite(estimate)
    if abs(log_ratio) <= 20.0:
        assert estimate >= -1e-12


def test_kl_estimate_is_precise_for_small_log_ratios_in_float32():
    log_ratio = torch.linspace(-1e-4, 1e-4, 1001)
    estimate = approx_kl(log_ratio)
    assert (estimate >= 0.0).all()
    assert estimate.mean().item() == pytest.approx((log_ratio.square() / 2).mean().item(), rel=0.01)


@pytest.mark.holds("E5")
def test_kl_estimate_by_hand():
    ratio = torch.tensor([2.0]).log()
    assert approx_kl(ratio).item() == pytest.approx(1.0 - math.log(2.0))


@pytest.mark.holds("E7")
def test_huge_log_ratios_give_finite_ratios():
    assert torch.isfinite(probability_ratio(torch.tensor([1e6, -1e6]))).all()


def test_masked_mean_ignores_masked_entries():
    values = torch.tensor([[1.0, 5.0], [3.0, 7.0], [99.0, 9.0]])
    mask = torch.tensor([[True, False], [True, False], [False, False]])
    assert masked_mean(values, mask).tolist() == [2.0, 0.0]


@pytest.mark.holds("E6")
@given(st.integers(0, 5))
def test_masked_mean_does_not_depend_on_padding(extra):
    values, mask = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([True, True, False])
    padded = torch.cat([values, torch.full((extra,), float("nan"))])
    padded_mask = torch.cat([mask, torch.zeros(extra, dtype=torch.bool)])
    assert masked_mean(padded, padded_mask).item() == masked_mean(values, mask).item()


def errors(value, target, old=None, clip=0.0, huber=0.0):
    value, target = torch.tensor(value), torch.tensor(target)
    return value_loss(value, target, value if old is None else torch.tensor(old), clip=clip, huber=huber)


def test_value_loss_is_half_the_squared_error():
    assert errors([3.0], [1.0]).item() == 2.0


@pytest.mark.holds("E2", "S8")
def test_value_clip_takes_the_larger_error_sample_by_sample():
    """One sample gains by moving too far, the other loses: the mean of the larger is not the larger mean."""
    value, target, old = [1.0, 1.0], [1.0, 3.0], [0.0, 2.0]
    plain, clipped_alone = [0.0, 2.0], [0.5 * 0.5**2, 0.5 * 1.5**2]
    result = errors(value, target, old, clip=0.5)
    assert result.tolist() == pytest.approx([0.125, 2.0])
    assert result.mean().item() > max(sum(plain), sum(clipped_alone)) / 2


@pytest.mark.holds("E2")
def test_value_clip_ignores_small_changes():
    assert errors([1.1, -2.0], [5.0, 0.0], [1.0, -2.2], clip=0.3).tolist() == errors([1.1, -2.0], [5.0, 0.0]).tolist()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("value", "expected"), [(3.0, 0.5 * 3.75**2), (1.1, 0.5 * 3.9**2), (-3.0, 0.5 * 8.0**2)])
def test_value_clip_applies_in_both_directions(sign, value, expected):
    """A move towards the target counts up to the clip range, one away from it in full."""
    assert errors([sign * value], [sign * 5.0], [sign * 1.0], clip=0.25).item() == pytest.approx(expected)


@pytest.mark.holds("E3")
def test_huber_gradient_is_bounded_by_its_threshold():
    value = torch.tensor([100.0, 0.5, -100.0], requires_grad=True)
    error = value_loss(value, torch.zeros(3), value.detach(), clip=0.0, huber=2.0)
    assert error.tolist() == pytest.approx([2.0 * 99.0, 0.125, 2.0 * 99.0])
    error.sum().backward()
    assert value.grad.tolist() == pytest.approx([2.0, 0.5, -2.0])


@pytest.mark.holds("E7")
def test_clip_range_and_ratio_outliers():
    ratio = torch.tensor([0.05, 0.5, 0.9, 1.1, 1.3, 6.0])
    assert is_clipped(ratio, 0.2).tolist() == [True, True, False, False, True, True]
    assert is_ratio_outlier(ratio).tolist() == [True, False, False, False, False, True]


@pytest.mark.holds("L1")
def test_explained_variance_of_perfect_constant_and_wrong_predictions():
    actual = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explained_variance(actual, actual) == pytest.approx(1.0)
    assert explained_variance(torch.full((4,), 2.5), actual) == pytest.approx(0.0)
    assert explained_variance(-actual, actual) < 0.0


@pytest.mark.holds("L1")
@pytest.mark.parametrize("constant", [0.0, 7.3, 1e6])
def test_explained_variance_of_constant_returns_is_undefined(constant):
    assert explained_variance(torch.randn(5), torch.full((5,), constant)).isnan()


def test_explained_variance_without_samples_is_undefined():
    assert explained_variance(torch.empty(0), torch.empty(0)).isnan()
