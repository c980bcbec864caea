import numpy as np
import pytest
import torch
from refused import refused

from arena.policies import ActorCritic
from arena.policies.nn.actor_critic import LOG_STD_RANGE
from trainer.ppo.ppo import Outcome
from trainer.ppo.sequences import split_into_sequences

NO_BONUS = {"normalized_ent_coef": 0.0, "normalized_ent_coef_final": 0.0}

NEXT_OBSERVATION = {"trainer.ppo.extra_losses:NextObservationLoss": 0.5}


def weights(learner):
    return {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}


def same(one, other):
    return all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def parameters(learner):
    return {name: tensor.detach().clone() for name, tensor in learner.network.named_parameters()}


def all_but_the_critic(learner):
    """Parameters that nothing but the optimiser moves: the critic's layer follows the scale of returns as well."""
    return {name: tensor for name, tensor in parameters(learner).items() if not name.startswith("critic.")}


def test_update_changes_the_weights_and_returns_metrics(play, never):
    played = play()
    before = parameters(played.learner)
    metrics = played.learner.learn(played.collect(), never)
    assert not same(before, parameters(played.learner))
    for tag in ("approx_kl", "clipfrac", "normalized_entropy", "policy_loss", "value_loss", "gradient_norm", "kl_stop"):
        assert metrics[f"losses/{tag}"] is not None
    assert metrics["heads/move/samples"] > 0
    assert {"scales/advantage_std", "scales/return_mean", "losses/explained_variance"} <= metrics.keys()


@pytest.mark.holds("E5", "S7")
def test_kl_stop_leaves_the_parameters_bit_equal(play, never, monkeypatch):
    played = play(optimizer={"learning_rate": 1.0, "learning_rate_final": 1.0})
    calls = []
    ppo = played.learner.ppo
    step = ppo._update_minibatch

    def watched(*arguments, **named):
        before = parameters(played.learner)
        outcome = step(*arguments, **named)
        calls.append((outcome, same(before, parameters(played.learner))))
        return outcome

    monkeypatch.setattr(ppo, "_update_minibatch", watched)
    metrics = played.learner.learn(played.collect(), never)
    assert calls[0] == (Outcome.DONE, False)
    assert calls[-1] == (Outcome.KL_STOP, True)
    assert metrics["losses/kl_stop"] == 1.0
    assert metrics["losses/approx_kl"] > 0.0  # the stopped minibatch is in the metrics


@pytest.mark.holds("E5")
def test_kl_stop_is_a_multiple_of_the_target(play, never):
    """Of a policy that is moved away from the one that acted, so that its KL is known before anything is learned."""

    def learned(target_kl):
        played = play(ppo={"update_epochs": 1, "num_minibatches": 1, "target_kl": target_kl, "kl_stop": 1.5})
        rollout = played.collect()
        rollout.log_prob.add_(0.3 * torch.randn(rollout.log_prob.shape, generator=torch.Generator().manual_seed(0)))
        return played.learner.learn(rollout, never)

    kl = learned(1e9)["losses/approx_kl"]
    assert kl > 0.01
    for target_kl, stopped in ((kl / 1.4, 0.0), (kl / 1.6, 1.0)):
        metrics = learned(target_kl)
        assert metrics["losses/kl_stop"] == stopped
        assert metrics["losses/approx_kl"] == pytest.approx(kl)


@pytest.mark.holds("E5")
def test_kl_stop_does_not_apply_adams_moments(play, never):
    """Its moments would move weights also where there is no gradient."""
    played = play(ppo={"update_epochs": 1, "num_minibatches": 1, "target_kl": 1e-9})
    played.learner.learn(played.collect(), never)
    played.learner.ppo.optimizer.step()
    rollout = played.collect()
    rollout.log_prob.add_(0.3)
    before = all_but_the_critic(played.learner)
    moments = {name: tensor.clone() for name, tensor in played.learner.ppo.optimizer.tensors().items()}
    assert any(tensor.any() for name, tensor in moments.items() if name.endswith("exp_avg"))
    assert played.learner.learn(rollout, never)["losses/kl_stop"] == 1.0
    assert same(before, all_but_the_critic(played.learner))
    assert same(moments, played.learner.ppo.optimizer.tensors())


