import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.ppo.targets.gae import agent_transitions, estimate, gae, horizon


def column(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).unsqueeze(1)


def flags(*values):
    return column(*values, dtype=torch.bool)


def no_flags(shape):
    return torch.zeros(shape, dtype=torch.bool)


def reference(rewards, values, next_values, terminated, episode_end, gamma, lam):
    """A[t] summed term by term in float64, without a recursion."""
    steps, width = rewards.shape
    result = torch.zeros(steps, width, dtype=torch.float64)
    deltas = rewards.double() + gamma * next_values.double() * (~terminated) - values.double()
    for column_number in range(width):
        for t in range(steps):
            weight = 1.0
            for later in range(t, steps):
                result[t, column_number] += weight * deltas[later, column_number]
                if episode_end[later, column_number]:
                    break
                weight *= gamma * lam
    return result


def random_case(steps, width, seed):
    rng = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, steps, width, generator=rng)
    next_values = torch.cat([values[1:], torch.randn(1, width, generator=rng)])
    episode_end = torch.rand(steps, width, generator=rng) < 0.1
    terminated = episode_end & (torch.rand(steps, width, generator=rng) < 0.5)
    return rewards, values, next_values, terminated, episode_end


def test_gae_by_hand():
    advantage = gae(
        column(1.0, 2.0, 3.0),
        column(0.5, 1.0, 1.5),
        column(1.0, 1.5, 2.0),
        flags(False, False, False),
        flags(False, False, False),
        gamma=0.5,
        lam=0.5,
    )
    deltas = [1.0 + 0.5 * 1.0 - 0.5, 2.0 + 0.5 * 1.5 - 1.0, 3.0 + 0.5 * 2.0 - 1.5]
    last = deltas[2]
    middle = deltas[1] + 0.25 * last
    torch.testing.assert_close(advantage, column(deltas[0] + 0.25 * middle, middle, last))


def test_termination_loses_bootstrap_and_recursion():
    end = flags(True, False)
    advantage = gae(column(1.0, 9.0), column(0.5, 0.0), column(99.0, 0.0), end, end, gamma=0.9, lam=0.9)
    assert advantage[0].item() == pytest.approx(0.5)


def test_truncation_keeps_the_bootstrap_of_the_final_observation_and_cuts_the_recursion():
    advantage = gae(
        column(1.0, 9.0),
        column(0.5, 0.0),
        column(2.0, 0.0),
        flags(False, False),
        flags(True, False),
        gamma=0.9,
        lam=0.9,
    )
    assert advantage[0].item() == pytest.approx(1.0 + 0.9 * 2.0 - 0.5)


@pytest.mark.parametrize("seed", range(3))
def test_gae_equals_the_sum_of_terms(seed):
    case = random_case(40, 5, seed)
    expected = reference(*case, 0.97, 0.9)
    torch.testing.assert_close(gae(*case, gamma=0.97, lam=0.9).double(), expected, rtol=1e-4, atol=1e-5)


def test_lambda_zero_is_the_one_step_error():
    rewards, values, next_values, terminated, episode_end = random_case(20, 3, 0)
    errors = rewards + 0.9 * next_values * (~terminated) - values
    result = gae(rewards, values, next_values, terminated, episode_end, gamma=0.9, lam=0.0)
    torch.testing.assert_close(result, errors)


def test_lambda_one_is_the_discounted_return_minus_the_value():
    rewards, values = torch.ones(50, 1), torch.full((50, 1), 0.3)
    end = no_flags((50, 1))
    end[-1] = True
    result = gae(rewards, values, torch.zeros(50, 1) + 0.3, end, end, gamma=0.9, lam=1.0)
    returns = (1.0 - 0.9**50) / 0.1
    assert result[0].item() == pytest.approx(returns - 0.3, rel=1e-5)


def test_gamma_zero_is_the_reward_minus_the_value():
    rewards, values, next_values, terminated, episode_end = random_case(10, 2, 1)
    result = gae(rewards, values, next_values, terminated, episode_end, gamma=0.0, lam=0.95)
    torch.testing.assert_close(result, rewards - values)


def test_long_rollouts_stay_accurate_in_single_precision():
    rewards, values, next_values, _, _ = random_case(4096, 2, 2)
    nothing = no_flags((4096, 2))
    single = gae(rewards, values, next_values, nothing, nothing, gamma=0.995, lam=0.97)
    double = gae(rewards.double(), values.double(), next_values.double(), nothing, nothing, gamma=0.995, lam=0.97)
    assert ((single - double).abs() / double.abs().clamp(min=1.0)).max() < 1e-4


