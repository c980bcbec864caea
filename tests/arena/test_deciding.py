"""A decision in one native piece, from what environments show to actions."""

from dataclasses import replace

import pytest
import torch
from policy_stacks import ARCHITECTURES, CLOSE, HEADS, SLOTS, SMALL, fused, networks_of, observation_of, state_of

from arena.environments.protocol import Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError
from arena.policies import RecurrentState
from arena.policies.deciding import Decision, Draw, Look, Said
from arena.policies.distributions import ActionLayout

WIDE = (
    ActionHead("move", HeadKind.GAUSSIAN, 37, masked=False),
    ActionHead("way", HeadKind.CATEGORICAL, 4, masked=False),
)


def kept_by(layout: ActionLayout, rows: int) -> Decision:
    """Memory for a decision, filled with what nobody may leave there."""
    return Decision(
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
    layout, together, rows = networks[0].layout, fused(networks), 2 * environments
    shown = observation_of(networks[0].architecture, environments * agents)
    everybody = Observation(
        *(
            shown.values.unflatten(0, (-1, agents)),
            {name: each.unflatten(0, (-1, agents)) for name, each in shown.masks.items()},
        ),
        shown.active.unflatten(0, (-1, agents)),
    )
    look = Look(
        everybody,
        opened=torch.rand(environments) < 0.3,
        numbers=torch.randperm(environments * agents)[:rows],
        present=torch.rand(rows) < 0.8,
    )
    slots, state = torch.randint(0, SLOTS, (rows,)), state_of(networks[0], rows)
    scale = torch.stack([layout.noise_scale(network.log_std.detach()) for network in networks])
    draw = Draw(layout.draw_noise((rows,), torch.Generator().manual_seed(1)), scale)

    own = shown.rows(look.numbers)
    active, starts, mask = own.active & look.present, look.opened[look.numbers // agents], layout.pack_masks(own)
    with torch.inference_mode():
        output = together.arrange(slots)(own.values, state, starts, active)
        raw = layout.choose(output.parameters, draw.noise, scale[slots], mask)
    expected = actions_of(heads, environments * agents)
    for name, action in layout.to_actions(raw).items():
        expected[name][look.numbers[look.present]] = action[look.present]

    for count in (1, 3):
        threads(count)
        kept, done = kept_by(layout, rows), actions_of(heads, environments * agents)
        said = Said(
            torch.empty(rows, layout.parameter_size + 1), RecurrentState(*(torch.empty_like(each) for each in state))
        )
        together.decide(slots, layout, agents)(look, state, draw, kept, said, done)
        for stored, right in zip(kept, (own.values, mask, raw, active, starts), strict=True):
            torch.testing.assert_close(stored, right, **CLOSE)
        assert torch.equal(said.readout, torch.cat([output.parameters, output.value.unsqueeze(1)], dim=1))
        assert all(torch.equal(*parts) for parts in zip(said.state, output.state, strict=True))
        for name, action in expected.items():
            torch.testing.assert_close(done[name], action, **CLOSE)


def test_what_environments_show_must_be_what_native_code_reads():
    networks, rows = networks_of(SMALL, 1), 4
    layout, state = networks[0].layout, networks[0].initial_state(rows)
    seen = observation_of(SMALL, rows)
    values, everybody = seen.values.unsqueeze(1), torch.ones(rows, dtype=torch.bool)
    masks = {name: each.unsqueeze(1) for name, each in seen.masks.items()}
    decide = fused(networks).decide(torch.zeros(rows, dtype=torch.int64), layout, 1)
    draw, said = (
        Draw(torch.zeros(rows, layout.parameter_size), torch.ones(1, layout.parameter_size)),
        Said(torch.zeros(0), state),
    )
    for wrong in (
        Observation(values.double(), masks, seen.active.unsqueeze(1)),
        Observation(values[:3], masks, seen.active.unsqueeze(1)),
        Observation(values, masks | {"target": masks["target"][..., :2]}, seen.active.unsqueeze(1)),
    ):
        with pytest.raises(ArenaError, match="native code got"):
            decide(Look(wrong, everybody, torch.arange(rows), everybody), state, draw, kept_by(layout, rows), said, {})
