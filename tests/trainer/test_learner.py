"""From a rollout to what is learned from it."""

import pytest
import torch

from arena.policies import EncoderKind


def test_scales_are_logged_before_anything_is_normalised(play, never):
    """Without discount a return is its reward: what is logged can be worked out from rewards and values."""
    played = play(ppo={"gamma": 0.0, "gae_lambda": 0.0})
    played.learner.learn(played.collect(), never)
    rollout = played.collect()
    rollout.reward.mul_(5.0)
    value = played.learner._values.denormalise(rollout.value)
    targets, metrics = played.learner.targets(rollout)
    reward = played.learner._rewards.scale(rollout.reward)
    for name, samples in {"advantage": reward - value, "return": reward, "value": value, "reward": reward}.items():
        deviation, mean = torch.std_mean(samples, correction=0)
        assert metrics[f"scales/{name}_mean"] == pytest.approx(float(mean), rel=1e-4)
        assert metrics[f"scales/{name}_std"] == pytest.approx(float(deviation), rel=1e-4)
    assert targets.advantage.std(correction=0).item() == pytest.approx(1.0, rel=1e-4)
    assert abs(metrics["scales/advantage_std"] - 1.0) > 0.1


def test_rates_and_weights_follow_their_schedules_and_stay_at_the_end(play):
    learner = play(schedules={"horizon_steps": 100, "learning_rate": 4e-4, "learning_rate_final": 1e-4}).learner
    told = []
    for steps in (0, 50, 100, 1000):
        learner.steps = steps
        told.append((learner.coefficients().learning_rate, learner.coefficients().entropy))
    for now, expected in zip(told, [(4e-4, 0.05), (2.5e-4, 0.03), (1e-4, 0.01), (1e-4, 0.01)], strict=True):
        assert now == pytest.approx(expected)


@pytest.mark.parametrize("encoder", list(EncoderKind))
def test_the_encoder_ends_in_what_the_settings_say(play, encoder):
    network = play(network={"encoder": encoder.value}).learner.network
    assert network.architecture.encoder is encoder
    assert any(isinstance(module, torch.nn.ReLU) for module in network.encoder) == (encoder is EncoderKind.RELU_NORM)
