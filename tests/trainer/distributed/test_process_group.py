"""Two processes of gloo against one with the environments of both."""

from dataclasses import replace

import pytest
import torch
from fake_games import fake_spec
from ranks import learn_alone, learn_in_turn, learn_together, settings, share

from trainer.ppo.learner import Learner
from trainer.ppo.update_metrics import MetricAccumulator
from trainer.process_group import ProcessGroup

NEXT_OBSERVATION = {"trainer.ppo.extra_losses:NextObservationLoss": 0.5}


@pytest.fixture
def rollouts(play):
    """Two rollouts in a row of six environments."""
    played = play(environment={"num_envs": 6}, rollout={"num_steps": 12, "bptt_horizon": 4})

    def copy(rollout):
        return replace(rollout, **{name: getattr(rollout, name).clone() for name in rollout.__dataclass_fields__})

    return [copy(played.collect()) for _ in range(2)]


def halves(rollouts, cut=3):
    """The rows before and after a cut, of every rollout."""
    return [
        [share(each, 0, cut) for each in rollouts],
        [share(each, cut, 6) for each in rollouts],
    ]


def assert_equal_ranks(one, other):
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name


@pytest.fixture
def _one_thread():
    """As ranks have: torch deals sums otherwise with another number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.holds("I5")
@pytest.mark.usefixtures("_one_thread")
def test_two_ranks_are_bit_identical_to_one_process_over_both_halves(tmp_path, rollouts):
    """What goes between processes, and in which order it is added, changes nothing."""
    one, other = learn_together(tmp_path, settings(3), halves(rollouts))
    assert_equal_ranks(one, other)
    assert_equal_ranks(learn_in_turn(settings(3), halves(rollouts))[0], one)


@pytest.fixture(params=[torch.float32, torch.float64], ids=["single", "double"])
def precision(request, monkeypatch):
    """All that learns is in this precision, and how close a half's sums are to the whole's."""
    if request.param is torch.float64:
        monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)  # what the network asks for by name
    torch.set_default_dtype(request.param)
    yield request.param, {torch.float32: 2e-5, torch.float64: 1e-13}[request.param]
    torch.set_default_dtype(torch.float32)


@pytest.mark.holds("I5")
def test_two_halves_equal_the_whole_up_to_rounding(rollouts, precision):
    """A sum over all decisions is that of two sums but for its last bits: in double precision those are far smaller."""
    dtype, near = precision
    for rollout in rollouts:
        for name in (each for each in rollout.__dataclass_fields__ if getattr(rollout, each).is_floating_point()):
            object.__setattr__(rollout, name, getattr(rollout, name).to(dtype))
    one, other = learn_in_turn(settings(3), halves(rollouts))
    assert_equal_ranks(one, other)
    alone = learn_alone(settings(6), rollouts)
    assert alone["network.critic.weight"].dtype is dtype
    assert one["steps"] == alone["steps"]
    for name, tensor in alone.items():
        torch.testing.assert_close(
            one[name], tensor, atol=near / 10, rtol=near, msg=lambda text, name=name: name + text
        )


@pytest.mark.holds("I5")
def test_ranks_are_weighted_by_their_samples(tmp_path, rollouts):
    """An idle half of one rank's decisions: means of means would be another gradient."""
    for rollout in rollouts:
        rollout.active[:, 0] = False
        rollout.active[:7, 1] = False
    one, other = learn_together(tmp_path, settings(3), halves(rollouts))
    assert_equal_ranks(one, other)
    alone = learn_alone(settings(6), rollouts)
    torch.testing.assert_close(one["network.critic.weight"], alone["network.critic.weight"], atol=2e-6, rtol=2e-5)


@pytest.mark.parametrize("burn_in", [0, 3])
def test_predictions_are_weighted_by_their_number_on_each_rank(tmp_path, rollouts, burn_in):
    """One rank's runs are shorter than the other's; with burn-in nothing at all is learned from them."""
    for rollout in rollouts:
        rollout.active[3::4, :3] = False
        rollout.active[:7, 1] = False
        rollout.episode_start[:, :3] = False
    options = {"extra_losses": NEXT_OBSERVATION, "burn_in": burn_in}
    one, other = learn_together(tmp_path, settings(3, **options), halves(rollouts))
    assert_equal_ranks(one, other)
    alone = learn_alone(settings(6, **options), rollouts)
    for name in (each for each in alone if each.startswith(("network.", "extra."))):
        torch.testing.assert_close(one[name], alone[name], atol=2e-6, rtol=2e-5)


