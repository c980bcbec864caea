import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena.environments.base import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.policies.nn.distributions import ILLEGAL_LOGIT, ActionDistribution, ActionLayout, log_squash_slope

MOVE = ActionHead("move", HeadKind.GAUSSIAN, 2, masked=True)
TRIGGER = ActionHead("trigger", HeadKind.BERNOULLI, 3, masked=True)
TARGET = ActionHead("target", HeadKind.CATEGORICAL, 5, masked=True)
MIXED = ActionLayout((MOVE, TRIGGER, TARGET))


@pytest.fixture
def rng() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def gaussian(mean: torch.Tensor, std: float) -> ActionDistribution:
    """An unmasked gaussian head of one dimension for every mean (B,)."""
    layout = ActionLayout((ActionHead("move", HeadKind.GAUSSIAN, 1, masked=False),))
    return ActionDistribution(
        layout, mean.unsqueeze(-1), torch.tensor([math.log(std)]), torch.ones(len(mean), 0).bool()
    )


def categorical(logits: torch.Tensor, mask: torch.Tensor) -> ActionDistribution:
    layout = ActionLayout((ActionHead("target", HeadKind.CATEGORICAL, logits.shape[-1], masked=True),))
    return ActionDistribution(layout, logits, torch.zeros(0), mask)


def random_masks(rows: int, rng: torch.Generator) -> torch.Tensor:
    """Masks (rows, M) of MIXED with at least one legal target."""
    mask = torch.rand(rows, MIXED.mask_size, generator=rng) < 0.5
    mask[:, -1] |= ~mask[:, -TARGET.size :].any(dim=-1)
    return mask


def mixed(rows: int, rng: torch.Generator, scale: float = 3.0) -> ActionDistribution:
    parameters = scale * torch.randn(rows, MIXED.parameter_size, generator=rng)
    return ActionDistribution(MIXED, parameters, torch.tensor([-0.5, 0.3]), random_masks(rows, rng))


@pytest.mark.holds("A1")
@pytest.mark.parametrize("mean", [0.0, 3.0, 8.0])
def test_stored_action_keeps_its_log_probability_in_saturation(mean: float):
    u = torch.linspace(-12.0, 12.0, 481)
    policy = gaussian(torch.full_like(u, mean), 1.0)
    stored = policy.log_prob(u.unsqueeze(-1))

    again = gaussian(torch.full((1,), mean), 1.0).log_prob(u.view(-1, 1, 1)).squeeze(-1)
    exact = -0.5 * (u.double() - mean) ** 2 - 0.5 * math.log(2 * math.pi) - exact_slope(u.double())

    assert float((again - stored).abs().max()) < 1e-5
    torch.testing.assert_close(stored.squeeze(-1).double(), exact, rtol=1e-5, atol=1e-4)


def exact_slope(u: torch.Tensor) -> torch.Tensor:
    """ln(1 - tanh(u)^2) = -2 ln cosh(u) in double precision."""
    return -2.0 * (u.abs() + torch.log1p(torch.exp(-2.0 * u.abs())) - math.log(2.0))


@pytest.mark.holds("A2")
@given(st.floats(min_value=-20.0, max_value=20.0, width=32))
def test_squash_slope_is_accurate_and_has_a_finite_gradient(u: float):
    value = torch.tensor(u, requires_grad=True)

    slope = log_squash_slope(value)
    slope.backward()

    assert slope.item() == pytest.approx(exact_slope(torch.tensor(u, dtype=torch.float64)).item(), abs=1e-4)
    assert value.grad.item() == pytest.approx(-2.0 * math.tanh(u), abs=1e-5)


@pytest.mark.holds("A2")
@given(st.floats(min_value=-1.0, max_value=1.0, width=32), st.floats(min_value=-3.0, max_value=3.0, width=32))
def test_an_action_from_outside_has_a_finite_log_probability_and_gradient(action: float, mean: float):
    """Exactly +-1 included, where no raw value squashes to the action."""
    layout = ActionLayout((ActionHead("move", HeadKind.GAUSSIAN, 1, masked=False),))
    raw = layout.from_actions({"move": torch.tensor([[action]])})
    assert raw.isfinite().all()
    torch.testing.assert_close(layout.to_actions(raw)["move"], torch.tensor([[action]]), atol=1e-6, rtol=0.0)
    parameters = torch.tensor([[mean]], requires_grad=True)
    log_std = torch.tensor([-0.5], requires_grad=True)
    log_prob = ActionDistribution(layout, parameters, log_std, torch.ones(1, 0, dtype=torch.bool)).log_prob(raw)
    log_prob.sum().backward()
    for number in (log_prob, parameters.grad, log_std.grad):
        assert number.isfinite().all()


