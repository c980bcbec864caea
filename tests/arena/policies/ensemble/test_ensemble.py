import itertools
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch
from policy_stacks import (
    ARCHITECTURES,
    CLOSE,
    CPU,
    SLOTS,
    SMALL,
    WITH_SETS,
    batched,
    native,
    network_of,
    networks_of,
    observation_of,
    rows_of,
    stack_of,
    state_of,
)
from refused import refused

from arena.environments.spec import HeadKind
from arena.policies import ActorCritic, NetworkPolicy, RecurrentState
from arena.policies.ensemble.ensemble import LiveNetwork
from arena.policies.ensemble.native_backend import CHUNK, NativeBackend, fits
from arena.policies.ensemble.torch_backend import RowLayout, TorchBackend
from arena.policies.nn.distributions import ActionDistribution


@pytest.fixture(params=[native, batched])
def put_together(request):
    """Both ways to multiply."""
    return request.param


@pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=ARCHITECTURES)
@pytest.mark.parametrize("rows", [0, 1, 7, 3 * CHUNK + 5])
@pytest.mark.parametrize("crowded", [False, True])
def test_one_call_equals_a_call_for_every_policy(put_together, architecture, rows, crowded):
    assert_equal_to_every_policy_alone(put_together, architecture, rows, crowded=crowded)


OVERFLOWING = {
    "no deviation": lambda network: network.observation_std.zero_(),
    "large actor": lambda network: network.actor.weight.fill_(3e38),
    "large memory": lambda network: network.core.lstm.weight_ih_l0.fill_(3e38),
    "large mean": lambda network: network.observation_mean.fill_(3e38),
}
"""Changes after which all numbers are finite, and what a network makes of them need not be."""


@pytest.mark.parametrize("change", OVERFLOWING.values(), ids=OVERFLOWING)
@pytest.mark.parametrize("architecture", [SMALL, WITH_SETS["sets"], replace(SMALL, recurrent_size=10)])
def test_overflowing_network_still_gives_legal_actions(architecture, change):
    """Anybody may publish one: it loses, and ends nobody who plays it."""
    network = network_of(architecture, 0)
    with torch.no_grad():
        change(network)
    seen, starts, rng = observation_of(architecture, 40), torch.ones(40, dtype=torch.bool), torch.Generator()
    together = stack_of([network])
    assignment = together.assign_rows(torch.zeros(40, dtype=torch.int64))
    alone, _ = NetworkPolicy(network, "game", "").act(seen, network.initial_state(40), starts, rng)
    stacked, _ = together.act(seen, together.initial_state(40), starts, assignment, rng)
    for actions in (alone, stacked):
        for head in architecture.heads:
            action, mask = actions[head.name][seen.active], seen.masks.get(head.name)
            if head.kind is HeadKind.GAUSSIAN:
                assert (action.abs() <= 1.0).all(), head.name
            elif head.kind is HeadKind.CATEGORICAL:
                assert mask[seen.active].gather(1, action.unsqueeze(1)).all(), head.name
            elif mask is not None:
                assert not (action & ~mask[seen.active]).any(), head.name


@pytest.mark.parametrize("architecture", WITH_SETS.values(), ids=WITH_SETS)
@pytest.mark.parametrize("rows", [0, 1, 7, 3 * CHUNK + 5])
@pytest.mark.parametrize("crowded", [False, True])
def test_one_call_equals_a_call_for_every_policy_that_reads_sets(architecture, rows, crowded):
    assert not fits(architecture)
    assert_equal_to_every_policy_alone(batched, architecture, rows, crowded=crowded)


