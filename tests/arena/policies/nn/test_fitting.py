"""Networks that fit what an environment shows: images, choices of many, sets, and all of them together."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.distributions as td
import torch.nn.functional as F
from policy_stacks import CLOSE, CPU, observation_of, rows_of, stack_of, state_of
from refused import refused

from arena.environments import (
    ActionHead,
    Channels,
    ChoiceBlock,
    EnvironmentSpec,
    HeadKind,
    ImageBlock,
    ObservationBlock,
    declare,
)
from arena.policies import ActorCritic, Architecture, CoreKind, PackedRuns
from arena.policies import checkpoint as checkpoints
from arena.policies.ensemble.ensemble import PolicyEnsemble, make_native_backend
from arena.policies.ensemble.loop_backend import LoopBackend
from arena.policies.nn.embedding_encoder import EmbeddingLayout
from arena.policies.nn.image_encoder import MAX_OUTPUT_SIDE, ImageLayout

BAZAAR = declare("space_games:bazaar")
PLACES = BAZAAR.layout
R = 7

KINDS = {
    "all kinds": Architecture.of(BAZAAR, encoder_sizes=(16,), recurrent_size=16, member_size=6),
    "images and choices alone": Architecture.of(BAZAAR, encoder_sizes=(16, 8), recurrent_size=16),
    "choices alone, without memory": Architecture.of(
        BAZAAR, encoder_sizes=(16,), recurrent_size=16, core=CoreKind.FEEDFORWARD, image_channels=0
    ),
    "a module for the encoder": Architecture.of(
        BAZAAR, encoder_sizes=(16,), recurrent_size=16, module="space_games:Reader"
    ),
    "a module with a memory": Architecture.of(
        BAZAAR, recurrent_size=12, core=CoreKind.MODULE, module="space_games:Rememberer"
    ),
    "a module without one": Architecture.of(
        BAZAAR, recurrent_size=12, core=CoreKind.MODULE, module="space_games:Forgetful"
    ),
}


def spec_of(*blocks: ObservationBlock, heads: tuple[ActionHead, ...] = ()) -> EnvironmentSpec:
    return replace(BAZAAR, observation=blocks, heads=heads or BAZAAR.heads)


def network_of(architecture: Architecture, seed: int = 0) -> ActorCritic:
    torch.manual_seed(seed)
    network = ActorCritic(architecture).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return network


def seen_of(rows: int) -> torch.Tensor:
    """Observations (R, D) as the bazaar shows them."""
    values = torch.randn(rows, BAZAAR.observation_size)
    values[:, PLACES["picture"]] = torch.randint(256, (rows, 243)).float()
    values[:, PLACES["card"]] = torch.randint(100, (rows, 1)).float()
    values[:, PLACES["units_mask"]] = (torch.arange(4) < torch.randint(5, (rows, 1))).float()
    return values


@pytest.fixture(params=KINDS)
def network(request: pytest.FixtureRequest) -> ActorCritic:
    return network_of(KINDS[request.param])


def test_whole_runs_equal_single_decisions(network: ActorCritic):
    lengths = torch.tensor([4, 3, 3, 1])
    runs, values, state = PackedRuns.of(lengths, 4), seen_of(int(lengths.sum())), state_of(network, 4)
    whole = network.sequence(values, state, runs)
    flags = torch.zeros(4, dtype=torch.bool)
    for rows in itertools.pairwise(runs.first.tolist()):
        here, count = slice(*rows), rows[1] - rows[0]
        step = network.step(values[here], rows_of(state, slice(count)), flags[:count], ~flags[:count])
        torch.testing.assert_close(step.parameters, whole.parameters[here], **CLOSE)
        torch.testing.assert_close(step.value, whole.value[here], **CLOSE)
        state = step.state


def test_output_of_a_row_is_independent_of_its_batch(network: ActorCritic):
    values, state, nobody = seen_of(R), state_of(network, R), torch.zeros(R, dtype=torch.bool)
    together = network.step(values, state, nobody, ~nobody)
    for row in range(R):
        here = slice(row, row + 1)
        alone = network.step(values[here], rows_of(state, here), nobody[here], ~nobody[here])
        torch.testing.assert_close(alone.parameters, together.parameters[here], **CLOSE)
        torch.testing.assert_close(alone.state.hidden, together.state.hidden[here], **CLOSE)


def test_rows_that_do_not_act_keep_their_memory_and_those_that_open_an_episode_forget(network: ActorCritic):
    values, state = seen_of(R), state_of(network, R)
    flags = torch.arange(R) % 2 == 0
    resting = network.step(values, state, ~flags & False, ~flags)
    assert torch.equal(resting.state.hidden[flags], state.hidden[flags])
    opening = network.step(values, state, flags, torch.ones(R, dtype=torch.bool))
    fresh = network.step(values, network.initial_state(R), flags & False, torch.ones(R, dtype=torch.bool))
    assert torch.equal(opening.parameters[flags], fresh.parameters[flags])


def test_every_parameter_receives_a_finite_gradient(network: ActorCritic):
    values, nobody = seen_of(64), torch.zeros(64, dtype=torch.bool)
    values[:, PLACES["units_mask"]] = 1.0
    output = network.step(values, state_of(network, 64), nobody, ~nobody)
    mask = torch.ones(64, network.layout.mask_size, dtype=torch.bool)
    distribution = network.distribution(output.parameters, mask)
    drawn = distribution.sample(torch.Generator().manual_seed(0)).detach()
    (distribution.log_prob(drawn).sum() + output.value.square().sum()).backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert bool(parameter.grad.isfinite().all()), name
        assert float(parameter.grad.abs().sum()) > 0.0, name


def test_masked_members_change_no_bit_of_the_output(network: ActorCritic):
    if not network.architecture.sets:
        return
    values, nobody = seen_of(R), torch.zeros(R, dtype=torch.bool)
    littered = values.clone()
    empty = values[:, PLACES["units_mask"]] == 0.0
    for block, width in (("units.kind", 3), ("units.where", 2)):
        littered[:, PLACES[block]] = torch.where(
            empty.repeat_interleave(width, dim=1), torch.full((), torch.nan), values[:, PLACES[block]]
        )
    assert not torch.equal(littered.nan_to_num(7.0), values)
    before, after = (network.step(each, network.initial_state(R), nobody, ~nobody) for each in (values, littered))
    assert torch.equal(before.parameters, after.parameters)
    assert torch.equal(before.value, after.value)


def test_a_checkpoint_gives_back_the_network_bit_by_bit(network: ActorCritic, monkeypatch: pytest.MonkeyPatch):
    module = network.architecture.module
    data = checkpoints.encode(network, BAZAAR)
    policy = checkpoints.decode(data, modules=[module.path] if module else [])
    assert policy.network.architecture == network.architecture
    assert checkpoints.encode(policy.network, BAZAAR) == data
    values, nobody = seen_of(R), torch.zeros(R, dtype=torch.bool)
    one, other = (each.step(values, each.initial_state(R), nobody, ~nobody) for each in (network, policy.network))
    assert torch.equal(one.parameters, other.parameters)


def test_only_files_that_need_it_have_the_newer_format():
    plain = Architecture.of(declare("recall"))
    for architecture, spec, version in ((plain, declare("recall"), "2"), (KINDS["all kinds"], BAZAAR, "3")):
        header = checkpoints._header(checkpoints.encode(ActorCritic(architecture), spec))["__metadata__"]
        assert header["format_version"] == version
        assert ("images" in header["architecture"]) is (version == "3")


def test_stacked_networks_equal_separate_ones(network: ActorCritic):
    architecture = network.architecture
    networks = [network_of(architecture, seed) for seed in range(3)]
    stack = stack_of(networks)
    assert isinstance(stack._backend, LoopBackend)
    slot_of_row = torch.tensor([2, 0, 0, 2, 1, 1, 0])
    observation = replace(observation_of(architecture, R), values=seen_of(R))
    starts, state = torch.rand(R) < 0.3, state_of(network, R)
    together = stack.assign_rows(slot_of_row).step(observation.values, state, starts, observation.active)
    for slot, own in enumerate(networks):
        rows = slot_of_row == slot
        alone = own.step(observation.values[rows], rows_of(state, rows), starts[rows], observation.active[rows])
        assert torch.equal(alone.parameters, together.parameters[rows])
        assert torch.equal(alone.value, together.value[rows])
        assert torch.equal(alone.state.hidden, together.state.hidden[rows])


def test_slot_holds_a_copy_and_can_be_overwritten():
    architecture = KINDS["images and choices alone"]
    one, other = network_of(architecture, 0), network_of(architecture, 1)
    stack = PolicyEnsemble(architecture, 1, CPU)
    with refused("call-order", 0):
        stack.act(observation_of(architecture, 1), stack.initial_state(1), *_seated(stack, 1))
    stack.put(0, one)
    stack.reserve(3)
    assert stack.slots == 3
    assert stack.slot_bytes == sum(each.nbytes for each in one.state_dict().values())
    seen, state = observation_of(architecture, 4), one.initial_state(4)
    before = stack.act(seen, state, *_seated(stack, 4))[0]
    with torch.no_grad():
        one.actor.weight.zero_()
    again = stack.act(seen, state, *_seated(stack, 4))[0]
    assert all(torch.equal(before[name], again[name]) for name in before), "a slot has a copy"
    stack.put(0, other)
    changed = stack.act(seen, state, *_seated(stack, 4))[0]
    assert not torch.equal(before["price_0"], changed["price_0"])


def _seated(stack: PolicyEnsemble, rows: int):
    starts = torch.ones(rows, dtype=torch.bool)
    return starts, stack.assign_rows(torch.zeros(rows, dtype=torch.int64)), torch.Generator().manual_seed(0)


def test_native_code_is_left_to_networks_that_it_can_do():
    assert make_native_backend(KINDS["all kinds"], 1, CPU) is None
    assert make_native_backend(KINDS["choices alone, without memory"], 1, CPU) is None
    assert make_native_backend(replace(KINDS["a module without one"], core=CoreKind.LSTM), 1, CPU) is None


# heads side by side


def test_log_probabilities_and_entropies_are_those_of_torchs_distributions():
    network = network_of(KINDS["all kinds"])
    parameters, mask, raw = decided(network)
    policy = network.distribution(parameters, mask)
    said = policy.log_prob(raw)
    for column, part in enumerate(network.layout.parts):
        own, chosen = parameters[:, part.parameters], raw[:, part.raw]
        legal = mask[:, part.mask]
        match part.head.kind:
            case HeadKind.GAUSSIAN:
                normal = td.Normal(own, network.log_std[part.log_std].exp())
                squashed = td.TransformedDistribution(normal, [td.TanhTransform(cache_size=1)])
                expected = squashed.log_prob(squashed.transforms[0](chosen)).sum(dim=1)
            case HeadKind.BERNOULLI:
                expected = (td.Bernoulli(logits=own).log_prob(chosen) * legal).sum(dim=1)
            case HeadKind.CATEGORICAL:
                options = td.Categorical(logits=own.masked_fill(~legal, -torch.inf))
                expected = options.log_prob(chosen.squeeze(1))
                shares = options.entropy() / legal.sum(dim=1).clamp(min=2).log()
                torch.testing.assert_close(policy.entropy(torch.Generator())[:, column], shares, **CLOSE)
        torch.testing.assert_close(said[:, column], expected, atol=1e-4, rtol=1e-4)


def test_logits_of_illegal_options_change_no_bit():
    network = network_of(KINDS["all kinds"])
    parameters, mask, raw = decided(network)
    other = parameters.clone()
    for part in network.layout.parts:
        if part.head.masked:
            other[:, part.parameters] = torch.where(mask[:, part.mask], other[:, part.parameters], 33.0)
    assert not torch.equal(parameters, other)
    one, two = (network.distribution(each, mask) for each in (parameters, other))
    assert torch.equal(one.log_prob(raw), two.log_prob(raw))
    assert torch.equal(*(each.entropy(torch.Generator().manual_seed(0)) for each in (one, two)))
    assert torch.equal(*(each.sample(torch.Generator().manual_seed(0)) for each in (one, two)))


def decided(network: ActorCritic) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Parameters, masks and raw actions of some decisions; no head is without a legal option."""
    torch.manual_seed(1)
    parameters = torch.randn(50, network.layout.parameter_size)
    mask = torch.rand(50, network.layout.mask_size) < 0.6
    for part in network.layout.parts:
        mask[:, part.mask][:, :1] = True
    raw = network.distribution(parameters, mask).sample(torch.Generator().manual_seed(2))
    return parameters, mask, raw