@pytest.mark.holds("A2")
def test_actions_of_every_head_come_back_from_their_raw_form(rng: torch.Generator):
    policy = mixed(100, rng)
    actions = MIXED.to_actions(policy.sample(rng))
    raw = MIXED.from_actions(actions)
    assert policy.log_prob(raw).isfinite().all()
    for name, again in MIXED.to_actions(raw).items():
        torch.testing.assert_close(again, actions[name], atol=1e-6, rtol=0.0)


@pytest.mark.holds("F1")
@pytest.mark.parametrize("chance", [0.0, 1.0 - 2.0**-24])
def test_no_draw_however_extreme_lets_an_illegal_option_win(chance: float, monkeypatch: pytest.MonkeyPatch):
    """A uniform draw of exactly 0 has no logarithm: without care the one legal option would lose to all others."""
    monkeypatch.setattr(torch, "rand", lambda *shape, **options: torch.full(shape, chance))
    mask = torch.tensor([[True, False, False], [False, False, True]])
    assert categorical(torch.zeros(2, 3), mask).sample(torch.Generator()).flatten().tolist() == [0.0, 2.0]


def test_chance_drawn_ahead_decides_as_chance_drawn_at_the_time():
    """Sampling is drawing noise and choosing by it, so that a whole chunk's can be drawn at once."""
    policy = mixed(50, torch.Generator().manual_seed(0))
    noise = MIXED.draw_noise((50,), torch.Generator().manual_seed(4))
    chosen = MIXED.sample_with_noise(policy.parameters, noise, MIXED.noise_scale(policy.log_std), policy.mask)
    assert torch.equal(chosen, policy.sample(torch.Generator().manual_seed(4)))


def test_squashed_density_integrates_to_one():
    action = torch.linspace(-1.0, 1.0, 200_001, dtype=torch.float64)[1:-1]
    policy = gaussian(torch.full((len(action),), 0.4), 0.6)

    density = policy.log_prob(torch.atanh(action).float().unsqueeze(-1)).squeeze(-1).double().exp()

    assert torch.trapezoid(density, action).item() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.holds("A3")
@pytest.mark.parametrize(
    ("mean", "std", "entropy"),
    [(0.0, 1.0, 0.670), (0.0, 0.6065, 0.599), (0.0, 2.0, -0.002), (2.0, 1.0, -1.368), (4.0, 1.0, -5.20)],
)
def test_entropy_is_that_of_the_squashed_distribution(mean: float, std: float, entropy: float, rng: torch.Generator):
    policy = gaussian(torch.full((400_000,), mean), std)

    estimate = policy.entropy(rng).mean().item()

    assert estimate == pytest.approx(entropy, abs=0.015)
    assert estimate == pytest.approx(-policy.log_prob(policy.sample(rng)).mean().item(), abs=0.02)


@pytest.mark.holds("A4", "S5")
def test_entropy_bonus_moves_the_mean_and_the_spread(rng: torch.Generator):
    mean = torch.full((400_000,), 1.5, requires_grad=True)
    log_std = torch.zeros(1, requires_grad=True)
    policy = gaussian(mean, 1.0)
    policy = ActionDistribution(policy.layout, policy.parameters, log_std, policy.mask)

    policy.entropy(rng).sum(dim=-1).mean().backward()

    assert mean.grad.sum().item() == pytest.approx(-1.48, abs=0.01)
    assert abs(log_std.grad.item() - 1.0) > 0.2, "the squash must be felt by the spread"


@pytest.mark.holds("A5")
def test_unsquashed_directions_of_the_log_std_are_independent(rng: torch.Generator):
    log_std = torch.tensor([-0.5, 0.3], requires_grad=True)
    policy = mixed(50, rng)
    policy = ActionDistribution(MIXED, policy.parameters, log_std, policy.mask.clone())
    policy.mask[:, 0], policy.mask[:, 1] = True, False

    policy.log_prob(policy.sample(rng).detach())[:, 0].sum().backward()

    assert log_std.grad[0].item() != 0.0
    assert log_std.grad[1].item() == 0.0