@pytest.mark.holds("E9")
def test_nan_reward_changes_neither_weights_nor_statistics(play, never):
    played = play()
    played.learner.learn(played.collect(), never)
    before = {name: tensor.clone() for name, tensor in played.learner.tensors().items() if "rng" not in name}
    rollout = played.collect()
    rollout.reward[3, 1] = float("nan")
    metrics = played.learner.learn(rollout, never)
    after = played.learner.tensors()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert metrics["losses/rejected_steps"] == 1.0


@pytest.mark.holds("E9")
def test_nonfinite_gradient_never_changes_the_weights(play, never):
    played = play(ppo={"nonfinite_limit": 100})
    rollout = played.collect()
    before = weights(played.learner)
    for parameter in played.learner.network.parameters():
        parameter.register_hook(lambda gradient: gradient * float("nan"))
    played.learner.learn(rollout, never)
    after = parameters(played.learner)
    assert all(torch.equal(before[name], tensor) for name, tensor in after.items())
    assert played.learner.ppo.rejected_steps == 4


@pytest.mark.holds("E9")
def test_nonfinite_loss_never_changes_the_weights(play, never):
    played = play(ppo={"update_epochs": 1, "num_minibatches": 1})
    rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    targets.returns[5, 1] = float("nan")
    before = parameters(played.learner)
    for parameter in played.learner.network.parameters():
        parameter.register_hook(torch.nan_to_num)
    metrics = played.learner.ppo.update(rollout, targets, played.learner.coefficients(), never)
    assert metrics["losses/rejected_steps"] == 1.0
    assert same(before, parameters(played.learner))


@pytest.mark.holds("E9")
def test_training_stops_after_nonfinite_updates_in_a_row(play, never):
    played = play(ppo={"nonfinite_limit": 3})
    rollout = played.collect()
    played.learner.learn(rollout, never)
    rollout.reward.fill_(float("inf"))
    played.learner.learn(rollout, never)
    played.learner.learn(rollout, never)
    with refused("non-finite-loss", 3):
        played.learner.learn(rollout, never)


@pytest.mark.holds("E9")
def test_finite_update_resets_the_nonfinite_count(play, never):
    played = play(ppo={"nonfinite_limit": 2})
    for _ in range(3):
        rollout = played.collect()
        reward = rollout.reward.clone()
        rollout.reward.fill_(float("nan"))
        played.learner.learn(rollout, never)
        rollout.reward.copy_(reward)
        played.learner.learn(rollout, never)
    assert played.learner.ppo.rejected_steps == 3


@pytest.mark.holds("E10")
def test_logged_gradient_norm_is_before_clipping(play, never):
    loose = play(optimizer={"max_grad_norm": 1e9}, ppo={"update_epochs": 1, "num_minibatches": 1})
    tight = play(optimizer={"max_grad_norm": 1e-3}, ppo={"update_epochs": 1, "num_minibatches": 1})
    one = loose.learner.learn(loose.collect(), never)
    other = tight.learner.learn(tight.collect(), never)
    of_parameters = [parameter.grad.norm() for parameter in loose.learner.network.parameters()]
    assert one["losses/gradient_norm"] == pytest.approx(torch.stack(of_parameters).norm().item(), rel=1e-5)
    assert one["losses/gradient_norm"] == pytest.approx(other["losses/gradient_norm"], rel=1e-5)
    assert (one["losses/gradient_clipped"], other["losses/gradient_clipped"]) == (0.0, 1.0)


