"""The native way to the loss, held to torch's: loss, figures and gradients, whatever the heads and their masks."""

from dataclasses import replace

import pytest
import torch
from refused import refused

from arena.environments.spec import ActionHead, HeadKind
from arena.policies import PackedRuns, RecurrentState
from arena.policies.nn.distributions import ActionDistribution, ActionLayout
from trainer.config.schema import OptimizerSettings, PPOSettings
from trainer.ppo.loss import PolicyEvaluation, PPOLoss
from trainer.ppo.ppo import PPO
from trainer.ppo.sequences import SequenceBatch

loss_kernel = pytest.importorskip("trainer.ppo.native.loss_kernel")

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 3, masked=False),
    ActionHead("aim", HeadKind.GAUSSIAN, 2, masked=True),
    ActionHead("switch", HeadKind.BERNOULLI, 3, masked=True),
    ActionHead("jump", HeadKind.BERNOULLI, 1, masked=False),
    ActionHead("choice", HeadKind.CATEGORICAL, 5, masked=True),
    ActionHead("gear", HeadKind.CATEGORICAL, 4, masked=False),
    ActionHead("only", HeadKind.CATEGORICAL, 1, masked=False),
)
SETTINGS = [
    {},
    {"clip_range_vf": 0.3},
    {"huber_delta": 0.5},
    {"clip_range_vf": 0.2, "huber_delta": 0.4, "clip_coef": 0.05},
]


class Case:
    """Decisions of a layout, some of them without loss, and what the present weights say of them."""

    def __init__(self, seed=0, heads=HEADS, decisions=61, idle=9, scale=1.0, moved=0.1, **settings):
        rng = torch.Generator().manual_seed(seed)
        self.layout, self.settings = ActionLayout(heads), PPOSettings(**settings)
        rows = decisions + idle
        self.parameters = (scale * torch.randn(rows, self.layout.parameter_size, generator=rng)).requires_grad_()
        self.value = torch.randn(rows, generator=rng).requires_grad_()
        self.log_std = (torch.rand(self.layout.log_std_size, generator=rng) - 1.0).requires_grad_()
        self.weights = torch.rand(len(heads) + 1, generator=rng)
        order = torch.randperm(rows, generator=rng)[:decisions].sort().values
        loss_mask = torch.zeros(rows, dtype=torch.bool).index_fill(0, order, True)
        loss_index = order if idle else None
        mask = torch.rand(decisions, self.layout.mask_size, generator=rng) < 0.4  # often nothing, or one option
        acted = ActionDistribution(self.layout, self.parameters.detach()[order], self.log_std.detach(), mask)
        raw = acted.sample(rng)
        entropy_noise = self.layout.draw_entropy_noise((decisions,), rng)
        old_value, advantage, returns = torch.randn(3, decisions, generator=rng)
        self.batch = SequenceBatch(
            observation=torch.zeros(rows, 1),
            state=RecurrentState(torch.zeros(rows, 0), torch.zeros(rows, 0)),
            runs=PackedRuns.of(torch.ones(rows, dtype=torch.long), 1),
            loss_mask=loss_mask,
            loss_index=loss_index,
            index=order,
            noise=entropy_noise,
            action_mask=mask,
            raw_action=raw,
            log_prob=acted.log_prob(raw) + moved * torch.randn(decisions, len(heads), generator=rng),
            old_value=old_value,
            advantage=advantage,
            returns=returns,
        )

    @property
    def leaves(self):
        return self.parameters, self.value, self.log_std

    def native(self):
        compute = loss_kernel.NativeLoss(self.settings, self.layout)
        return self._found(compute(*self.leaves, self.batch, self.weights))

    def plain(self):
        batch, parameters, value = self.batch, self.parameters, self.value
        if batch.loss_index is not None:
            parameters, value = parameters[batch.loss_index], value[batch.loss_index]
        distribution = ActionDistribution(self.layout, parameters, self.log_std, batch.action_mask)
        evaluation = PolicyEvaluation(
            log_ratio=distribution.log_prob(batch.raw_action) - batch.log_prob,
            head_has_choice=self.layout.head_has_choice(batch.action_mask),
            entropy=distribution.entropy_from(batch.noise),
            value=value,
            old_value=batch.old_value,
            advantage=batch.advantage,
            returns=batch.returns,
            index=batch.index,
        )
        return self._found(PPOLoss(self.settings, self.layout, torch.device("cpu")).compute(evaluation, self.weights))

    def _found(self, given):
        """Loss, figures and the gradients of twice the loss."""
        for leaf in self.leaves:
            leaf.grad = None
        (2.0 * given.loss).backward()
        gradients = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in self.leaves]
        return [given.loss.detach(), given.metrics.row, *gradients]