def assert_equal_to_every_policy_alone(put_together, architecture, rows, *, crowded):
    networks = networks_of(architecture)
    slots = torch.randint(0, SLOTS, (rows,))
    slots[rows // 10 :] = 2 if crowded else slots[rows // 10 :]
    seen, state, starts = observation_of(architecture, rows), state_of(networks[0], rows), torch.rand(rows) < 0.3
    with torch.inference_mode():
        together = put_together(networks).step_for(slots)(seen.values, state, starts, seen.active)
    assert together.parameters.shape == (rows, networks[0].layout.parameter_size)

    for slot, network in enumerate(networks):
        own = (slots == slot).nonzero().squeeze(1)
        view = seen.rows(own)
        with torch.inference_mode():
            alone = network.step(view.values, rows_of(state, own), starts[own], view.active)
        acting = view.active
        torch.testing.assert_close(together.parameters[own][acting], alone.parameters[acting], **CLOSE)
        torch.testing.assert_close(together.value[own][acting], alone.value[acting], **CLOSE)
        for part, expected in zip(rows_of(together.state, own), alone.state, strict=True):
            torch.testing.assert_close(part, expected, **CLOSE)
            assert torch.equal(part[~acting], expected[~acting])


def test_both_ways_stay_equal_to_the_policies_alone_over_an_episode(put_together):
    networks, rows = networks_of(SMALL), 40
    slots = torch.arange(rows) % SLOTS
    step = put_together(networks).step_for(slots)
    state, states = networks[0].initial_state(rows), [network.initial_state(rows // SLOTS) for network in networks]
    with torch.inference_mode():
        for t, _ in enumerate(range(100)):
            seen, starts = observation_of(SMALL, rows), torch.full((rows,), t == 0)
            state = step(seen.values, state, starts, seen.active).state
            for slot, network in enumerate(networks):
                view = seen.rows(slots == slot)
                states[slot] = network.step(view.values, states[slot], starts[slots == slot], view.active).state
    for slot in range(SLOTS):
        torch.testing.assert_close(state.hidden[slots == slot], states[slot].hidden, **CLOSE)


@pytest.mark.parametrize("architecture", [SMALL, replace(SMALL, recurrent_size=12)], ids=["fused", "batched"])
def test_actions_are_those_of_the_policies_alone_given_the_same_chance(architecture):
    networks, rows = networks_of(architecture), 200
    stack, slots = stack_of(networks), torch.randint(0, SLOTS, (rows,))
    seen, state = observation_of(architecture, rows), state_of(networks[0], rows)
    seen.active.fill_(True)
    starts = torch.zeros(rows, dtype=torch.bool)
    assignment = stack.assign_rows(slots)
    actions, _ = stack.act(seen, state, starts, assignment, torch.Generator().manual_seed(7))

    layout = networks[0].layout
    parameters, log_std = torch.empty(rows, layout.parameter_size), torch.empty(rows, layout.log_std_size)
    for slot, network in enumerate(networks):
        own = slots == slot
        with torch.inference_mode():
            parameters[own] = network.step(seen.values[own], rows_of(state, own), starts[own], seen.active[own])[0]
            log_std[own] = network.log_std
    mask = layout.pack_masks(seen)
    raw = ActionDistribution(layout, parameters, log_std, mask).sample(torch.Generator().manual_seed(7))
    for name, expected in layout.to_actions(raw).items():
        torch.testing.assert_close(actions[name], expected, **CLOSE)
    assert seen.masks["target"][torch.arange(rows), actions["target"]].all()
    assert not (actions["trigger"] & ~seen.masks["trigger"]).any()


def test_one_slot_draws_as_the_policy_itself_does():
    network, rows = network_of(SMALL, 0), 60
    stack, policy = stack_of([network]), NetworkPolicy(network, "game", "signature")
    state, assignment = policy.initial_state(rows), stack.assign_rows(torch.zeros(rows, dtype=torch.int64))
    one, other = (torch.Generator().manual_seed(3) for _ in range(2))
    for t in range(5):
        seen, starts = observation_of(SMALL, rows), torch.full((rows,), t == 0)
        together, _ = stack.act(seen, state, starts, assignment, one)
        alone, state = policy.act(seen, state, starts, other)
        for name, action in alone.items():
            torch.testing.assert_close(together[name][seen.active], action[seen.active], **CLOSE)


def test_outputs_of_a_row_do_not_depend_on_other_rows():
    networks, rows = networks_of(SMALL), 3 * CHUNK
    together = NativeBackend(SMALL, SLOTS)
    for slot, network in enumerate(networks):
        together.put(slot, network)
    slots, seen, state = torch.arange(rows) % SLOTS, observation_of(SMALL, rows), state_of(networks[0], rows)
    seen.active.fill_(True)
    starts = torch.zeros(rows, dtype=torch.bool)
    with torch.inference_mode():
        all_agents = together.step_for(slots)(seen.values, state, starts, seen.active)
        for some in (torch.tensor([5]), torch.arange(1, rows, 7), torch.randperm(rows)):
            step, view = together.step_for(slots[some]), seen.rows(some)
            alone = step(view.values, rows_of(state, some), starts[some], view.active)
            assert torch.equal(alone.parameters, all_agents.parameters[some])
            assert torch.equal(alone.state.cell, all_agents.state.cell[some])


@pytest.mark.parametrize("rows", [1, 50, 3 * CHUNK + 7])
def test_threads_share_the_rows_and_change_no_bit(rows, threads):
    networks = networks_of(SMALL)
    together, slots = native(networks), torch.arange(rows) % SLOTS
    seen, state = observation_of(SMALL, rows), state_of(networks[0], rows)
    starts, results = torch.rand(rows) < 0.3, []
    for count in (1, 2, 3):
        threads(count)
        with torch.inference_mode():
            results.append(together.step_for(slots)(seen.values, state, starts, seen.active))
    for parameters, value, after in results[1:]:
        assert torch.equal(parameters, results[0].parameters)
        assert torch.equal(value, results[0].value)
        assert all(torch.equal(*parts) for parts in zip(after, results[0].state, strict=True))


def test_without_openmp_one_thread_takes_all_rows(threads, monkeypatch):
    networks, rows = networks_of(SMALL), 3 * CHUNK
    step, seen = native(networks).step_for(torch.arange(rows) % SLOTS), observation_of(SMALL, rows)
    given = seen.values, state_of(networks[0], rows), torch.rand(rows) < 0.3, seen.active
    threads(3)
    with torch.inference_mode():
        shared = step(*given)
        monkeypatch.setattr("arena.policies.ensemble.native_backend.openmp", lambda: None)
        assert torch.equal(step(*given).parameters, shared.parameters)


def test_python_threads_may_share_slots():
    """Unguarded, one thread's call would write where another's reads and writes."""
    networks = networks_of(SMALL)
    together = native(networks)

    def steps(rows):
        torch.set_num_threads(1 + rows % 3)
        generator = torch.Generator().manual_seed(rows)
        seen, state = torch.randn(rows, SMALL.observation_size, generator=generator), networks[0].initial_state(rows)
        step, flags = together.step_for(torch.arange(rows) % SLOTS), torch.ones(rows, dtype=torch.bool)
        with torch.inference_mode():
            return [step(seen, state, flags, flags).parameters for _ in range(100)]

    sizes = [60, 61, 122, 241]
    with ThreadPoolExecutor(len(sizes)) as pool:
        found = list(pool.map(steps, sizes))
    with ThreadPoolExecutor(1) as alone:
        expected = list(alone.map(steps, sizes))
    for one, other in zip(found, expected, strict=True):
        assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def test_another_policy_in_a_slot_changes_its_own_rows_only(put_together):
    networks, rows = networks_of(SMALL), 30
    together, slots = put_together(networks), torch.arange(rows) % SLOTS
    step, newcomer = together.step_for(slots), network_of(SMALL, 99)
    seen, state, starts = observation_of(SMALL, rows), state_of(networks[0], rows), torch.zeros(rows, dtype=torch.bool)
    seen.active.fill_(True)
    with torch.inference_mode():
        before = step(seen.values, state, starts, seen.active).parameters
        together.put(1, newcomer)
        after = step(seen.values, state, starts, seen.active).parameters
        theirs = newcomer.step(seen.values, state, starts, seen.active).parameters
    assert torch.equal(before[slots != 1], after[slots != 1])
    torch.testing.assert_close(after[slots == 1], theirs[slots == 1], **CLOSE)


def test_reserving_slots_keeps_policies_and_assigned_rows(put_together):
    networks, rows = networks_of(SMALL), 20
    together, slots = put_together(networks), torch.arange(rows) % SLOTS
    step = together.step_for(slots)
    seen, state, starts = observation_of(SMALL, rows), state_of(networks[0], rows), torch.zeros(rows, dtype=torch.bool)
    with torch.inference_mode():
        before = step(seen.values, state, starts, seen.active).parameters
        size = together.size_bytes
        together.reserve(2 * SLOTS)
        together.put(2 * SLOTS - 1, networks[0])
        for arranged in (step, together.step_for(slots)):
            torch.testing.assert_close(arranged(seen.values, state, starts, seen.active).parameters, before, **CLOSE)
    assert (together.slots, together.size_bytes) == (2 * SLOTS, 2 * size)


def test_a_row_that_changes_its_opponent_begins_with_an_empty_memory():
    networks = networks_of(SMALL)
    stack, seen = stack_of(networks), observation_of(SMALL, 2)
    seen.active.fill_(True)
    state, starts = state_of(networks[0], 2), torch.tensor([True, False])
    _, moved = stack.act(seen, state, starts, stack.assign_rows(torch.tensor([3, 1])), torch.Generator())
    with torch.inference_mode():
        fresh = networks[3].step(seen.values, networks[3].initial_state(2), starts, seen.active).state
        going_on = networks[1].step(seen.values, state, starts, seen.active).state
    torch.testing.assert_close(moved.hidden[0], fresh.hidden[0], **CLOSE)
    torch.testing.assert_close(moved.cell[1], going_on.cell[1], **CLOSE)


def test_every_policy_draws_with_its_own_scale():
    quiet, loud = (ActorCritic(replace(SMALL, initial_log_std=log_std)) for log_std in (-5.0, 2.0))
    stack, rows = stack_of([quiet, loud]), 400
    seen = observation_of(SMALL, rows)
    seen.active.fill_(True)
    assignment = stack.assign_rows(torch.arange(rows) % 2)
    starts = torch.ones(rows, dtype=torch.bool)
    actions, _ = stack.act(seen, stack.initial_state(rows), starts, assignment, torch.Generator().manual_seed(0))
    spread = actions["move"].atanh().nan_to_num(posinf=9.0, neginf=-9.0)
    assert spread[::2].std() < 0.2 < 3.0 < spread[1::2].std()


def test_views_of_larger_tensors_are_read_as_they_are(put_together):
    networks, rows = networks_of(SMALL), 10
    wide, slots = torch.randn(2 * rows, 40), torch.arange(rows) % SLOTS
    state = RecurrentState(*(torch.randn(16, rows).t() for _ in range(2)))
    seen, flags = wide[::2, 3:22], torch.ones(2 * rows, dtype=torch.bool)[::2]
    step = put_together(networks).step_for(slots)
    with torch.inference_mode():
        one = step(seen, state, ~flags, flags)
        other = step(seen.clone(), RecurrentState(*(part.clone() for part in state)), ~flags, flags)
    assert torch.equal(one.parameters, other.parameters)


@pytest.mark.parametrize("architecture", [SMALL, replace(SMALL, recurrent_size=12)], ids=["fused", "torch"])
def test_a_live_network_acts_with_the_weights_that_it_had_at_the_last_refresh(architecture):
    network, rows = network_of(architecture, 0), 5
    live = LiveNetwork(network)
    step, seen, state = live.step_for(rows), observation_of(architecture, rows), network.initial_state(rows)
    all_agents = torch.ones(rows, dtype=torch.bool)
    with torch.no_grad():
        network.critic.bias += 1.0
        live.refresh()
        for part, expected in zip(
            step(seen.values, state, all_agents, all_agents),
            network.step(seen.values, state, all_agents, all_agents),
            strict=True,
        ):
            if isinstance(part, torch.Tensor):
                torch.testing.assert_close(part, expected, **CLOSE)


def test_widths_that_vectors_do_not_divide_are_left_to_torch():
    assert fits(SMALL)
    assert isinstance(stack_of(networks_of(SMALL))._backend, NativeBackend)
    assert not fits(replace(SMALL, recurrent_size=12))
    assert isinstance(stack_of(networks_of(replace(SMALL, recurrent_size=12)))._backend, TorchBackend)


def test_where_warp_does_not_load_torch_does_all(monkeypatch):
    monkeypatch.setitem(sys.modules, "warp", None)
    for module in ("arena.native.warp", "arena.policies.ensemble.native_backend"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    assert isinstance(stack_of(networks_of(SMALL))._backend, TorchBackend)


@pytest.mark.parametrize("counts", [[0, 0], [5, 0, 0], [1, 1, 1, 1], [1000, 1, 0, 3], [64, 80, 75, 97], [400, 300, 2]])
def test_padding_holds_each_row_once_and_wastes_little(counts):
    slot_of_row = torch.tensor(list(itertools.chain(*([slot] * count for slot, count in enumerate(counts)))), dtype=int)
    slot_of_row = slot_of_row[torch.randperm(len(slot_of_row))]
    plan = RowLayout.of(slot_of_row, len(counts), CPU)
    assert torch.equal(plan.source_row[plan.padded_row], torch.arange(len(slot_of_row)))
    slot_of_place = torch.full((len(plan.source_row),), -1)
    for segment in plan.segments:
        slots = torch.arange(len(counts))[segment.slots]
        slot_of_place[segment.rows] = slots.repeat_interleave(len(slot_of_place[segment.rows]) // len(slots))
    assert torch.equal(slot_of_place[plan.padded_row], slot_of_row)
    assert len(slot_of_place) <= 2 * len(slot_of_row) + 8 * len(counts)


def test_network_of_another_architecture_is_rejected_by_name():
    stack = stack_of(networks_of(SMALL))
    with refused("invalid-input", "encoder_sizes", "(64,)"):
        stack.put(0, ActorCritic(replace(SMALL, encoder_sizes=(64,))))
    with refused("invalid-input", "[-1, 4]", 4):
        stack.assign_rows(torch.tensor([0, 4, -1]))
    seen = observation_of(SMALL, 3)
    with refused("call-order", 3, 2):
        stack.act(seen, stack.initial_state(3), seen.active, stack.assign_rows(torch.tensor([0, 0])), torch.Generator())


@pytest.mark.parametrize(
    "change",
    [
        lambda values, hidden, cell, starts, active: (values.double(), hidden, cell, starts, active),
        lambda values, hidden, cell, starts, active: (values[:, 1:], hidden, cell, starts, active),
        lambda values, hidden, cell, starts, active: (values, hidden[:, 1:], cell, starts, active),
        lambda values, hidden, cell, starts, active: (values, hidden, cell.double(), starts, active),
    ],
)
def test_native_code_refuses_rows_that_it_would_read_or_write_beyond(change):
    network, rows = network_of(SMALL, 0), 3
    observation, state = observation_of(SMALL, rows), state_of(network, rows)
    given = observation.values, *state, torch.zeros(rows, dtype=torch.bool), observation.active
    values, hidden, cell, starts, active = change(*given)
    with refused("invalid-input", "native"):
        LiveNetwork(network).step_for(rows)(values, RecurrentState(hidden, cell), starts, active)