@pytest.mark.holds("A6")
@given(st.lists(st.floats(-30.0, 30.0, width=32), min_size=5, max_size=5), st.integers(1, 31))
def test_probabilities_of_the_options_sum_to_one_and_illegal_ones_have_none(logits: list[float], legal: int):
    mask = torch.tensor([[bool(legal >> k & 1) for k in range(5)]]).expand(5, 5)
    policy = categorical(torch.tensor([logits]).expand(5, 5), mask)

    probability = policy.log_prob(torch.arange(5.0).unsqueeze(-1)).squeeze(-1).exp()

    assert probability.sum().item() == pytest.approx(1.0, abs=1e-5)
    assert float(probability[~mask[0]].sum()) == 0.0


def test_switches_have_the_probabilities_of_their_logits():
    logits = torch.tensor([[-20.0, 0.0, 1.5]])
    mask = torch.ones(1, MIXED.mask_size, dtype=torch.bool)
    parameters = torch.cat([torch.zeros(1, 2), logits, torch.zeros(1, 5)], dim=-1)
    policy = ActionDistribution(MIXED, parameters, torch.zeros(2), mask)

    total = 0.0
    for switches in itertools.product((0.0, 1.0), repeat=3):
        raw = torch.tensor([[0.0, 0.0, *switches, 0.0]])
        chance = math.prod(
            (p if on else 1.0 - p) for p, on in zip(torch.sigmoid(logits)[0].tolist(), switches, strict=True)
        )
        log_prob = policy.log_prob(raw)[0, 1].item()
        assert math.exp(log_prob) == pytest.approx(chance, abs=1e-6)
        total += math.exp(log_prob)
    assert total == pytest.approx(1.0, abs=1e-5)


@pytest.mark.holds("F1")
def test_illegal_actions_are_never_sampled(rng: torch.Generator):
    rows = 200_000
    policy = mixed(rows, rng, scale=20.0)
    target_mask = policy.mask[:, -TARGET.size :]
    for _ in range(5):  # 10^6 samples
        actions = MIXED.to_actions(policy.sample(rng))
        assert bool(target_mask.gather(1, actions["target"].unsqueeze(1)).all())
        assert not bool((actions["trigger"] & ~policy.mask[:, 2:5]).any())


@pytest.mark.holds("F2")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_masks_hold_in_half_precision(dtype: torch.dtype, rng: torch.Generator):
    """Whatever precision logits come in, everything made of them is that of single precision."""
    mask = torch.rand(5000, 6, generator=rng) < 0.3
    mask[:, 0] |= ~mask.any(dim=-1)
    logits = (100.0 * torch.randn(5000, 6, generator=rng)).to(dtype)
    policy, single = categorical(logits, mask), categorical(logits.float(), mask)

    chosen, expected = (each.sample(torch.Generator().manual_seed(4)) for each in (policy, single))
    options = torch.arange(6.0).expand(5000, 6).unbind(dim=1)
    chances, known = (
        torch.cat([each.log_prob(option.unsqueeze(1)) for option in options], dim=1).exp() for each in (policy, single)
    )

    assert bool(mask.gather(1, chosen.long()).all())
    assert torch.equal(chosen, expected)
    assert torch.equal(chances, known)
    assert chances[~mask].max().item() == 0.0
    assert torch.equal(policy.entropy(rng), single.entropy(rng))
    assert bool(policy.entropy(rng).isfinite().all())
    assert bool(torch.tensor(ILLEGAL_LOGIT, dtype=dtype).isfinite())


def test_samples_follow_the_probabilities(rng: torch.Generator):
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0]).expand(200_000, 4)
    mask = torch.tensor([True, True, False, True]).expand(200_000, 4)

    chosen = categorical(logits, mask).sample(rng).long().flatten()

    expected = torch.softmax(torch.tensor([0.0, 1.0, -math.inf, 2.0]), dim=0)
    torch.testing.assert_close(torch.bincount(chosen, minlength=4) / 200_000, expected, atol=5e-3, rtol=0.0)


@pytest.mark.holds("F3")
@pytest.mark.parametrize("legal", range(1, 6))
def test_entropy_of_options_is_a_share_of_the_most_that_the_legal_ones_can_have(legal: int, rng: torch.Generator):
    mask = torch.arange(5).unsqueeze(0) < legal
    weights = torch.tensor([0.5, 0.2, 0.1, 0.1, 0.1])

    equal, uneven = (
        categorical(logits.unsqueeze(0), mask).entropy(rng).item() for logits in (weights * 0, weights.log())
    )

    shares = (weights[:legal] / weights[:legal].sum()).tolist()
    nats = -sum(share * math.log(share) for share in shares)
    assert equal == (pytest.approx(1.0, abs=1e-6) if legal > 1 else 0.0)
    assert uneven == pytest.approx(nats / math.log(max(legal, 2)), abs=1e-6)