@pytest.mark.holds("D4")
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_update_is_invariant_to_the_reward_scale(play, never, factor):
    plain, scaled = play(), play()
    for _ in range(3):
        one = plain.learner.learn(plain.collect(), never)
        scaled.collect().reward.mul_(factor)
        other = scaled.learner.learn(scaled.rollout, never)
        assert other["losses/explained_variance"] == pytest.approx(one["losses/explained_variance"], abs=1e-4)
    mine, theirs = parameters(plain.learner), parameters(scaled.learner)
    for name, tensor in mine.items():
        torch.testing.assert_close(theirs[name], tensor, rtol=1e-3, atol=1e-4)


@pytest.mark.holds("E4")
def test_entropy_bonus_raises_entropy(play, never):
    def entropy_after(coefficient):
        bonus = {"normalized_ent_coef": coefficient, "normalized_ent_coef_final": coefficient}
        played = play(ppo=bonus, optimizer={"learning_rate": 3e-3})
        for _ in range(16):
            metrics = played.learner.learn(played.collect(), never)
        return metrics["losses/normalized_entropy"]

    assert entropy_after(5.0) > entropy_after(0.0) + 0.05


@pytest.mark.holds("A4", "S5")
def test_entropy_bonus_has_a_gradient_for_means(play):
    played = play()
    rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    batch = played.learner.ppo.evaluate(rollout, targets, sequences)
    batch.entropy[:, 0].sum().backward()
    move = played.learner.network.layout.parts[0].parameters
    assert played.learner.network.actor.weight.grad[move].abs().max() > 0


@pytest.mark.holds("E6", "F5")
def test_head_without_a_choice_gets_no_gradient_and_no_metrics(play, never):
    played = play()
    rollout = played.collect()
    layout = played.learner.network.layout
    rollout.action_mask[..., layout.parts[0].mask] = False  # `move` never had a choice
    metrics = played.learner.learn(rollout, never)
    assert metrics["heads/move/samples"] == 0.0
    assert "heads/move/approx_kl" not in metrics
    assert "heads/choice/approx_kl" in metrics
    gradient = played.learner.network.raw_log_std.grad
    assert gradient is None or gradient.abs().max() == 0.0
    assert played.learner.network.actor.weight.grad[layout.parts[0].parameters].abs().max() == 0.0


@pytest.mark.holds("D1", "T4")
def test_inactive_entries_do_not_affect_the_update(play, never):
    """Whatever stands in the entries of agents that did not act: the update is the same bit for bit."""
    one, other = play((2, 2)), play((2, 2))
    first, second = one.collect(), other.collect()
    idle = ~second.active
    assert bool(idle.any())
    second.observation[idle] = 77.0
    second.raw_action[idle] = 3.0
    second.log_prob[idle] = -9.0
    second.value[idle] = 5.0
    one.learner.learn(first, never)
    other.learner.learn(second, never)
    mine, theirs = one.learner.tensors(), other.learner.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


@pytest.mark.holds("B8")
def test_each_epoch_shuffles_all_decisions_by_the_seed(play, never):
    def minibatches_of(seed):
        played = play((2, 2), run={"seed": seed}, ppo={"target_kl": 1e9})
        ppo, minibatches = played.learner.ppo, []
        compute = ppo._forward_backward
        ppo._forward_backward = lambda rollout, targets, parts, *rest: (
            minibatches.append([row for part in parts for row in part.flat_index.tolist()])
            or compute(rollout, targets, parts, *rest)
        )
        rollout = played.collect()
        played.learner.learn(rollout, never)
        return minibatches, rollout.active.flatten().nonzero().squeeze(1).tolist()

    minibatches, active = minibatches_of(1)
    first, second = minibatches[:2], minibatches[2:]
    assert [len(first), len(second)] == [2, 2]
    for epoch in (first, second):
        assert sorted(row for rows in epoch for row in rows) == active
    assert {*first[0]} not in ({*rows} for rows in second)
    assert minibatches_of(1)[0] == minibatches
    assert minibatches_of(2)[0] != minibatches


