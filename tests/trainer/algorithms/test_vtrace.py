"""V-trace: its reductions, the definition as a sum, targets of later epochs, and a whole run."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from trainer.algorithms import make_algorithm
from trainer.algorithms.vtrace import VTrace, VTraceLoss, vtrace
from trainer.ppo.targets.gae import agent_transitions, masked_gae

STEPS, ROWS = 9, 4


def random_transitions(seed, *, turn_based=False):
    rng = torch.Generator().manual_seed(seed)

    def numbers(*shape):
        return torch.randn(shape, generator=rng)

    def flags(chance, *shape):
        return torch.rand(shape, generator=rng) < chance

    terminated = flags(0.1, STEPS, ROWS)
    truncated = flags(0.1, STEPS, ROWS) & ~terminated
    return agent_transitions(
        numbers(STEPS, ROWS),
        numbers(STEPS, ROWS),
        numbers(STEPS, ROWS),
        terminated,
        truncated,
        flags(0.7, STEPS, ROWS),
        numbers(ROWS),
        flags(0.7, ROWS),
        turn_based=turn_based,
        limit_decides=False,
    )


@given(st.integers(0, 1000), st.booleans(), st.sampled_from([0.0, 0.9, 1.0]))
def test_with_ratio_1_errors_and_advantages_are_those_of_gae(seed, turn_based, lam):
    transitions = random_transitions(seed, turn_based=turn_based)
    errors, advantages = vtrace(transitions, torch.ones(STEPS, ROWS), gamma=0.9, lam=lam)
    expected = masked_gae(transitions, gamma=0.9, lam=lam)
    torch.testing.assert_close(errors, expected)
    torch.testing.assert_close(advantages, expected)


@given(st.integers(0, 1000))
def test_errors_are_the_sum_in_the_paper(seed):
    """Espeholt et al. 2018, equation 1, with V-trace's products of c written out, in one endless episode."""
    rng = torch.Generator().manual_seed(seed)
    gamma, clip_rho, clip_c = 0.8, 1.5, 1.2
    transitions = random_transitions(seed)
    never = torch.zeros_like(transitions.terminated)
    following = torch.cat([transitions.value[1:], transitions.next_value[-1:]])
    transitions = replace(transitions, terminated=never, episode_end=never, next_value=following)
    ratio = torch.rand(STEPS, ROWS, generator=rng) * 3.0
    errors, advantages = vtrace(transitions, ratio, gamma=gamma, lam=1.0, clip_rho=clip_rho, clip_c=clip_c)

    delta = ratio.clamp(max=clip_rho) * (transitions.reward + gamma * following - transitions.value)
    for s in range(STEPS):
        expected = sum(gamma ** (t - s) * ratio[s:t].clamp(max=clip_c).prod(dim=0) * delta[t] for t in range(s, STEPS))
        torch.testing.assert_close(errors[s], expected)
    target = torch.cat([transitions.value + errors, following[-1:]])
    torch.testing.assert_close(advantages, transitions.reward + gamma * target[1:] - transitions.value)


def test_an_action_of_probability_0_has_no_error_and_cuts_the_recursion():
    transitions = random_transitions(3)
    ratio = torch.ones(STEPS, ROWS)
    ratio[4] = 0.0
    errors, _ = vtrace(transitions, ratio, gamma=0.9, lam=1.0)
    assert torch.equal(errors[4], torch.zeros(ROWS))


def test_the_gradient_of_the_policy_is_that_of_log_pi_times_the_truncated_ratio(play):
    learner = play().learner
    loss = VTraceLoss(1.0, learner.config.ppo, learner.network.layout, torch.device("cpu"))
    log_ratio = torch.tensor([0.0, 1.0, -1.0], requires_grad=True)
    advantage = torch.tensor([2.0, 3.0, -4.0])
    loss.policy_loss(log_ratio, log_ratio.exp(), advantage).sum().backward()
    torch.testing.assert_close(log_ratio.grad, -advantage * torch.tensor([1.0, 1.0, torch.e**-1]))


def test_an_epoch_with_unchanged_weights_has_the_targets_of_the_first(play, never):
    """From the second update on: before the first one the critic's values are not used."""
    played = play(algorithm={"name": "vtrace"})
    learner = make_algorithm(played.learner.config, played.game.spec)
    assert isinstance(learner, VTrace)
    learner.learn(played.collect(), never)
    played.learner.network.load_state_dict(learner.network.state_dict())
    rollout = played.collect()
    transitions = learner.target_builder.scaled_transitions(rollout)
    targets, _ = learner.target_builder.build(transitions, rollout, learner.network.critic)
    again = learner._corrected_targets(rollout, transitions, targets, None)
    assert targets.valid.any()
    torch.testing.assert_close(again.advantage[targets.valid], targets.advantage[targets.valid], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(again.returns[targets.valid], targets.returns[targets.valid], rtol=1e-4, atol=1e-4)


def test_every_epoch_sees_the_policy_of_the_one_before(play, never, monkeypatch):
    played = play(algorithm={"name": "vtrace"}, ppo={"update_epochs": 3, "target_kl": 100.0})
    learner = make_algorithm(played.learner.config, played.game.spec)
    seen, corrected = [], learner._corrected_targets

    def record(*args):
        seen.append(learner.network.state_dict()["critic.weight"].clone())
        return corrected(*args)

    monkeypatch.setattr(learner, "_corrected_targets", record)
    metrics = learner.learn(played.collect(), never)
    assert len(seen) == 2
    assert not torch.equal(*seen)
    assert metrics["losses/first_ratio_error"] is not None
    assert metrics["losses/rejected_steps"] == 0.0


def test_update_stops_after_the_epoch_beyond_the_kl_limit(play, never, monkeypatch):
    played = play(algorithm={"name": "vtrace"}, ppo={"update_epochs": 3, "target_kl": 1e-12})
    learner = make_algorithm(played.learner.config, played.game.spec)
    monkeypatch.setattr(learner, "_corrected_targets", pytest.fail)
    assert learner.learn(played.collect(), never)["losses/kl_stop"] == 1.0


@pytest.mark.parametrize("options", [{"clip_rho": 0.5}, {"clip_c": 2.0}, {"clip_rho": 2.0, "clip_c": 0.9}])
def test_truncation_levels_are_refused_outside_their_range(play, options):
    played = play()
    with refused("invalid-setting", 1, "clip_c", "clip_rho"):
        VTrace(played.learner.config, played.game.spec, **options)