# images


@pytest.mark.parametrize(("channels", "shape"), [(Channels.LAST, (8, 10, 3)), (Channels.FIRST, (3, 8, 10))])
def test_an_image_is_read_the_same_wherever_its_channels_are(channels: Channels, shape: tuple[int, ...]):
    layout = ImageLayout.from_spec(spec_of(ImageBlock("seen", shape, 0.0, 255.0, channels)), 4)[0]
    picture = torch.rand(5, 8, 10, 3)
    flat = picture if channels is Channels.LAST else picture.permute(0, 3, 1, 2)
    assert torch.equal(layout.image_of(flat.reshape(5, -1)), picture.permute(0, 3, 1, 2))


def test_an_image_of_two_axes_has_one_channel():
    block = ImageBlock("seen", (9, 12), 0.0, 255.0, Channels.FIRST)
    assert (block.depth, block.sides) == (1, (9, 12))


@pytest.mark.parametrize("sides", [(8, 8), (13, 13), (84, 84), (8, 200), (1, 3)])
def test_image_encoder_reduces_any_image_to_its_declared_size(sides: tuple[int, int]):
    block = ImageBlock("seen", (*sides, 2), 0.0, 1.0, Channels.LAST)
    architecture = Architecture.of(spec_of(block), encoder_sizes=(8,), recurrent_size=8, image_channels=2)
    (layout,) = architecture.images
    network = ActorCritic(architecture)
    (made,) = (encode(torch.rand(3, block.size)) for encode in network.images)
    assert made.shape == (3, layout.features)
    assert layout.features <= 8 * MAX_OUTPUT_SIDE**2
    assert network.encoder[0].in_features == layout.features


