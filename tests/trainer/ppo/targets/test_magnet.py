"""Magnetic mirror descent: the penalty on the distance from the average of the weights."""

import copy

import pytest
import torch
from refused import refused
from small_runs import rps

from arena.environments import declare
from trainer.config.loading import resolve
from trainer.ppo.learner import Learner
from trainer.ppo.loss import LOG_RATIO_LIMIT, clipped_surrogate_loss
from trainer.ppo.sequences import split_into_sequences
from trainer.ppo.targets.magnet import Magnet
from trainer.rollout.buffer import RolloutBuffer

AVERAGED = {"ema_horizon_steps": 144}
"""Four updates of `play`'s learner: 12 decisions of 3 environments."""

MAGNET_KL = "losses/magnet_kl"

TEAMS = [((1, 1), False), ((1, 1), True), ((2, 2), False)]
"""Agents per side, and whether the game is turn-based: some agents die in teams, some wait for their turns."""


def moved(network, by):
    """Return a copy of a network with randomly changed weights."""
    other = copy.deepcopy(network)
    with torch.no_grad():
        for each in other.parameters():
            each.add_(by * torch.randn_like(each))
    return other


@pytest.mark.parametrize(("agents", "turn_based"), TEAMS)
def test_magnet_state_equals_the_actors_state_across_rollouts(play, either_way, agents, turn_based):
    """The penalty is therefore 0 if the magnet has the weights that acted."""
    played = play(agents, turn_based=turn_based, network=either_way)
    network = played.learner.network
    magnet, running = Magnet(2.0, played.learner.rows, network), 0
    for _ in range(4):
        rollout = played.collect()
        running += int((rollout.active[0] & ~rollout.episode_start[0]).sum())
        penalty, distance = magnet.advantage_penalty(network, rollout)
        torch.testing.assert_close(penalty, torch.zeros_like(penalty), atol=1e-4, rtol=0.0)
        assert distance == pytest.approx(0.0, abs=1e-6)
    assert running > 0


@pytest.mark.parametrize(("agents", "turn_based"), TEAMS)
def test_advantage_penalty_is_the_log_ratio_that_an_update_computes(play, agents, turn_based):
    """In the first rollout all states start at zero, so sequences and single steps give the same."""
    played = play(agents, turn_based=turn_based, rollout={"num_steps": 12, "bptt_horizon": 12})
    learner, rollout = played.learner, played.collect()
    other, targets = moved(learner.network, 0.3), learner.targets(rollout)[0]
    penalty, _ = Magnet(2.0, learner.rows, learner.network).advantage_penalty(other, rollout)
    learner.network.load_state_dict(other.state_dict())
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    batch = learner.ppo.evaluate(rollout, targets, sequences)
    expected = 2.0 * batch.joint_log_ratio
    assert expected.abs().max() > 0.5
    torch.testing.assert_close(penalty.flatten()[batch.index], expected, atol=1e-3, rtol=1e-3)


def logits(network):
    """Return the logits in the single state of rock-paper-scissors."""
    yes = torch.ones(1, dtype=torch.bool)
    return network.step(torch.ones(1, 1), network.initial_state(1), yes, yes).parameters.squeeze(0)


def every_action(network):
    """Return a rollout of one step, in which each action of rock-paper-scissors was taken once."""
    rollout = RolloutBuffer.allocate(network, steps=1, rows=3, bptt_horizon=1)
    for field in (rollout.observation, rollout.action_mask, rollout.active, rollout.episode_start):
        field.fill_(1)
    rollout.raw_action[0, :, 0] = torch.arange(3)
    rollout.log_prob.copy_(logits(network).log_softmax(dim=-1).view(1, 3, 1))
    return rollout


def divergence(of, magnet):
    """Return KL(pi || rho) of two rows of logits."""
    pi, rho = (each.softmax(dim=-1) for each in (of, magnet))
    return float((pi * (pi / rho).log()).sum())


def test_policy_gradient_of_the_penalty_is_that_of_the_kl_divergence():
    """The expected surrogate gradient, against finite differences of c KL(pi || rho)."""
    coefficient, step = 0.7, 1e-5
    network = Learner(rps(), declare("rps")).network
    other = moved(network, 0.5)
    with torch.no_grad():
        rollout, magnet, at = every_action(network), logits(other).double(), logits(network).double()
    penalty, distance = Magnet(coefficient, 3, network).advantage_penalty(other, rollout)
    likely = logits(network).softmax(dim=-1)
    (clipped_surrogate_loss(likely / likely.detach(), penalty.squeeze(0), clip=0.2) * likely.detach()).sum().backward()
    assert divergence(at, magnet) > 0.01
    for found, change in zip(network.actor.bias.grad, step * torch.eye(3, dtype=torch.float64), strict=True):
        slope = (divergence(at + change, magnet) - divergence(at - change, magnet)) / (2 * step)
        assert float(found) == pytest.approx(coefficient * slope, rel=1e-4, abs=1e-6)
    log_ratio = magnet.log_softmax(dim=-1) - at.log_softmax(dim=-1)  # estimated as if all actions were as likely
    assert distance == pytest.approx(float((log_ratio.expm1() - log_ratio).mean()), rel=1e-4)


def test_penalty_is_zero_at_inactive_steps_and_clamped_elsewhere(play):
    played = play((1, 1), turn_based=True)
    rollout = played.collect()
    assert not rollout.active.all()
    rollout.log_prob.fill_(1e6)
    penalty, _ = Magnet(2.0, played.learner.rows, played.learner.network).advantage_penalty(
        played.learner.network, rollout
    )
    assert set(penalty[rollout.active].tolist()) == {-2.0 * LOG_RATIO_LIMIT}
    assert set(penalty[~rollout.active].tolist()) == {0.0}


def test_larger_magnet_coefficient_keeps_the_policy_closer_to_its_average(play, never):
    kl = {}
    for coefficient in (0.01, 30.0):
        played = play(ppo={"magnet_coef": coefficient}, league=AVERAGED, optimizer={"learning_rate": 0.01})
        kl[coefficient] = [played.learner.learn(played.collect(), never)[MAGNET_KL] for _ in range(7)]
    assert kl[0.01][0] == kl[30.0][0] == pytest.approx(0.0, abs=1e-6)
    assert 0.0 < sum(kl[30.0]) < 0.8 * sum(kl[0.01])


def test_magnet_is_off_without_a_coefficient_or_an_average(play, never):
    exploiter = {"ema_horizon_steps": 144, "role": "main_exploiter"}
    for without, given in (
        (play(league=AVERAGED), play(league=AVERAGED, ppo={"magnet_coef": 0.0})),
        (play(league=exploiter), play(league=exploiter, ppo={"magnet_coef": 3.0})),
    ):
        for _ in range(2):
            assert MAGNET_KL not in without.learner.learn(without.collect(), never)
            assert MAGNET_KL not in given.learner.learn(given.collect(), never)
        found = given.learner.tensors()
        for name, tensor in without.learner.tensors().items():
            assert torch.equal(found[name], tensor), name


def test_magnet_without_an_average_is_rejected_for_mains():
    with refused("invalid-setting", "ppo.magnet_coef", 0.2, "league.ema_horizon_steps"):
        resolve("rps", None, ["ppo.magnet_coef=0.2"])
    assert resolve("openspiel:kuhn_poker", None, ["ppo.magnet_coef=0.2"]).ppo.magnet_coef == 0.2
    assert resolve("rps", None, ["ppo.magnet_coef=0.2", "league.role=league_exploiter"]).ppo.magnet_coef == 0.2