@pytest.mark.holds("I5")
def test_a_rank_without_decisions_gets_the_same_update(tmp_path, rollouts):
    """Two minibatches: it goes through both with nothing, and moves as they do."""
    for rollout in rollouts:
        rollout.active[:, :3] = False
    options = {"extra_losses": NEXT_OBSERVATION, "num_minibatches": 2, "micro_batch_size": 5, "target_kl": 1e9}
    one, other = learn_together(tmp_path, settings(3, **options), halves(rollouts))
    assert_equal_ranks(one, other)
    untaught = learn_alone(settings(3), [])
    assert not torch.equal(one["network.critic.weight"], untaught["network.critic.weight"])


def test_entropy_floors_apply_to_the_same_heads_as_in_one_process(tmp_path, rollouts):
    """Also on a rank on which nobody acts."""
    for rollout in rollouts:
        rollout.active[:, :3] = False
    options = {"entropy_floors": {"move": -1e9, "choice": 1e9}}
    one, other = learn_together(tmp_path, settings(3, **options), halves(rollouts))
    assert_equal_ranks(one, other)
    alone = learn_alone(settings(6, **options), rollouts)
    assert one["under_floor"].tolist() == alone["under_floor"].tolist() == [False, False, True]


@pytest.mark.holds("I5")
def test_the_kl_stop_uses_the_kl_of_all_ranks(tmp_path, rollouts):
    """Ranks that stopped by their own figures would wait for each other for ever, or part."""
    config = settings(3, target_kl=1e-5, update_epochs=8)
    one, other = learn_together(tmp_path, config, halves(rollouts))
    assert one["kl_stop"] == other["kl_stop"] == 1.0
    assert_equal_ranks(one, other)


@pytest.mark.holds("I5")
def test_nan_on_one_rank_changes_no_weights(tmp_path, rollouts):
    mine, theirs = halves(rollouts)
    theirs[1].reward[3, 1] = torch.nan
    one, other = learn_together(tmp_path, settings(3), [mine, theirs])
    assert one["rejected"] == other["rejected"] == 1.0
    assert_equal_ranks(one, other)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in one.values())


class Beside(ProcessGroup):
    """This rank and another with as many samples and the same gradient; what it adds to the packed numbers differs.

    Attributes:
        calls: Number of all-reduces.
    """

    world_size = 2

    def __init__(self, loss=None, stop=0.0):
        self._loss, self._stop, self.calls = loss, stop, 0

    def all_gather(self, values):
        return [values, values]

    def all_reduce_sum(self, values):
        self.calls += 1
        summed, at = 2.0 * values, -2 - 2 * len(fake_spec().heads)
        if self._loss is not None:
            summed[at] = values[at] + self._loss * values[at - 2]
        summed[-1] += self._stop
        return summed


@pytest.mark.parametrize(("loss", "moves"), [(1.0, True), (torch.nan, False), (torch.inf, False)])
def test_a_nan_loss_on_another_rank_changes_no_weights(loss, moves):
    """Its gradient may well be finite."""
    ppo = Learner(settings(3), fake_spec(), Beside(loss)).ppo
    before = ppo.optimizer.flat_parameters.clone()
    ppo.optimizer.learning_rate = 0.01
    ppo.optimizer.flat_gradient.fill_(0.01)
    means = ppo._average_over_ranks(None, 5, stop=False)
    norm = float(ppo.optimizer.clip_gradient())
    ppo._step(float(means.loss), norm, ppo._head_gradients(None), MetricAccumulator())
    assert torch.equal(ppo.optimizer.flat_parameters, before) is not moves
    assert ppo.rejected_steps == (not moves)


@pytest.fixture
def update(rollouts):
    """Update a learner from the first rollout; return its number of optimiser steps."""

    def run(learner):
        targets, _ = learner.targets(rollouts[0])
        learner._ranks.calls = 0
        learner.ppo.update(rollouts[0], targets, learner.coefficients(), lambda: False)
        return learner.ppo.optimizer.steps

    return run


def test_ranks_exchange_a_minibatch_in_one_all_reduce(update):
    options = {"num_minibatches": 2, "target_kl": 1e9, "entropy_floors": {"move": 1.0}}
    learner = Learner(settings(6, **options), fake_spec(), Beside())
    assert update(learner) == 6
    assert learner._ranks.calls == 6


def test_a_stop_on_another_rank_ends_the_update_before_the_first_step(update):
    learner = Learner(settings(6), fake_spec(), Beside(stop=1.0))
    before = learner.ppo.optimizer.flat_parameters.clone()
    assert update(learner) == 0
    assert torch.equal(learner.ppo.optimizer.flat_parameters, before)
    assert learner._ranks.calls == 1