def test_images_are_scaled_as_declared_whatever_else_is_measured():
    network = ActorCritic(KINDS["images and choices alone"])
    values = seen_of(R)
    network.observation_mean.fill_(3.0)
    network.observation_std.fill_(5.0)
    network.apply_declared_scales()
    scaled = network.normalise(values)
    torch.testing.assert_close(scaled[:, PLACES["picture"]], values[:, PLACES["picture"]] / 255.0)
    torch.testing.assert_close(scaled[:, PLACES["away"]], (values[:, PLACES["away"]] - 3.0) / 5.0)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((3,), 0.0, 1.0), ((8, 8, 3), 0.0, math.inf), ((8, 8, 3), 0.0, 0.0), ((2,) * 4, 0.0, 1.0)],
)
def test_invalid_image_block_is_rejected(shape: tuple[int, ...], low: float, high: float):
    with refused("invalid-game", "seen"):
        ImageBlock("seen", shape, low, high, Channels.LAST)


# choices


def test_a_choice_has_features_of_its_own_and_nonsense_is_taken_as_the_nearest():
    layout = EmbeddingLayout(start=1, options=(3, 5), width=2)
    network = ActorCritic(
        Architecture(3, BAZAAR.heads, KINDS["all kinds"].encoder, (4,), CoreKind.LSTM, 8, -0.5, (), (), (layout,))
    )
    (encode,) = network.embeddings
    table = encode.table.weight
    made = encode(torch.tensor([[9.0, 0.0, 4.0], [9.0, 2.0, 0.0], [9.0, -7.0, 99.0], [9.0, torch.nan, 4.0]]))
    assert torch.equal(made, torch.cat([table[[0, 2, 0, 0]], table[[7, 3, 7, 7]]], dim=1))