@pytest.mark.holds("E8")
def test_gradients_of_minibatches_add_up(play):
    played = play()
    rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    sequences = split_into_sequences(rollout.episode_start, rollout.active, rollout.hidden, rollout.cell)
    network = played.learner.network

    def gradient(parts):
        network.zero_grad()
        for part in parts:
            batch = played.learner.ppo.evaluate(rollout, targets, part)
            (batch.joint_log_ratio.sum() + batch.value.sum()).backward()
        return [p.grad.clone() for p in network.parameters() if p.grad is not None]

    half = len(sequences) // 2
    order = np.arange(len(sequences))
    split = gradient([sequences.take(order[:half]), sequences.take(order[half:])])
    for one, other in zip(gradient([sequences]), split, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.holds("E8")
def test_each_minibatch_starts_from_zero_gradient(play, never):
    """Under weights that stay, the gradients of two minibatches are together that of one of all their decisions."""

    def gradients(minibatches):
        still = {"learning_rate": 0.0, "learning_rate_final": 0.0, "max_grad_norm": 1e9}
        ppo = {"update_epochs": 1, "num_minibatches": minibatches, "target_kl": 1e9, **NO_BONUS}
        played = play((2, 2), ppo=ppo, optimizer=still)
        learning, found, sizes = played.learner.ppo, [], []
        compute = learning._forward_backward
        learning._forward_backward = lambda rollout, targets, parts, *rest: (
            sizes.append(sum(int(part.loss_mask.sum()) for part in parts)) or compute(rollout, targets, parts, *rest)
        )
        learning.optimizer.step = lambda: found.append(learning.optimizer.flat_gradient.clone())
        played.learner.learn(played.collect(), never)
        return [size / sum(sizes) * each for size, each in zip(sizes, found, strict=True)]

    (whole,), parts = gradients(1), gradients(2)
    assert len(parts) == 2
    torch.testing.assert_close(sum(parts), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.holds("E8", "I3")
@pytest.mark.parametrize("options", [{}, {"burn_in": 2}, {"extra_losses": NEXT_OBSERVATION}])
def test_micro_batches_give_the_gradient_and_metrics_of_the_minibatch(play, never, options):
    """Parts of at most seven decisions; some of them hold none that carries loss."""
    found = []
    for micro_batch_size in (0, 7):
        ppo = {"micro_batch_size": micro_batch_size, "update_epochs": 1, "num_minibatches": 1, **NO_BONUS, **options}
        played = play((2, 2), ppo=ppo)
        for _ in range(2):  # the second rollout begins inside episodes
            rollout = played.collect()
        learning = played.learner.ppo
        learning.optimizer.step = dict  # the gradient stays
        metrics = played.learner.learn(rollout, never)
        found.append((metrics, learning.optimizer.flat_gradient))
    (metrics, gradient), (in_parts, of_parts) = found
    assert metrics.keys() == in_parts.keys()
    for name in (each for each in metrics if "entropy" not in each):  # micro-batches sample other entropy noise
        assert in_parts[name] == pytest.approx(metrics[name], rel=1e-3, abs=1e-6), name
    torch.testing.assert_close(gradient, of_parts, rtol=1e-4, atol=1e-6)


@pytest.mark.holds("C4")
def test_all_epochs_use_the_same_targets(play, never):
    played = play(ppo={"update_epochs": 3, "num_minibatches": 1, "target_kl": 1e9})
    used, step = [], played.learner.ppo._update_minibatch

    def watched(rollout, targets, *rest, **named):
        used.append(targets)
        return step(rollout, targets, *rest, **named)

    played.learner.ppo._update_minibatch = watched
    played.learner.learn(played.collect(), never)
    assert len(used) == 3
    assert all(targets is used[0] for targets in used)


@pytest.fixture
def at_a_time(monkeypatch):
    """Decisions of every call of the network by an update."""
    counts, sequence = [], ActorCritic.sequence

    def counted(network, observation, *given, **how):
        counts.append(len(observation))
        return sequence(network, observation, *given, **how)

    monkeypatch.setattr(ActorCritic, "sequence", counted)
    return counts


@pytest.mark.holds("I3")
def test_forward_passes_are_no_larger_than_a_micro_batch(play, never, at_a_time):
    """A part may be longer than it should by one run of four decisions."""
    played = play(ppo={"micro_batch_size": 8, "num_minibatches": 1, "target_kl": 1e9})
    played.learner.learn(played.collect(), never)
    assert sum(at_a_time) == 2 * 36  # two epochs
    assert max(at_a_time) <= 8 + 4
    assert len(at_a_time) >= 2 * 5


def test_kl_stop_discards_gradients_of_micro_batches(play, never):
    played = play(ppo={"micro_batch_size": 5, "num_minibatches": 1, "target_kl": 1e-9})
    rollout = played.collect()
    rollout.log_prob.add_(0.1 * torch.randn_like(rollout.log_prob))
    before = parameters(played.learner)
    assert played.learner.learn(rollout, never)["losses/kl_stop"] == 1.0
    assert same(before, parameters(played.learner))
    assert played.learner.ppo.optimizer.steps == 0
    assert not played.learner.ppo.optimizer.flat_gradient.any()


def test_nonfinite_micro_batch_rejects_the_minibatch(play, never):
    played = play(ppo={"micro_batch_size": 5, "num_minibatches": 1, "update_epochs": 1})
    rollout = played.collect()
    targets, _ = played.learner.targets(rollout)
    targets.returns[5, 1] = float("nan")
    before = parameters(played.learner)
    metrics = played.learner.ppo.update(rollout, targets, played.learner.coefficients(), never)
    assert metrics["losses/rejected_steps"] == 1.0
    assert same(before, parameters(played.learner))


def test_head_metric_is_nan_if_it_is_nan_in_one_micro_batch(play, never):
    """The mean of the other parts would look like that of all."""
    played = play(ppo={"micro_batch_size": 5, "num_minibatches": 1, "update_epochs": 1})
    rollout = played.collect()
    rollout.log_prob[5, 1, 2] = float("nan")
    targets, _ = played.learner.targets(rollout)
    metrics = played.learner.ppo.update(rollout, targets, played.learner.coefficients(), never)
    assert "heads/choice/approx_kl" not in metrics
    assert "heads/choice/entropy" in metrics


@pytest.mark.holds("G12")
def test_schedules_set_the_learning_rate_of_the_optimiser(play, never):
    rates = {"learning_rate": 1e-3, "learning_rate_final": 0.0}
    played = play(schedules={"horizon_steps": 72}, optimizer=rates, ppo={"normalized_ent_coef": 0.2})
    rates, moved = [], []
    for _ in range(3):
        before = all_but_the_critic(played.learner)
        rates.append(played.learner.learn(played.collect(), never)["charts/learning_rate"])
        moved.append(not same(before, all_but_the_critic(played.learner)))
    assert rates == pytest.approx([5e-4, 0.0, 0.0])
    assert moved == [True, False, False]
    assert played.learner.coefficients().entropy == pytest.approx(0.01)


def test_should_stop_ends_the_update_between_minibatches(play):
    played = play()
    rollout = played.collect()
    answers = iter([False, True])
    metrics = played.learner.learn(rollout, lambda: next(answers, True))
    assert metrics["losses/kl_stop"] == 0.0
    assert played.learner.ppo.optimizer.steps == 1


@pytest.mark.holds("B11")
def test_buffers_are_reused_without_leaks_from_earlier_rollouts(play, never, either_way):
    clean, dirty = play(network=either_way), play(network=either_way)
    address = dirty.rollout.observation.data_ptr()
    for field in vars(dirty.rollout).values():
        if field.is_floating_point():
            field.fill_(float("nan"))
    clean.learner.learn(clean.collect(), never)
    dirty.learner.learn(dirty.collect(), never)
    mine, theirs = clean.learner.tensors(), dirty.learner.tensors()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
    assert dirty.rollout.observation.data_ptr() == address


@pytest.mark.holds("G8")
def test_critic_has_its_own_learning_rate(play, never):
    def moved(factor):
        played = play(optimizer={"critic_lr_scale": factor}, ppo={"update_epochs": 1, "num_minibatches": 1})
        before = parameters(played.learner)
        played.learner.learn(played.collect(), never)
        return {name: tensor - before[name] for name, tensor in parameters(played.learner).items()}

    plain, fast = moved(1.0), moved(3.0)
    for name, step in plain.items():
        factor = 3.0 if name.startswith("critic") else 1.0
        torch.testing.assert_close(fast[name], factor * step, rtol=1e-3, atol=1e-7)


@pytest.mark.holds("G9", "S13")
def test_weight_decay_applies_to_the_critic_only(play):
    learner = play(optimizer={"critic_weight_decay": 0.5}).learner
    before = parameters(learner)
    learner.ppo.optimizer.learning_rate = 0.1
    learner.ppo.optimizer.step()
    for name, after in parameters(learner).items():
        factor = 0.95 if name == "critic.weight" else 1.0
        torch.testing.assert_close(after, factor * before[name])


@pytest.mark.holds("E3")
def test_value_coefficient_warms_up(play, never):
    """A rollout is 36 environment steps."""
    played = play(ppo={"vf_coef": 0.8, "vf_coef_warm_up_steps": 144})
    weights_of_the_critic = []
    for _ in range(5):
        played.learner.learn(played.collect(), never)
        weights_of_the_critic.append(played.learner.coefficients().value)
    assert weights_of_the_critic == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.8])
    assert play().learner.coefficients().value == 0.5


