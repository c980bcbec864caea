import pytest
import torch

from trainer.chunks import cut
from trainer.weighing import Lot


def kept_and_gradients(play, parts, units, **ppo):
    """Bytes that the forward pass keeps for the backward pass, and the gradients of a minibatch."""
    network = {"recurrent_size": units, "encoder_sizes": [32]}
    played = play((2, 2), network=network, ppo={"recomputed_parts": parts, **ppo}, environment={"num_envs": 16})
    for _ in range(2):  # the second rollout begins inside episodes
        rollout = played.collect()
    learner, kept, back = played.learner, [0], torch.autograd.backward
    targets, _ = learner.targets(rollout)
    segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    weigher = learner.ppo._weigher
    lot = Lot(segments, weigher.counts(targets, segments))
    one, weights = torch.ones(()), weigher.objective.weights(learner.coefficients(), learner.ppo.under_floor)

    def keep(tensor):
        kept[0] += tensor.nbytes
        return tensor

    def on_the_way_back(loss):
        forward.append(kept[0])
        back(loss)

    forward = []
    with pytest.MonkeyPatch.context() as patched, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        patched.setattr(torch.autograd, "backward", on_the_way_back)
        weigher.weigh([weigher.gather(rollout, targets, lot)], one.reshape(1), one, weights)
    return forward[0], {name: each.grad for name, each in learner.network.named_parameters()}


@pytest.mark.parametrize("units", [6, 64])
@pytest.mark.parametrize("auxiliary_weight", [0.0, 0.1])
def test_gradients_are_the_same_when_activations_are_computed_again(play, units, auxiliary_weight):
    _, plain = kept_and_gradients(play, 0, units, auxiliary_weight=auxiliary_weight)
    for parts in (1, 3):
        _, again = kept_and_gradients(play, parts, units, auxiliary_weight=auxiliary_weight)
        for name, gradient in plain.items():
            torch.testing.assert_close(again[name], gradient, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("units", [6, 64])
def test_less_is_kept_for_the_backward_pass(play, units):
    plain, _ = kept_and_gradients(play, 0, units)
    again, _ = kept_and_gradients(play, 4, units)
    assert again < 0.6 * plain


@pytest.mark.parametrize("units", [6, 64])
def test_more_parts_than_runs_are_as_many_as_there_are_runs(play, units):
    _, plain = kept_and_gradients(play, 0, units)
    _, again = kept_and_gradients(play, 1000, units)
    for name, gradient in plain.items():
        torch.testing.assert_close(again[name], gradient, rtol=0.0, atol=1e-6)