@pytest.mark.parametrize(
    ("options", "high"), [((5,), 4.0), ((5, 7), 5.0), ((5, 0), 4.0)], ids=["too few", "wrong bound", "of nothing"]
)
def test_choices_that_contradict_themselves_are_refused(options: tuple[int, ...], high: float):
    with refused("invalid-game", 2, 1, 0):
        ChoiceBlock("cards", (2,), 0.0, high, options)


def test_signature_covers_choices_but_not_image_encoding():
    card = ChoiceBlock("cards", (2,), 0.0, 6.0, (5, 7))
    assert spec_of(card).signature != spec_of(replace(card, options=(7, 7))).signature
    image = ImageBlock("seen", (8, 8, 3), 0.0, 1.0, Channels.LAST)
    assert spec_of(image).signature == spec_of(ObservationBlock("seen", (8, 8, 3), 0.0, 1.0)).signature


# learning

COLOUR, SUIT = (ActionHead(name, HeadKind.CATEGORICAL, 3, masked=False) for name in ("colour", "suit"))
PICTURE = ImageBlock("seen", (9, 9, 3), 0.0, 255.0, Channels.LAST)
CARD = ChoiceBlock("card", (1,), 0.0, 89.0, (90,))
ROWS = 64


def bright_patch() -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures with a bright patch anywhere; its channel has to be told."""
    told = torch.randint(3, (ROWS,))
    across, down = (((torch.arange(9) - torch.randint(1, 8, (ROWS, 1))).abs() < 2).float() for _ in range(2))
    patch = across[:, :, None, None] * down[:, None, :, None] * F.one_hot(told, 3)[:, None, None]
    return (40.0 * torch.rand(ROWS, 9, 9, 3) + 200.0 * patch).flatten(1), told


def suit_of_card() -> tuple[torch.Tensor, torch.Tensor]:
    """Cards of a deck in an order that says nothing; the suit has to be told."""
    suits = torch.randint(3, (90,), generator=torch.Generator().manual_seed(4))
    cards = torch.randint(90, (ROWS, 1))
    return cards.float(), suits[cards.squeeze(1)]


@pytest.mark.parametrize(
    ("shown", "steps"),
    [([(PICTURE, COLOUR, bright_patch)], 60), ([(CARD, SUIT, suit_of_card)], 120)],
    ids=["an image", "choices"],
)
def test_every_kind_is_learned_from(shown, steps):
    learn(shown, steps)


def test_all_kinds_are_learned_from_side_by_side():
    learn([(PICTURE, COLOUR, bright_patch), (CARD, SUIT, suit_of_card)], 120)


def learn(shown, steps):
    """Tell by every head what its block shows; in the end nearly always."""
    torch.manual_seed(0)
    blocks, heads, draws = zip(*shown, strict=True)
    settings = {"encoder_sizes": (32,), "recurrent_size": 32, "image_channels": 8, "core": CoreKind.FEEDFORWARD}
    network = ActorCritic(Architecture.of(spec_of(*blocks, heads=heads), **settings))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    nobody, shares = torch.zeros(ROWS, dtype=torch.bool), []
    for _ in range(steps):
        values, told = zip(*(draw() for draw in draws), strict=True)
        seen = torch.cat(values, dim=1)
        said = network.step(seen, network.initial_state(ROWS), nobody, ~nobody).parameters.split(3, dim=1)
        loss = sum(F.cross_entropy(own, right) for own, right in zip(said, told, strict=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        right = [float((own.argmax(dim=1) == each).float().mean()) for own, each in zip(said, told, strict=True)]
        shares.append(min(right))
    assert shares[0] < 0.6
    assert sum(shares[-5:]) / 5 > 0.93