@pytest.mark.holds("A5")
@pytest.mark.parametrize(("push", "bound"), [(1.0, LOG_STD_RANGE[1]), (-1.0, LOG_STD_RANGE[0])])
def test_log_std_stays_at_its_bound_and_can_leave_it(play, never, either_way, push, bound):
    """Of actions at the mean, good ones narrow a distribution and bad ones widen it."""
    played = play(
        network=either_way,
        ppo={"update_epochs": 1, "num_minibatches": 1, "target_kl": 1e9, **NO_BONUS},
        optimizer={"learning_rate": 0.5, "learning_rate_final": 0.5, "max_grad_norm": 1e-4},
    )
    learner, network = played.learner, played.learner.network
    with torch.no_grad():
        network.raw_log_std.fill_(bound + 3.0 * push)  # as a run from before there was a bound may have saved it

    def pushed(advantage):
        with torch.no_grad():
            network.actor.weight.zero_()
            network.actor.bias.zero_()
        rollout = played.collect()
        targets, _ = learner.targets(rollout)
        rollout.raw_action[..., network.layout.parts[0].raw] = 0.0
        targets.advantage.fill_(advantage)
        learner.ppo.update(rollout, targets, learner.coefficients(), never)
        return network.raw_log_std.tolist()

    for _ in range(3):
        assert pushed(-push) == [bound, bound]
    learner.ppo.optimizer.restore({})  # Adam would go on outwards for a while
    assert all(0.0 < (bound - raw) * push < 1.0 for raw in pushed(push))


def test_saved_log_std_is_clamped_to_its_bounds(play):
    learner = play().learner
    with torch.no_grad():
        learner.network.raw_log_std.copy_(torch.tensor([-9.0, 7.0]))
    resumed = play().learner
    resumed.restore(learner.tensors(), 0, 0)
    assert resumed.network.raw_log_std.tolist() == list(LOG_STD_RANGE)