@pytest.mark.holds("F3")
@pytest.mark.parametrize("size", [1, 2, 5])
def test_entropy_of_an_unmasked_choice_counts_all_options(size: int, rng: torch.Generator):
    layout = ActionLayout((ActionHead("choice", HeadKind.CATEGORICAL, size, masked=False),))
    policy = ActionDistribution(layout, torch.zeros(1, size), torch.zeros(0), torch.ones(1, 0).bool())

    assert policy.entropy(rng).item() == pytest.approx(1.0 if size > 1 else 0.0, abs=1e-6)


@pytest.mark.holds("F3")
def test_a_choice_of_one_has_neither_log_probability_nor_entropy_nor_gradient(rng: torch.Generator):
    """Whatever the network says: nothing of it may reach the loss, not even rounding."""
    logits = (30.0 * torch.randn(200, 5, generator=rng)).requires_grad_()
    only = torch.randint(5, (200,), generator=rng)
    policy = categorical(logits, torch.nn.functional.one_hot(only, 5).bool())
    raw = policy.sample(rng).detach()

    log_prob, entropy = policy.log_prob(raw), policy.entropy(rng)
    (log_prob + entropy).sum().backward()

    assert torch.equal(raw.squeeze(-1).long(), only)
    assert log_prob.abs().max() == entropy.abs().max() == logits.grad.abs().max() == 0.0


