"""A decision in one native piece, from what environments show to actions."""

from dataclasses import replace

import pytest
import torch
from policy_stacks import ARCHITECTURES, CLOSE, HEADS, SLOTS, SMALL, native, networks_of, observation_of, state_of
from refused import refused

from arena.environments.base import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.policies import RecurrentState
from arena.policies.ensemble.native_step import ActionNoise, NetworkOutputs, ObservationView, StepBuffers
from arena.policies.nn.distributions import ActionLayout

WIDE = (
    ActionHead("move", HeadKind.GAUSSIAN, 37, masked=False),
    ActionHead("way", HeadKind.CATEGORICAL, 4, masked=False),
)


def kept_by(layout: ActionLayout, rows: int) -> StepBuffers:
    """Memory for a decision, filled with what nobody may leave there."""
    return StepBuffers(
        observation=torch.full((rows, SMALL.observation_size), torch.nan),
        mask=torch.zeros(rows, layout.mask_size, dtype=torch.bool),
        raw=torch.full((rows, layout.raw_size), torch.nan),
        active=torch.zeros(rows, dtype=torch.bool),
        episode_start=torch.zeros(rows, dtype=torch.bool),
    )


def actions_of(heads: tuple[ActionHead, ...], agents: int) -> dict[str, torch.Tensor]:
    return {
        head.name: torch.full((agents,), -1)
        if head.kind is HeadKind.CATEGORICAL
        else torch.zeros(agents, head.size, dtype=torch.float32 if head.kind is HeadKind.GAUSSIAN else torch.bool)
        for head in heads
    }


@pytest.mark.parametrize("heads", [HEADS, WIDE, ARCHITECTURES["many heads"].heads], ids=["mixed", "wide", "many"])
@pytest.mark.parametrize("environments", [1, 90])
def test_a_decision_in_one_piece_is_that_of_its_steps(heads, environments, threads):
    """Rows are some agents of all environments, in any order; a few only look through their eyes."""
    networks, agents = networks_of(replace(SMALL, heads=heads)), 3
    layout, together, rows = networks[0].layout, native(networks), 2 * environments
    shown = observation_of(networks[0].architecture, environments * agents)
    all_agents = Observation(
        *(
            shown.values.unflatten(0, (-1, agents)),
            {name: each.unflatten(0, (-1, agents)) for name, each in shown.masks.items()},
        ),
        shown.active.unflatten(0, (-1, agents)),
    )
    view = ObservationView(
        all_agents,
        episode_start=torch.rand(environments) < 0.3,
        agent_index=torch.randperm(environments * agents)[:rows],
        present=torch.rand(rows) < 0.8,
    )
    slots, state = torch.randint(0, SLOTS, (rows,)), state_of(networks[0], rows)
    scale = torch.stack([layout.noise_scale(network.log_std.detach()) for network in networks])
    draw = ActionNoise(layout.draw_noise((rows,), torch.Generator().manual_seed(1)), scale)

    own = shown.rows(view.agent_index)
    active, starts, mask = (
        own.active & view.present,
        view.episode_start[view.agent_index // agents],
        layout.pack_masks(own),
    )
    with torch.inference_mode():
        output = together.step_for(slots)(own.values, state, starts, active)
        raw = layout.sample_with_noise(output.parameters, draw.noise, scale[slots], mask)
    expected = actions_of(heads, environments * agents)
    for name, action in layout.to_actions(raw).items():
        expected[name][view.agent_index[view.present]] = action[view.present]

    for count in (1, 3):
        threads(count)
        kept, done = kept_by(layout, rows), actions_of(heads, environments * agents)
        outputs = NetworkOutputs(
            torch.empty(rows, layout.parameter_size + 1), RecurrentState(*(torch.empty_like(each) for each in state))
        )
        together.bind(slots, layout, agents)(view, state, draw, kept, outputs, done)
        for stored, right in zip(kept, (own.values, mask, raw, active, starts), strict=True):
            torch.testing.assert_close(stored, right, **CLOSE)
        assert torch.equal(outputs.outputs, torch.cat([output.parameters, output.value.unsqueeze(1)], dim=1))
        assert all(torch.equal(*parts) for parts in zip(outputs.state, output.state, strict=True))
        for name, action in expected.items():
            torch.testing.assert_close(done[name], action, **CLOSE)


def test_observations_must_match_the_native_layout():
    networks, rows = networks_of(SMALL, 1), 4
    layout, state = networks[0].layout, networks[0].initial_state(rows)
    seen = observation_of(SMALL, rows)
    values, all_agents = seen.values.unsqueeze(1), torch.ones(rows, dtype=torch.bool)
    masks = {name: each.unsqueeze(1) for name, each in seen.masks.items()}
    bind = native(networks).bind(torch.zeros(rows, dtype=torch.int64), layout, 1)
    draw, outputs = (
        ActionNoise(torch.zeros(rows, layout.parameter_size), torch.ones(1, layout.parameter_size)),
        NetworkOutputs(torch.zeros(0), state),
    )
    for wrong in (
        Observation(values.double(), masks, seen.active.unsqueeze(1)),
        Observation(values[:3], masks, seen.active.unsqueeze(1)),
        Observation(values, masks | {"target": masks["target"][..., :2]}, seen.active.unsqueeze(1)),
    ):
        with refused("invalid-input"):
            bind(
                ObservationView(wrong, all_agents, torch.arange(rows), all_agents),
                state,
                draw,
                kept_by(layout, rows),
                outputs,
                {},
            )
