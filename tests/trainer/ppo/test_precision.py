"""Half precision in the update's products, held to single precision."""

import pytest
import torch

from arena.policies.nn import recurrent as cores
from trainer.ppo.sequences import split_into_sequences

STILL = {"learning_rate": 0.0, "learning_rate_final": 0.0}


def at(play, precision, units, **sections):
    """A learner whose second rollout begins inside episodes."""
    network = {"recurrent_size": units, "encoder_sizes": [32]}
    played = play((2, 2), network=network, ppo={"precision": precision}, **sections)
    for _ in range(2):
        played.collect()
    return played


def evaluated(played):
    rollout, learner = played.rollout, played.learner
    targets, _ = learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    batch = learner.ppo.evaluate(rollout, targets, sequences)
    objective = learner.ppo.loss
    loss = objective.compute(batch, objective.weights(learner.coefficients(), learner.ppo.under_floor)).loss
    loss.backward()
    return batch, loss.detach(), torch.cat([each.grad.flatten() for each in learner.network.core.parameters()])


@pytest.mark.holds("I2")
@pytest.mark.parametrize("units", [6, 64])
def test_bfloat16_loss_is_within_two_percent_of_float32(play, units):
    batch, loss, gradient = evaluated(at(play, "float32", units))
    half_batch, half_loss, half_gradient = evaluated(at(play, "bfloat16", units))
    assert float(half_loss) == pytest.approx(float(loss), rel=0.02)
    assert float((half_gradient - gradient).norm()) < 0.05 * float(gradient.norm())
    assert not torch.equal(half_batch.value, batch.value)
    torch.testing.assert_close(half_batch.value, batch.value, rtol=0.02, atol=0.02)


@pytest.mark.holds("I2")
@pytest.mark.parametrize("units", [6, 64])
def test_loss_terms_and_gradients_stay_in_float32(play, units):
    played = at(play, "bfloat16", units)
    batch, loss, _ = evaluated(played)
    floats = [each for each in vars(batch).values() if each.is_floating_point()]
    assert {each.dtype for each in (*floats, loss)} == {torch.float32}
    assert {each.grad.dtype for each in played.learner.network.parameters()} == {torch.float32}


@pytest.mark.parametrize(("precision", "least", "most"), [("float32", 0.0, 1e-5), ("bfloat16", 1e-5, 5e-3)])
def test_update_logs_its_first_ratio_error(play, never, precision, least, most):
    played = at(play, precision, 64, optimizer=STILL)
    assert least <= played.learner.learn(played.rollout, never)["losses/first_ratio_error"] < most


def test_wrong_stored_states_show_in_the_first_ratio_error(play, never):
    played = at(play, "float32", 64, optimizer=STILL)
    played.rollout.hidden[1:].zero_()
    assert played.learner.learn(played.rollout, never)["losses/first_ratio_error"] > 1e-4


def test_cpu_without_bfloat16_runs_the_lstm_in_float32(play, monkeypatch):
    monkeypatch.setattr(cores, "has_bfloat16_lstm", lambda inputs: False)
    _, loss, _ = evaluated(at(play, "float32", 64))
    _, half_loss, _ = evaluated(at(play, "bfloat16", 64))
    assert float(half_loss) == pytest.approx(float(loss), rel=0.02)