def test_switches_and_directions_count_one_by_one_and_those_that_do_not_matter_for_nothing(rng: torch.Generator):
    """At any place of a batch with several axes."""
    policy, noise = mixed(30, rng), torch.Generator()
    raw = policy.sample(rng)
    one_by_one = torch.zeros(30, 2), torch.zeros(30, 2)
    for option in range(MOVE.size + TRIGGER.size):
        alone = policy.mask.clone()
        alone[:, : MOVE.size + TRIGGER.size] = False
        alone[:, option] = policy.mask[:, option]
        part = ActionDistribution(MIXED, policy.parameters, torch.tensor([-0.5, 0.3]), alone)
        for total, each in zip(one_by_one, (part.log_prob(raw), part.entropy(noise.manual_seed(1))), strict=True):
            total += each[:, :2]

    torch.testing.assert_close(policy.log_prob(raw)[:, :2], one_by_one[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(policy.entropy(noise.manual_seed(1))[:, :2], one_by_one[1], rtol=1e-5, atol=1e-5)
    shaped = ActionDistribution(
        MIXED, policy.parameters.view(5, 6, -1), torch.tensor([-0.5, 0.3]), policy.mask.view(5, 6, -1)
    )
    torch.testing.assert_close(shaped.log_prob(raw.view(5, 6, -1)).flatten(0, 1), policy.log_prob(raw))


def test_only_a_masked_choice_can_leave_no_option():
    mask = torch.tensor([[False] * MIXED.mask_size, [False] * (MIXED.mask_size - 1) + [True]])

    assert MIXED.no_legal_option(mask).tolist() == [[False, False, True], [False] * 3]
    unmasked = ActionLayout((ActionHead("choice", HeadKind.CATEGORICAL, 3, masked=False),))
    assert not unmasked.no_legal_option(torch.ones(4, 0).bool()).any()


@pytest.mark.holds("F5")
def test_inactive_heads_add_no_log_prob_and_no_gradient(rng: torch.Generator):
    parameters = torch.randn(64, MIXED.parameter_size, generator=rng, requires_grad=True)
    mask = torch.zeros(64, MIXED.mask_size, dtype=torch.bool)
    mask[:, 1] = mask[:, 3] = mask[:, -1] = True
    policy = ActionDistribution(MIXED, parameters, torch.zeros(2), mask)

    (policy.log_prob(policy.sample(rng).detach()) + policy.entropy(rng)).sum().backward()

    touched = parameters.grad.abs().sum(dim=0) > 0.0
    assert touched.tolist() == [False, True, False, True, False, *[False] * 5]
    assert MIXED.head_has_choice(mask)[0].tolist() == [True, True, False]


def test_log_probability_is_the_same_whatever_the_batch_around_it(rng: torch.Generator):
    policy = mixed(40, rng)
    raw = policy.sample(rng)

    whole = policy.log_prob(raw)
    parts = [
        ActionDistribution(MIXED, policy.parameters[i : i + 1], policy.log_std, policy.mask[i : i + 1])
        for i in range(40)
    ]

    alone = torch.cat([part.log_prob(raw[i : i + 1]) for i, part in enumerate(parts)])
    torch.testing.assert_close(alone, whole, rtol=0.0, atol=1e-5)


def test_same_generator_gives_the_same_sample(rng: torch.Generator):
    policy = mixed(30, rng)

    first, second, other = (policy.sample(torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))

    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_environment_actions_are_in_their_ranges(rng: torch.Generator):
    actions = MIXED.to_actions(mixed(1000, rng, scale=30.0).sample(rng))

    assert float(actions["move"].abs().max()) <= 1.0
    assert actions["move"].shape == (1000, 2)
    assert actions["trigger"].dtype is torch.bool
    assert actions["target"].dtype is torch.int64
    assert set(actions["target"].tolist()) == set(range(5))


def test_masks_are_packed_in_the_order_of_the_heads():
    masks = {
        "target": torch.zeros(2, 5, dtype=torch.bool),
        "move": torch.ones(2, 2, dtype=torch.bool),
        "trigger": torch.tensor([[True, False, True]] * 2),
    }

    packed = MIXED.pack_masks(Observation(torch.zeros(2, 1), masks, torch.ones(2, dtype=torch.bool)))

    assert packed[0].tolist() == [True, True, True, False, True, *[False] * 5]
    unmasked = ActionLayout((ActionHead("choice", HeadKind.CATEGORICAL, 3, masked=False),))
    bare = Observation(torch.zeros(4, 2, 1), {}, torch.ones(4, 2, dtype=torch.bool))
    assert unmasked.pack_masks(bare).shape == (4, 2, 0)


@pytest.mark.holds("A6")
def test_policy_gradient_finds_the_option_that_pays(rng: torch.Generator):
    logits = torch.zeros(TARGET.size, requires_grad=True)
    optimiser = torch.optim.Adam([logits], lr=0.1)
    mask = torch.tensor([True, True, True, True, False]).expand(64, 5)
    for _ in range(100):
        policy = categorical(logits.expand(64, 5), mask)
        raw = policy.sample(rng)
        reward = (raw.squeeze(-1) == 2.0).float()
        loss = -(policy.log_prob(raw).squeeze(-1) * (reward - reward.mean())).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    assert torch.softmax(logits.where(mask[0], -math.inf), dim=0)[2].item() > 0.95


def test_heads_that_are_evaluated_together_equal_each_by_itself(rng: torch.Generator):
    kinds = [(HeadKind.GAUSSIAN, True, 2), (HeadKind.CATEGORICAL, True, 3), (HeadKind.GAUSSIAN, True, 4)]
    kinds += [(HeadKind.BERNOULLI, True, 2), (HeadKind.CATEGORICAL, True, 5), (HeadKind.BERNOULLI, False, 1)]
    kinds += [(HeadKind.CATEGORICAL, False, size) for size in (4, 4, 3)]
    heads = [ActionHead(str(number), kind, size, masked=masked) for number, (kind, masked, size) in enumerate(kinds)]
    layout = ActionLayout(tuple(heads))
    assert [[part.head.name for part in group] for group in layout.groups] == [
        ["0", "2"], ["1", "4"], ["3"], ["5"], ["6", "7"], ["8"]
    ]  # fmt: skip
    parameters, log_std = torch.randn(50, layout.parameter_size, generator=rng), torch.randn(6, generator=rng)
    mask = torch.rand(50, layout.mask_size, generator=rng) < 0.5
    for part in layout.parts:
        if part.head.masked:
            mask[:, part.mask.start] = True
    together = ActionDistribution(layout, parameters, log_std, mask)
    raw, noise = together.sample(rng), torch.randn(50, 6, generator=rng)
    log_prob, entropy = together.log_prob_and_entropy(raw, noise)
    for number, part in enumerate(layout.parts):
        own = [parameters[:, part.parameters], log_std[part.log_std], mask[:, part.mask]]
        alone = ActionDistribution(ActionLayout((part.head,)), *own)
        expected = alone.log_prob_and_entropy(raw[:, part.raw], noise[:, part.log_std])
        for found, column in zip((log_prob, entropy), expected, strict=True):
            torch.testing.assert_close(found[:, number], column.squeeze(1))