def test_an_environment_never_sees_its_neighbours_rewards():
    rewards, values, next_values, terminated, episode_end = random_case(30, 4, 3)
    before = gae(rewards, values, next_values, terminated, episode_end, gamma=0.99, lam=0.95)
    rewards[:, 2] += 5.0
    after = gae(rewards, values, next_values, terminated, episode_end, gamma=0.99, lam=0.95)
    assert torch.equal(before[:, [0, 1, 3]], after[:, [0, 1, 3]])


@pytest.mark.parametrize(
    ("gamma", "lam", "turns"), [(0.99, 0.95, 16.8), (0.98, 0.90, 8.5), (0.995, 0.97, 28.7), (1.0, 1.0, math.inf)]
)
def test_the_horizon_of_an_estimate(gamma, lam, turns):
    assert horizon(gamma, lam) == pytest.approx(turns, abs=0.05)


# --- own turns ------------------------------------------------------------------------------------------------------


def turns_of(
    reward,
    active,
    *,
    terminated=None,
    truncated=None,
    last_active=True,
    turn_based=True,
    limit_decides=False,
    final=0.0,
    owed=0.0,
):
    """Decision t is worth 100 (t + 1), what follows the rollout 5000; of the dead both are `owed`."""
    steps = len(reward)
    out = flags(*(not turn_based and not acts for acts in active))
    value = (torch.arange(1.0, steps + 1).unsqueeze(1) * 100).masked_fill(out, owed)
    terminated = flags(*(terminated or [False] * steps))
    truncated = flags(*(truncated or [False] * steps))
    return agent_transitions(
        column(*reward),
        value,
        torch.full((steps, 1), final),
        terminated,
        truncated,
        flags(*active),
        torch.tensor([5000.0 if last_active or turn_based else owed]),
        torch.tensor([last_active]),
        turn_based=turn_based,
        limit_decides=limit_decides,
    )


def test_where_everybody_acts_turns_are_the_decisions():
    turns = turns_of([1.0, 2.0, 3.0], [True] * 3, truncated=[False, True, False], final=7.0, turn_based=False)
    assert turns.order.squeeze().tolist() == [0, 1, 2]
    assert turns.reward.squeeze().tolist() == [1.0, 2.0, 3.0]
    assert turns.next_value.squeeze().tolist() == [200.0, 7.0, 5000.0]
    assert turns.episode_end.squeeze().tolist() == [False, True, False]
    assert turns.valid.all()


@pytest.mark.parametrize("limit_decides", [False, True])
def test_without_turns_all_decisions_are_looked_at_like_turns_of_whoever_always_moves(limit_decides):
    """The one way goes through time, the other looks at all of it at once; the dead differ in what is learned alone."""
    rng = torch.Generator().manual_seed(0)
    reward, value, final = torch.randn(3, 30, 8, generator=rng)
    terminated, truncated, active = torch.rand(3, 30, 8, generator=rng) < torch.tensor([0.2, 0.2, 0.6]).view(3, 1, 1)
    everybody = torch.ones_like(active)
    last = torch.randn(8, generator=rng), everybody[0]

    def turns(acting, *, turn_based):
        given = reward, value, final, terminated, truncated, acting, *last
        return agent_transitions(*given, turn_based=turn_based, limit_decides=limit_decides)

    expected, found = turns(everybody, turn_based=True), turns(active, turn_based=False)
    for field in ("order", "reward", "value", "next_value", "terminated", "episode_end", "known"):
        assert torch.equal(getattr(found, field), getattr(expected, field)), field
    assert torch.equal(found.valid, active)


@pytest.mark.parametrize(("limit_decides", "advantage"), [(False, 2.0 + 0.5 * 8.0 - 200.0), (True, 2.0 - 200.0)])
def test_after_a_limit_that_decides_nothing_is_owed(limit_decides, advantage):
    """Elsewhere a limit owes what the final observation is worth."""
    turns = turns_of([1.0, 2.0], [True] * 2, truncated=[False, True], final=8.0, limit_decides=limit_decides)
    assert turns.terminated.squeeze().tolist() == [False, limit_decides]
    assert turns.episode_end.squeeze().tolist() == [False, True]
    result = estimate(turns, gamma=0.5, lam=0.9)
    assert result[1].item() == pytest.approx(advantage)


def test_a_limit_that_decides_ends_the_turn_of_whoever_waits():
    turns = turns_of([1.0, 2.0, 3.0], [True, False, True], truncated=[False, True, False], limit_decides=True)
    assert turns.terminated.squeeze().tolist()[:2] == [True, False]


def test_what_comes_between_two_turns_belongs_to_the_earlier_one():
    turns = turns_of([1.0, 2.0, 4.0, 8.0], [True, False, True, False], last_active=True)
    assert turns.valid.squeeze().tolist() == [True, True, False, False]
    assert turns.reward.squeeze()[:2].tolist() == [3.0, 12.0]
    assert turns.next_value.squeeze()[:2].tolist() == [300.0, 5000.0]


