"""Values and advantages that are computed anew before every epoch."""

import pytest
import torch

STILL = {"learning_rate": 0.0, "learning_rate_final": 0.0}
FAST = {"learning_rate": 0.01, "learning_rate_final": 0.01}


def learned_from(play, never, renewed, schedules, epochs=3):
    """Targets of every minibatch's epoch, and the learner, after two rollouts."""
    ppo = {"epochs": epochs, "minibatches": 1, "target_kl": 1e9, **({"renewed": True} if renewed else {})}
    played = play((2, 2), ppo=ppo, schedules=schedules)
    seen, step = [], played.learner.ppo._step

    def watched(rollout, targets, *rest):
        seen.append(targets)
        return step(rollout, targets, *rest)

    played.learner.ppo._step = watched
    for _ in range(2):
        played.learner.learn(played.collect(), never)
    return seen[-epochs:], played.learner


def test_weights_that_do_not_move_give_the_same_targets_every_epoch(play, never):
    targets, _ = learned_from(play, never, True, STILL)
    for later in targets[1:]:
        assert later is not targets[0]
        assert torch.equal(later.valid, targets[0].valid)
        for name in ("advantage", "value"):
            torch.testing.assert_close(getattr(later, name), getattr(targets[0], name), rtol=1e-5, atol=1e-5)


def test_weights_that_move_are_asked_for_values_again_and_nothing_flows_back_through_them(play, never):
    targets, _ = learned_from(play, never, True, FAST)
    first, *later = targets
    for each in later:
        assert not torch.allclose(each.advantage[each.valid], first.advantage[first.valid], atol=1e-3)
        assert not each.advantage.requires_grad
        assert not each.value.requires_grad


def test_values_are_not_computed_anew_unless_asked_for(play, never):
    targets, _ = learned_from(play, never, False, FAST)
    assert all(each is targets[0] for each in targets)


def test_statistics_are_not_taken_twice_from_one_rollout(play, never):
    _, plain = learned_from(play, never, False, STILL)
    _, renewed = learned_from(play, never, True, STILL)
    statistics = ("rewards.", "values.", "owed.", "observations.")
    mine, theirs = plain.tensors(), renewed.tensors()
    names = [name for name in mine if name.startswith(statistics)]
    assert {name.partition(".")[0] for name in names} >= {"rewards", "values", "observations"}
    for name in names:
        torch.testing.assert_close(theirs[name], mine[name], rtol=0.0, atol=0.0)


@pytest.mark.parametrize("epochs", [1])
def test_a_single_epoch_renews_nothing(play, never, epochs):
    targets, _ = learned_from(play, never, True, FAST, epochs)
    assert len(targets) == 1


def test_fewer_segments_than_minibatches_are_renewed_as_well(play, never):
    """Where most agents are dead there may be fewer: a part without any would end the run."""
    played = play((2, 2), ppo={"renewed": True, "epochs": 2, "minibatches": 30, "target_kl": 1e9}, schedules=FAST)
    metrics = played.learner.learn(played.collect(), never)
    assert metrics["losses/policy_loss"] is not None
