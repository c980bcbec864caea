"""The whole way through a network in one native call, held to the same way operator by operator."""

import pytest
import torch

from trainer import weighing
from trainer.bench import Bench
from trainer.chunks import cut
from trainer.config import resolve
from trainer.synthetic import SYNTHETIC, WorkItem
from trainer.weighing import Lot

sweep = pytest.importorskip("trainer.sweep")

FITTING = {"encoder_sizes": [64], "recurrent_size": 64}


@pytest.fixture
def piecemeal(monkeypatch):
    """From now on the way is made operator by operator."""
    return lambda: monkeypatch.setattr(weighing, "_sweep", lambda network, settings, appraiser: None)


def begun(play, **ppo):
    """See `shaken`."""
    return shaken(play((2, 2), network=FITTING, ppo=ppo))


def shaken(played):
    """A learner whose second rollout begins inside episodes, with weights that listen to all that there is; targets."""
    for _ in range(2):
        played.collect()
    rng = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in played.learner.network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng))
    return played, played.learner.targets(played.rollout)[0]


def weighed(played, targets):
    """Loss and figures of a whole rollout as one minibatch, and every gradient."""
    rollout, learner = played.rollout, played.learner
    segments = cut(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    settings, rng = learner.ppo._settings, torch.Generator().manual_seed(0)
    weigher = weighing.Weigher(learner.network, settings, None, rng)
    samples = weigher.gather(rollout, targets, Lot(segments, weigher.counts(targets, segments)))
    weights = weigher.objective.weights(learner.coefficients(), learner.ppo.under_floor)
    learner.ppo.optimizer.clear()
    (part,) = weigher.weigh([samples], torch.tensor([0.5]), torch.ones(()), weights)
    return [part.loss, part.figures.row, *(each.grad.clone() for each in learner.network.parameters())]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("burn_in", [0, 2])
def test_loss_figures_and_every_gradient_are_those_of_the_way_in_pieces(play, piecemeal, threads, burn_in):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        played = begun(play, burn_in=burn_in)
        swept = weighed(*played)
        piecemeal()
        expected = weighed(*played)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(swept, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6 * float(other.abs().max()), equal_nan=True)
    assert all(bool(gradient.any()) for gradient in swept[2:])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("observed", [1, 16, 22, 88, 101])
def test_any_number_of_observed_floats_fits(piecemeal, precision, observed):
    """Native code takes 64 and 16 of them at once, and what is left one by one."""
    settings = [
        "environment.num_envs=5",
        "rollout.steps=16",
        "network.encoder_sizes=[128]",
        f"ppo.precision={precision}",
    ]
    played = shaken(Bench(resolve(SYNTHETIC, None, settings), WorkItem(observed, 3, 0.1)))
    swept = weighed(*played)
    piecemeal()
    for one, other in zip(swept[2:], weighed(*played)[2:], strict=True):
        assert float((one - other).norm()) < (2e-5 if precision == "float32" else 0.05) * float(other.norm())


def test_in_half_precision_the_loss_is_that_of_the_way_in_pieces_within_two_percent(play, piecemeal):
    played = begun(play, precision="bfloat16")
    loss, _, *gradients = weighed(*played)
    piecemeal()
    expected, _, *others = weighed(*played)
    assert float(loss) == pytest.approx(float(expected), rel=0.02)
    for one, other in zip(gradients, others, strict=True):
        assert float((one - other).norm()) < 0.05 * float(other.norm())


def test_a_deviation_at_its_limit_gets_no_gradient_beyond_it(play):
    played, targets = begun(play)
    with torch.no_grad():
        played.learner.network.raw_log_std[0] = 2.5
    weighed(played, targets)
    gradient = played.learner.network.raw_log_std.grad
    assert float(gradient[0]) == 0.0
    assert bool(gradient[1:].all())


@pytest.mark.parametrize("options", [{}, {"burn_in": 2}, {"microbatch": 5}])
def test_an_update_is_that_of_the_way_in_pieces(play, never, piecemeal, options):
    def learn():
        played = play((2, 2), network=FITTING, ppo={"minibatches": 2, **options})
        metrics = [played.learner.learn(played.collect(), never) for _ in range(2)]
        return played.learner, metrics[-1]

    swept, figures = learn()
    piecemeal()
    plain, expected = learn()
    assert isinstance(swept.ppo._weigher._appraise, sweep.Sweep)
    for name, tensor in plain.network.named_parameters():
        torch.testing.assert_close(swept.network.get_parameter(name), tensor, rtol=1e-4, atol=1e-6)
    assert figures == pytest.approx(expected, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    "sections",
    [
        {"network": {**FITTING, "encoder": "relu_norm"}},
        {"network": {**FITTING, "encoder_sizes": [64, 64]}},
        {"network": {**FITTING, "encoder_sizes": [48]}},
        {"network": {**FITTING, "recurrent_size": 48}},
        {"network": {**FITTING, "core": "feedforward"}},
        {"network": FITTING, "ppo": {"auxiliary_weight": 0.1}},
        {"network": FITTING, "ppo": {"recomputed_parts": 2}},
    ],
    ids=str,
)
def test_networks_and_objectives_that_have_more_to_them_go_piece_by_piece(play, sections):
    learner = play(**sections).learner
    assert not isinstance(learner.ppo._weigher._appraise, sweep.Sweep)