def test_a_game_that_the_other_side_ends_ends_the_turn_before():
    turns = turns_of([0.0, -1.0, 5.0, 0.0], [True, False, True, True], terminated=[False, True, False, False])
    assert turns.terminated.squeeze().tolist()[:3] == [True, False, False]
    assert turns.reward.squeeze()[0].item() == -1.0


def test_a_turn_with_unknown_consequences_does_not_count_and_lends_its_value():
    turns = turns_of([1.0, 2.0, 4.0], [True, True, False], last_active=False)
    assert turns.valid.squeeze().tolist() == [True, False, False]
    advantage = estimate(turns, gamma=1.0, lam=1.0)
    assert advantage.squeeze().tolist() == [1.0 + 200.0 - 100.0, 0.0, 0.0]


def played_in_turns(steps, rows, longest_wait, rng):
    """Agents that wait 0 to `longest_wait` decisions for their next turn, in games that end by chance at any time."""
    ended = torch.rand(steps, rows, generator=rng) < 0.2
    active, left = torch.zeros(steps, rows, dtype=torch.bool), torch.zeros(rows, dtype=torch.int64)
    for t in range(steps):
        active[t] = left == 0
        wait = torch.randint(longest_wait + 1, (rows,), generator=rng)
        left = torch.where(active[t] | ended[t], wait, left - 1)
    return active, ended, left == 0


@given(longest_wait=st.integers(1, 5), seed=st.integers(0, 1000))
def test_which_turns_count_depends_on_their_position_alone_and_not_on_the_action(longest_wait, seed):
    """Whether a game ends with an action, or when the next turn comes, leaves no turn out and keeps none."""
    steps, rows = 24, 200
    active, ended, last_active = played_in_turns(steps, rows, longest_wait, torch.Generator().manual_seed(seed))
    zeros = torch.zeros(steps, rows)
    turns = agent_transitions(
        zeros, zeros, zeros, ended, no_flags((steps, rows)), active, zeros[0], last_active,
        turn_based=True, limit_decides=False,
    )  # fmt: skip
    assert turns.longest_wait == longest_wait
    early = torch.arange(steps).unsqueeze(1) < steps - longest_wait
    assert torch.equal(turns.restore(turns.valid), active & early)


def test_waits_of_earlier_rollouts_leave_out_as_many_turns():
    shape, zeros = (20, 1), torch.zeros(20, 1)
    given = zeros, zeros, zeros, no_flags(shape), no_flags(shape), ~no_flags(shape), zeros[0], ~no_flags((1,))
    counted = [
        int(agent_transitions(*given, turn_based=True, limit_decides=False, longest_wait=wait).valid.sum())
        for wait in (0, 3, 5, 19)
    ]
    assert counted == [20, 17, 15, 15], "a quarter of the rollout is left out at most"


def test_an_advantage_ends_at_the_value_of_the_first_turn_that_does_not_count():
    """That turn ends the game for a reward of 8: with another action there that would not be known."""
    steps = 8
    acts = [True] * (steps - 2) + [False, True]
    ended = flags(*[False] * (steps - 1), True)
    turns = agent_transitions(
        column(*[0.0] * (steps - 1), 8.0), torch.full((steps, 1), 3.0), torch.zeros(steps, 1), ended,
        no_flags((steps, 1)), flags(*acts), torch.zeros(1), torch.ones(1, dtype=torch.bool),
        turn_based=True, limit_decides=False,
    )  # fmt: skip
    assert turns.longest_wait == 1
    advantage = advantage_of(turns, gamma=0.5, lam=1.0).squeeze()
    assert advantage[-3].item() == pytest.approx(0.5 * 3.0 - 3.0)
    assert advantage[-1].item() == 0.0


def advantage_of(turns, *, gamma, lam):
    return turns.restore(estimate(turns, gamma=gamma, lam=lam))


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_where_the_dead_earn_nothing_a_death_is_the_end(lam):
    turns = turns_of([1.0, 2.0, 0.0, 0.0], [True, True, False, False], last_active=False, turn_based=False)
    assert turns.valid.squeeze().tolist() == [True, True, False, False]
    advantage = advantage_of(turns, gamma=0.5, lam=lam)
    assert advantage[1].item() == pytest.approx(2.0 - 200.0)
    assert advantage[2:].abs().max() == 0.0


