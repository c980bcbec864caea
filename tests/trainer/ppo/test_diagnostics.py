import pytest
import torch

from trainer.ppo.diagnostics import head_gradients, saturated


def test_saturated_actions_have_a_squashed_value_above_0_99():
    raw = torch.atanh(torch.tensor([[0.5, 0.985, -0.995, 0.999]], dtype=torch.float64))
    assert saturated(raw, torch.tensor([True])) == 0.5
    assert saturated(raw, torch.tensor([False])).isnan()


@pytest.mark.holds("A5", "L4")
def test_update_logs_gradient_norms_per_head(play, never):
    played = play(ppo={"update_epochs": 1, "num_minibatches": 1})
    metrics = played.learner.learn(played.collect(), never)
    norms = [metrics[f"heads/{name}/gradient_norm"] for name in ("move", "switch", "choice")]
    assert all(norm > 0.0 for norm in norms)
    assert sum(norm**2 for norm in norms) ** 0.5 <= metrics["losses/gradient_norm"]
    assert metrics["heads/move/std"] == pytest.approx(0.607, abs=0.01)
    assert metrics["heads/move/saturated"] < 0.01
    assert 0.0 < metrics["losses/ratio_deviation"] < 0.1 or metrics["losses/approx_kl"] == 0.0
    assert "heads/switch/std" not in metrics


@pytest.mark.holds("L4")
def test_head_without_samples_has_gradient_norm_nan(play):
    network = play().learner.network
    network.actor(torch.ones(1, network.actor.in_features)).sum().backward()
    decided = torch.tensor([True, False, True])
    norms = head_gradients(network, decided)
    assert norms.isnan().tolist() == [False, True, False]
    own = network.actor.weight.grad[network.layout.parts[2].parameters]
    assert float(norms[2]) == pytest.approx(float((own.square().sum() + len(own)).sqrt()))
    network.zero_grad(set_to_none=True)
    assert head_gradients(network, decided).isnan().all()