def assert_same(case, rtol=1e-5):
    for one, other in zip(case.native(), case.plain(), strict=True):
        torch.testing.assert_close(one, other, equal_nan=True, rtol=rtol, atol=1e-6)


def is_finite(found):
    """What keeps an update from a step where it is not."""
    loss, _, *gradients = found
    return bool(loss.isfinite()) and all(bool(gradient.isfinite().all()) for gradient in gradients)


@pytest.mark.holds("A4", "E1", "E6")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_native_loss_equals_torch_for_all_head_kinds_and_masks(seed, settings):
    case = Case(seed, **settings)
    assert_same(case)
    assert is_finite(case.native())
    assert all(bool(leaf.grad.any()) for leaf in case.leaves)


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.name)
@pytest.mark.parametrize("decisions", [1, 15, 16, 17, 33])
def test_native_loss_equals_torch_for_single_heads_and_any_number_of_samples(head, decisions):
    assert_same(Case(decisions, (head,), decisions, idle=decisions % 2))


@pytest.mark.parametrize("scale", [10.0, 1e4])
@pytest.mark.parametrize("moved", [1e-3, 30.0])
def test_native_loss_equals_torch_for_extreme_parameters_and_ratios(scale, moved):
    """Saturated actions, certain choices, and ratios far beyond what is exponentiated.

    Log-probabilities are in the hundreds: rounding of these is in every ratio.
    """
    case = Case(3, decisions=200, scale=scale, moved=moved, clip_range_vf=0.2)
    assert_same(case, rtol=1e-3)
    assert is_finite(case.native())


def test_native_kl_is_precise_for_small_log_ratios():
    """Of log-ratios around 1e-4 the divergence is around 1e-9: rounding of the ratio alone would hide it."""
    case = Case(4, HEADS[:1], moved=1e-4)
    found, expected = (each()[1] for each in (case.native, case.plain))
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-11)


def test_head_without_samples_has_nan_metrics_and_no_gradient():
    case = Case(5, HEADS[2:3])
    case.batch = replace(case.batch, action_mask=torch.zeros_like(case.batch.action_mask))
    assert_same(case)
    loss, metrics, of_parameters, *_ = case.native()
    assert metrics.isnan().sum() == 3
    assert loss.isfinite()
    assert not of_parameters.any()


@pytest.mark.parametrize("name", ["parameters", "value", "log_std"])
def test_nan_in_network_outputs_reaches_the_loss_or_gradient(name):
    case = Case(6, clip_range_vf=0.2, huber_delta=0.3)
    with torch.no_grad():
        getattr(case, name)[1 if name == "log_std" else int(case.batch.index[5])] = torch.nan
    assert is_finite(case.native()) is is_finite(case.plain()) is False


@pytest.mark.parametrize("name", ["raw_action", "log_prob", "noise", "old_value", "advantage", "returns"])
def test_nan_in_samples_reaches_the_loss_and_the_same_metrics(name):
    case = Case(7, HEADS[:4], clip_range_vf=0.2)
    getattr(case.batch, name)[40] = torch.nan
    native, plain = case.native(), case.plain()
    assert is_finite(native) is is_finite(plain) is False
    torch.testing.assert_close(native[1], plain[1], equal_nan=True, rtol=1e-5, atol=1e-6)


def test_native_loss_rejects_wrong_shapes():
    case = Case(8)
    short = case.value[:-1]
    with refused("invalid-input", "torch.float32", "(69,)", 2, "(70,)"):
        loss_kernel.NativeLoss(case.settings, case.layout).run(
            case.parameters, short, case.log_std, case.batch, case.weights
        )


@pytest.mark.parametrize("options", [{}, {"burn_in": 2}, {"micro_batch_size": 5}])
def test_update_with_the_native_loss_equals_torch(play, never, monkeypatch, options):
    def learn():
        played = play((2, 2), ppo={"num_minibatches": 2, **options})
        metrics = [played.learner.learn(played.collect(), never) for _ in range(2)]
        return played.learner, metrics[-1]

    native, metrics = learn()
    monkeypatch.setattr(PPO, "_native_loss", lambda ppo: None)
    plain, expected = learn()
    assert plain.ppo._compute_loss == plain.ppo._plain_loss
    assert native.ppo._compute_loss != native.ppo._plain_loss
    for name, tensor in plain.network.named_parameters():
        torch.testing.assert_close(native.network.get_parameter(name), tensor, rtol=1e-4, atol=1e-6)
    assert metrics == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_native_loss_runs_only_in_float32_on_a_cpu(play):
    ppo, network = (played := play()).learner.ppo, played.learner.network
    assert ppo._native_loss() is not None
    network.double()
    assert ppo._native_loss() is None
    on_a_device = PPO(network.float().to("meta"), PPOSettings(), OptimizerSettings(), torch.Generator())
    assert on_a_device._native_loss() is None