def test_what_the_dead_are_paid_comes_back_to_their_last_turn_discounted_by_decisions():
    acted, ends = [True, True, False, False, False], [False] * 4 + [True]
    turns = turns_of([1.0, 2.0, 0.0, 4.0, 8.0], acted, terminated=ends, turn_based=False)
    advantage = advantage_of(turns, gamma=0.5, lam=1.0)
    assert advantage[1].item() == pytest.approx(2.0 + 0.5**2 * 4.0 + 0.5**3 * 8.0 - 200.0)
    assert turns.valid.squeeze().tolist() == acted


@pytest.mark.parametrize(("lam", "back"), [(0.0, 0.5 * 40.0), (1.0, 0.5**2 * 4.0 + 0.5**3 * 40.0)])
def test_what_the_dead_are_owed_after_the_rollout_stands_for_what_comes(lam, back):
    acted = [True, True, False, False]
    turns = turns_of([1.0, 2.0, 0.0, 4.0], acted, last_active=False, turn_based=False, owed=40.0)
    assert advantage_of(turns, gamma=0.5, lam=lam)[1].item() == pytest.approx(2.0 + back - 200.0)


@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=8), st.data())
def test_where_what_is_owed_is_known_a_border_of_rollouts_changes_nothing(paid, data):
    """An agent falls at the first decision; the match is seen whole, and cut where a rollout could end."""
    border = data.draw(st.integers(1, len(paid) - 1))
    owed = sum(0.9**k * reward for k, reward in enumerate(paid[border:]))
    acted = [True] + [False] * (len(paid) - 1)
    whole = turns_of(paid, acted, terminated=[*[False] * (len(paid) - 1), True], turn_based=False)
    first = turns_of(paid[:border], acted[:border], last_active=False, turn_based=False, owed=owed)
    one, other = (advantage_of(turns, gamma=0.9, lam=1.0)[0].item() for turns in (whole, first))
    assert one == pytest.approx(other, abs=1e-3)


def test_the_next_match_pays_nothing_for_the_last_one():
    turns = turns_of([1.0, 2.0, 50.0], [True, False, True], terminated=[False, True, False], turn_based=False)
    assert advantage_of(turns, gamma=0.5, lam=1.0)[0].item() == pytest.approx(1.0 + 0.5 * 2.0 - 100.0)


@pytest.mark.parametrize("turn_based", [False, True])
@pytest.mark.parametrize("last", range(6))
def test_two_matches_in_a_row_are_estimated_as_if_each_were_alone(turn_based, last):
    """A limit cuts the first one off with decision `last`; what is behind a match that is alone is no part of it."""
    reward, value, final = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(last))
    truncated = (torch.arange(6) == last).unsqueeze(1).expand(6, 2)

    def advantages(part, behind):
        shape = reward[part].shape
        turns = agent_transitions(
            reward[part],
            value[part],
            final[part],
            no_flags(shape),
            truncated[part],
            ~no_flags(shape),
            torch.full((2,), behind),
            ~no_flags(2),
            turn_based=turn_based,
            limit_decides=False,
        )
        return advantage_of(turns, gamma=0.9, lam=0.8)

    together, first, second = advantages(slice(6), 3.0), slice(last + 1), slice(last + 1, 6)
    assert torch.equal(together[first], advantages(first, 1e6))
    torch.testing.assert_close(together[last], reward[last] + 0.9 * final[last] - value[last])
    if last < 5:
        assert torch.equal(together[second], advantages(second, 3.0))


def test_rewards_before_the_first_own_turn_of_an_episode_belong_to_nobody():
    turns = turns_of([1.0, 50.0, 2.0], [True, False, True], terminated=[True, False, False])
    assert turns.reward.squeeze()[:2].tolist() == [1.0, 2.0]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.booleans())
def test_restoring_puts_every_turn_back_where_it_was(active, last_active):
    turns = turns_of([float(t) for t in range(len(active))], active, last_active=last_active)
    restored = turns.restore(turns.value).squeeze(1).tolist()
    assert restored == [100.0 * (t + 1) for t in range(len(active))]
    counted = turns.restore(turns.valid).squeeze(1).tolist()
    assert all(acts for acts, counts in zip(active, counted, strict=True) if counts)


def test_alternating_turns_give_the_advantages_of_each_side_alone():
    """Two sides that move in turn: each side's estimate is that of its own moves, rewards in between added."""
    rewards = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    active = [True, False] * 3
    turns = turns_of(rewards.tolist(), active, terminated=[False] * 5 + [True])
    result = turns.restore(estimate(turns, gamma=0.9, lam=0.8))
    alone = gae(
        column(3.0, 7.0, 11.0),
        column(100.0, 300.0, 500.0),
        column(300.0, 500.0, 0.0),
        flags(False, False, True),
        flags(False, False, True),
        gamma=0.9,
        lam=0.8,
    )
    torch.testing.assert_close(result.squeeze()[::2], alone.squeeze())
    assert math.isclose(float(result[1]), 0.0)
