import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.ppo.targets.gae import agent_transitions, effective_horizon, gae, masked_gae


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


@pytest.mark.holds("C1")
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


@pytest.mark.holds("C2")
def test_termination_drops_bootstrap_and_recursion():
    end = flags(True, False)
    advantage = gae(column(1.0, 9.0), column(0.5, 0.0), column(99.0, 0.0), end, end, gamma=0.9, lam=0.9)
    assert advantage[0].item() == pytest.approx(0.5)


@pytest.mark.holds("C3")
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


@pytest.mark.holds("C1")
@pytest.mark.parametrize("seed", range(3))
def test_gae_equals_the_sum_of_terms(seed):
    case = random_case(40, 5, seed)
    expected = reference(*case, 0.97, 0.9)
    torch.testing.assert_close(gae(*case, gamma=0.97, lam=0.9).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.holds("C1")
def test_lambda_zero_is_the_one_step_error():
    rewards, values, next_values, terminated, episode_end = random_case(20, 3, 0)
    errors = rewards + 0.9 * next_values * (~terminated) - values
    result = gae(rewards, values, next_values, terminated, episode_end, gamma=0.9, lam=0.0)
    torch.testing.assert_close(result, errors)


@pytest.mark.holds("C1")
def test_lambda_one_is_the_discounted_return_minus_the_value():
    rewards, values = torch.ones(50, 1), torch.full((50, 1), 0.3)
    end = no_flags((50, 1))
    end[-1] = True
    result = gae(rewards, values, torch.zeros(50, 1) + 0.3, end, end, gamma=0.9, lam=1.0)
    returns = (1.0 - 0.9**50) / 0.1
    assert result[0].item() == pytest.approx(returns - 0.3, rel=1e-5)


@pytest.mark.holds("C1")
def test_gamma_zero_is_the_reward_minus_the_value():
    rewards, values, next_values, terminated, episode_end = random_case(10, 2, 1)
    result = gae(rewards, values, next_values, terminated, episode_end, gamma=0.0, lam=0.95)
    torch.testing.assert_close(result, rewards - values)


@pytest.mark.holds("C1", "S16")
def test_long_rollouts_stay_accurate_in_single_precision():
    rewards, values, next_values, _, _ = random_case(4096, 2, 2)
    nothing = no_flags((4096, 2))
    single = gae(rewards, values, next_values, nothing, nothing, gamma=0.995, lam=0.97)
    double = gae(rewards.double(), values.double(), next_values.double(), nothing, nothing, gamma=0.995, lam=0.97)
    assert ((single - double).abs() / double.abs().clamp(min=1.0)).max() < 1e-4


@pytest.mark.holds("B12")
def test_advantages_do_not_depend_on_other_environments():
    rewards, values, next_values, terminated, episode_end = random_case(30, 4, 3)
    before = gae(rewards, values, next_values, terminated, episode_end, gamma=0.99, lam=0.95)
    rewards[:, 2] += 5.0
    after = gae(rewards, values, next_values, terminated, episode_end, gamma=0.99, lam=0.95)
    assert torch.equal(before[:, [0, 1, 3]], after[:, [0, 1, 3]])


@pytest.mark.holds("C5", "S14")
@pytest.mark.parametrize(
    ("gamma", "lam", "expected"), [(0.99, 0.95, 16.8), (0.98, 0.90, 8.5), (0.995, 0.97, 28.7), (1.0, 1.0, math.inf)]
)
def test_effective_horizon(gamma, lam, expected):
    assert effective_horizon(gamma, lam) == pytest.approx(expected, abs=0.05)


# --- transitions of each agent --------------------------------------------------------------------------------------


def transitions_of(
    reward,
    active,
    *,
    terminated=None,
    truncated=None,
    last_active=True,
    turn_based=True,
    limit_decides=False,
    final=0.0,
    expected_return=0.0,
):
    """Step t has value 100 (t + 1), the step after the rollout 5000; dead agents have `expected_return`."""
    steps = len(reward)
    out = flags(*(not turn_based and not acts for acts in active))
    value = (torch.arange(1.0, steps + 1).unsqueeze(1) * 100).masked_fill(out, expected_return)
    terminated = flags(*(terminated or [False] * steps))
    truncated = flags(*(truncated or [False] * steps))
    return agent_transitions(
        column(*reward),
        value,
        torch.full((steps, 1), final),
        terminated,
        truncated,
        flags(*active),
        torch.tensor([5000.0 if last_active or turn_based else expected_return]),
        torch.tensor([last_active]),
        turn_based=turn_based,
        limit_decides=limit_decides,
    )


def test_transitions_are_the_steps_if_all_agents_act():
    transitions = transitions_of(
        [1.0, 2.0, 3.0], [True] * 3, truncated=[False, True, False], final=7.0, turn_based=False
    )
    assert transitions.order.squeeze().tolist() == [0, 1, 2]
    assert transitions.reward.squeeze().tolist() == [1.0, 2.0, 3.0]
    assert transitions.next_value.squeeze().tolist() == [200.0, 7.0, 5000.0]
    assert transitions.episode_end.squeeze().tolist() == [False, True, False]
    assert transitions.valid.all()


@pytest.mark.parametrize("limit_decides", [False, True])
def test_simultaneous_games_equal_turn_based_games_in_which_all_agents_act(limit_decides):
    """The turn-based code is a loop over time, the other is not; dead agents differ in `valid` alone."""
    rng = torch.Generator().manual_seed(0)
    reward, value, final = torch.randn(3, 30, 8, generator=rng)
    terminated, truncated, active = torch.rand(3, 30, 8, generator=rng) < torch.tensor([0.2, 0.2, 0.6]).view(3, 1, 1)
    all_active = torch.ones_like(active)
    last = torch.randn(8, generator=rng), all_active[0]

    def transitions(acting, *, turn_based):
        given = reward, value, final, terminated, truncated, acting, *last
        return agent_transitions(*given, turn_based=turn_based, limit_decides=limit_decides)

    expected, found = transitions(all_active, turn_based=True), transitions(active, turn_based=False)
    for field in ("order", "reward", "value", "next_value", "terminated", "episode_end", "known"):
        assert torch.equal(getattr(found, field), getattr(expected, field)), field
    assert torch.equal(found.valid, active)


@pytest.mark.parametrize(("limit_decides", "advantage"), [(False, 2.0 + 0.5 * 8.0 - 200.0), (True, 2.0 - 200.0)])
def test_limit_that_decides_the_match_has_no_bootstrap(limit_decides, advantage):
    """Otherwise the value of the final observation is the bootstrap."""
    transitions = transitions_of(
        [1.0, 2.0], [True] * 2, truncated=[False, True], final=8.0, limit_decides=limit_decides
    )
    assert transitions.terminated.squeeze().tolist() == [False, limit_decides]
    assert transitions.episode_end.squeeze().tolist() == [False, True]
    result = masked_gae(transitions, gamma=0.5, lam=0.9)
    assert result[1].item() == pytest.approx(advantage)


def test_limit_that_decides_terminates_the_transition_of_a_waiting_agent():
    transitions = transitions_of(
        [1.0, 2.0, 3.0], [True, False, True], truncated=[False, True, False], limit_decides=True
    )
    assert transitions.terminated.squeeze().tolist()[:2] == [True, False]


def test_rewards_between_two_turns_belong_to_the_earlier_one():
    transitions = transitions_of([1.0, 2.0, 4.0, 8.0], [True, False, True, False], last_active=True)
    assert transitions.valid.squeeze().tolist() == [True, True, False, False]
    assert transitions.reward.squeeze()[:2].tolist() == [3.0, 12.0]
    assert transitions.next_value.squeeze()[:2].tolist() == [300.0, 5000.0]


def test_game_ended_by_the_opponent_terminates_the_previous_turn():
    transitions = transitions_of(
        [0.0, -1.0, 5.0, 0.0], [True, False, True, True], terminated=[False, True, False, False]
    )
    assert transitions.terminated.squeeze().tolist()[:3] == [True, False, False]
    assert transitions.reward.squeeze()[0].item() == -1.0


def test_turn_without_a_known_successor_is_invalid_and_serves_as_bootstrap():
    transitions = transitions_of([1.0, 2.0, 4.0], [True, True, False], last_active=False)
    assert transitions.valid.squeeze().tolist() == [True, False, False]
    advantage = masked_gae(transitions, gamma=1.0, lam=1.0)
    assert advantage.squeeze().tolist() == [1.0 + 200.0 - 100.0, 0.0, 0.0]


def played_in_turns(steps, rows, longest_wait, rng):
    """Agents that wait 0 to `longest_wait` steps for their next turn, in games that end at random."""
    ended = torch.rand(steps, rows, generator=rng) < 0.2
    active, left = torch.zeros(steps, rows, dtype=torch.bool), torch.zeros(rows, dtype=torch.int64)
    for t in range(steps):
        active[t] = left == 0
        wait = torch.randint(longest_wait + 1, (rows,), generator=rng)
        left = torch.where(active[t] | ended[t], wait, left - 1)
    return active, ended, left == 0


@pytest.mark.integration
@pytest.mark.holds("C1")
@given(longest_wait=st.integers(1, 5), seed=st.integers(0, 1000))
def test_valid_turns_depend_on_position_and_not_on_the_action(longest_wait, seed):
    """Neither the end of a game nor the time of the next turn excludes or includes a turn."""
    steps, rows = 24, 200
    active, ended, last_active = played_in_turns(steps, rows, longest_wait, torch.Generator().manual_seed(seed))
    zeros = torch.zeros(steps, rows)
    transitions = agent_transitions(
        zeros, zeros, zeros, ended, no_flags((steps, rows)), active, zeros[0], last_active,
        turn_based=True, limit_decides=False,
    )  # fmt: skip
    assert transitions.longest_wait == longest_wait
    early = torch.arange(steps).unsqueeze(1) < steps - longest_wait
    assert torch.equal(transitions.restore(transitions.valid), active & early)


def test_waits_of_earlier_rollouts_exclude_as_many_turns():
    shape, zeros = (20, 1), torch.zeros(20, 1)
    given = zeros, zeros, zeros, no_flags(shape), no_flags(shape), ~no_flags(shape), zeros[0], ~no_flags((1,))
    counted = [
        int(agent_transitions(*given, turn_based=True, limit_decides=False, longest_wait=wait).valid.sum())
        for wait in (0, 3, 5, 19)
    ]
    assert counted == [20, 17, 15, 15], "a quarter of the rollout is left out at most"


def test_advantages_bootstrap_from_the_first_excluded_turn():
    """That turn ends the game with reward 8; after another action, this would be unknown."""
    steps = 8
    acts = [True] * (steps - 2) + [False, True]
    ended = flags(*[False] * (steps - 1), True)
    transitions = agent_transitions(
        column(*[0.0] * (steps - 1), 8.0), torch.full((steps, 1), 3.0), torch.zeros(steps, 1), ended,
        no_flags((steps, 1)), flags(*acts), torch.zeros(1), torch.ones(1, dtype=torch.bool),
        turn_based=True, limit_decides=False,
    )  # fmt: skip
    assert transitions.longest_wait == 1
    advantage = advantage_of(transitions, gamma=0.5, lam=1.0).squeeze()
    assert advantage[-3].item() == pytest.approx(0.5 * 3.0 - 3.0)
    assert advantage[-1].item() == 0.0


def advantage_of(transitions, *, gamma, lam):
    return transitions.restore(masked_gae(transitions, gamma=gamma, lam=lam))


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
def test_death_is_a_termination_if_the_dead_earn_nothing(lam):
    transitions = transitions_of([1.0, 2.0, 0.0, 0.0], [True, True, False, False], last_active=False, turn_based=False)
    assert transitions.valid.squeeze().tolist() == [True, True, False, False]
    advantage = advantage_of(transitions, gamma=0.5, lam=lam)
    assert advantage[1].item() == pytest.approx(2.0 - 200.0)
    assert advantage[2:].abs().max() == 0.0


def test_rewards_after_death_reach_the_last_action_discounted_by_steps():
    acted, ends = [True, True, False, False, False], [False] * 4 + [True]
    transitions = transitions_of([1.0, 2.0, 0.0, 4.0, 8.0], acted, terminated=ends, turn_based=False)
    advantage = advantage_of(transitions, gamma=0.5, lam=1.0)
    assert advantage[1].item() == pytest.approx(2.0 + 0.5**2 * 4.0 + 0.5**3 * 8.0 - 200.0)
    assert transitions.valid.squeeze().tolist() == acted


@pytest.mark.parametrize(("lam", "back"), [(0.0, 0.5 * 40.0), (1.0, 0.5**2 * 4.0 + 0.5**3 * 40.0)])
def test_expected_return_of_the_dead_bootstraps_at_the_end_of_a_rollout(lam, back):
    acted = [True, True, False, False]
    transitions = transitions_of([1.0, 2.0, 0.0, 4.0], acted, last_active=False, turn_based=False, expected_return=40.0)
    assert advantage_of(transitions, gamma=0.5, lam=lam)[1].item() == pytest.approx(2.0 + back - 200.0)


@given(st.lists(st.floats(-5.0, 5.0), min_size=2, max_size=8), st.data())
def test_rollout_boundary_changes_nothing_if_the_expected_return_is_exact(paid, data):
    """An agent dies at the first step; the match is estimated as a whole, and cut by the end of a rollout."""
    border = data.draw(st.integers(1, len(paid) - 1))
    expected_return = sum(0.9**k * reward for k, reward in enumerate(paid[border:]))
    acted = [True] + [False] * (len(paid) - 1)
    whole = transitions_of(paid, acted, terminated=[*[False] * (len(paid) - 1), True], turn_based=False)
    first = transitions_of(
        paid[:border], acted[:border], last_active=False, turn_based=False, expected_return=expected_return
    )
    one, other = (advantage_of(transitions, gamma=0.9, lam=1.0)[0].item() for transitions in (whole, first))
    assert one == pytest.approx(other, abs=1e-3)


def test_rewards_of_the_next_match_do_not_reach_the_previous_one():
    transitions = transitions_of(
        [1.0, 2.0, 50.0], [True, False, True], terminated=[False, True, False], turn_based=False
    )
    assert advantage_of(transitions, gamma=0.5, lam=1.0)[0].item() == pytest.approx(1.0 + 0.5 * 2.0 - 100.0)


@pytest.mark.holds("C3")
@pytest.mark.parametrize("turn_based", [False, True])
@pytest.mark.parametrize("last", range(6))
def test_consecutive_matches_are_estimated_independently(turn_based, last):
    """A limit truncates the first match at step `last`; the value behind it must not matter."""
    reward, value, final = torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(last))
    truncated = (torch.arange(6) == last).unsqueeze(1).expand(6, 2)

    def advantages(part, behind):
        shape = reward[part].shape
        transitions = agent_transitions(
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
        return advantage_of(transitions, gamma=0.9, lam=0.8)

    together, first, second = advantages(slice(6), 3.0), slice(last + 1), slice(last + 1, 6)
    assert torch.equal(together[first], advantages(first, 1e6))
    torch.testing.assert_close(together[last], reward[last] + 0.9 * final[last] - value[last])
    if last < 5:
        assert torch.equal(together[second], advantages(second, 3.0))


def test_rewards_before_the_first_turn_of_an_episode_are_dropped():
    transitions = transitions_of([1.0, 50.0, 2.0], [True, False, True], terminated=[True, False, False])
    assert transitions.reward.squeeze()[:2].tolist() == [1.0, 2.0]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.booleans())
def test_restore_returns_values_to_their_steps(active, last_active):
    transitions = transitions_of([float(t) for t in range(len(active))], active, last_active=last_active)
    restored = transitions.restore(transitions.value).squeeze(1).tolist()
    assert restored == [100.0 * (t + 1) for t in range(len(active))]
    counted = transitions.restore(transitions.valid).squeeze(1).tolist()
    assert all(acts for acts, counts in zip(active, counted, strict=True) if counts)


def test_alternating_turns_give_the_advantages_of_each_side_alone():
    """Each side's advantages are those of its own turns, with the rewards in between added."""
    rewards = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    active = [True, False] * 3
    transitions = transitions_of(rewards.tolist(), active, terminated=[False] * 5 + [True])
    result = transitions.restore(masked_gae(transitions, gamma=0.9, lam=0.8))
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
