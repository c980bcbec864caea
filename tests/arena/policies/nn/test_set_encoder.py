"""Sets in an observation: read whatever their order and padding, chosen from by what their members are."""

from dataclasses import replace

import pytest
import torch
from refused import refused

from arena.environments import ActionHead, EnvironmentSpec, HeadKind, MemberMask, ObservationBlock, declare, names
from arena.policies import ActorCritic, Architecture, EncoderKind, RecurrentState
from arena.policies.nn.pointer_head import head_rows
from arena.policies.nn.set_encoder import SetLayout, remaining_slices

M, F, R = 4, 3, 6
SPEC = EnvironmentSpec(
    name="herd",
    agents_per_side=(1, 1),
    roles=("player", "player"),
    observation=(
        ObservationBlock("self", (2,), -1.0, 1.0),
        ObservationBlock("seen", (M, F), -1.0, 1.0),
        MemberMask("there", (M,), 0.0, 1.0, describes=("seen", "said"), chosen_by=("target",)),
        ObservationBlock("said", (M, 1), -1.0, 1.0),
        ObservationBlock("map", (5,), -1.0, 1.0),
    ),
    heads=(
        ActionHead("move", HeadKind.GAUSSIAN, 2, masked=False),
        ActionHead("target", HeadKind.CATEGORICAL, 1 + M, masked=True),
        ActionHead("switch", HeadKind.BERNOULLI, 1, masked=False),
    ),
    max_decisions=10,
    turn_based=False,
    reproducible=True,
    limit_decides=False,
    reasons=("over",),
    rules={},
)
SEEN, THERE, SAID = (SPEC.layout[name] for name in ("seen", "there", "said"))
TARGET = slice(2, 3 + M)


@pytest.fixture(params=list(EncoderKind))
def network(request: pytest.FixtureRequest) -> ActorCritic:
    torch.manual_seed(0)
    built = ActorCritic(
        Architecture.of(SPEC, encoder=request.param, encoder_sizes=(16,), recurrent_size=8, member_size=6)
    )
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return built


def observed(count: torch.Tensor) -> torch.Tensor:
    """Observations (R, D) with that many members in the first places."""
    values = torch.randn(len(count), SPEC.observation_size)
    values[:, THERE] = (torch.arange(M) < count.unsqueeze(1)).float()
    return values


def with_places(values: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """The same members in other places."""
    moved = values.clone()
    for block in (SEEN, THERE, SAID):
        moved[:, block] = values[:, block].view(len(values), M, -1)[:, order].flatten(1)
    return moved


def output(network: ActorCritic, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    nobody = torch.zeros(len(values), dtype=torch.bool)
    state = network.initial_state(len(values))
    parameters, value, after = network.step(values, state, nobody, ~nobody)
    return parameters, value, after.hidden


@pytest.mark.holds("G5")
def test_members_may_change_places_and_only_the_choice_among_them_follows(network: ActorCritic):
    values, order = observed(torch.randint(0, M + 1, (50,))), torch.randperm(M)
    parameters, value, hidden = output(network, values)

    moved, same_value, same_hidden = output(network, with_places(values, order))

    torch.testing.assert_close(same_value, value, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(same_hidden, hidden, atol=1e-5, rtol=0.0)
    others = [column for column in range(parameters.shape[1]) if not TARGET.start < column < TARGET.stop]
    torch.testing.assert_close(moved[:, others], parameters[:, others], atol=1e-5, rtol=0.0)
    first = TARGET.start + 1
    torch.testing.assert_close(moved[:, first : first + M], parameters[:, first + order], atol=1e-5, rtol=0.0)
    assert not torch.equal(moved[:, first : first + M], parameters[:, first : first + M])


@pytest.mark.holds("G5")
@pytest.mark.parametrize("garbage", [1e30, torch.nan, torch.inf])
def test_masked_members_do_not_affect_the_output(network: ActorCritic, garbage: float):
    count = torch.arange(R) % (M + 1)
    values = observed(count)
    littered = values.clone()
    for row, taken in enumerate(count.tolist()):
        littered[row, SEEN].view(M, F)[taken:] = garbage
        littered[row, SAID][taken:] = garbage

    for before, after in zip(output(network, values), output(network, littered), strict=True):
        assert torch.equal(before, after)
    parameters, value, _ = output(network, littered)
    (parameters.square().sum() + value.square().sum()).backward()
    for name, parameter in network.named_parameters():
        if name != "raw_log_std":
            assert bool(parameter.grad.isfinite().all()), name


@pytest.mark.holds("G5")
def test_an_empty_set_is_finite_and_is_not_one_of_zeros(network: ActorCritic):
    empty, one = (observed(torch.full((R,), count)) for count in (0, 1))
    for values in (empty, one):
        values[:, SEEN], values[:, SAID] = 0.0, 0.0
    one[:, : SEEN.start], one[:, SAID.stop :] = empty[:, : SEEN.start], empty[:, SAID.stop :]

    nothing, something = output(network, empty), output(network, one)

    assert all(bool(each.isfinite().all()) for each in nothing)
    assert not torch.equal(nothing[1], something[1])


@pytest.mark.holds("G5")
def test_a_summary_is_the_largest_the_mean_and_the_share_of_places():
    layout = SetLayout(members=3, mask=0, blocks=((3, 2),), heads=(), width=2)
    members = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, 9.0]]])
    present_mask = torch.tensor([[[True], [True], [False]]])

    assert layout.summary(members, present_mask).tolist() == [pytest.approx([3.0, -2.0, 2.0, -3.0, 2 / 3])]
    assert layout.summary(members, ~present_mask).tolist() == [pytest.approx([9.0, 9.0, 9.0, 9.0, 1 / 3])]
    assert layout.summary(members, torch.zeros_like(present_mask)).tolist() == [[0.0] * 5]


def test_every_parameter_of_a_network_with_sets_receives_a_gradient(network: ActorCritic):
    nobody, state = torch.zeros(R, dtype=torch.bool), network.initial_state(R)
    remembered = RecurrentState(*(part + 0.5 for part in state))
    parameters, value, _ = network.step(observed(torch.full((R,), M)), remembered, nobody, ~nobody)
    distribution = network.distribution(parameters, torch.ones(R, 1 + M, dtype=torch.bool))
    drawn = distribution.sample(torch.Generator().manual_seed(0)).detach()

    (distribution.log_prob(drawn).sum() + value.square().sum()).backward()

    for name, parameter in network.named_parameters():
        assert bool(parameter.grad.isfinite().all()), name
        assert float(parameter.grad.abs().sum()) > 0.0, name


def share_of_right_choices(member_size: int) -> float:
    """Learn to choose the member that says most, who never stands in the last place; then ask when it always does."""
    torch.manual_seed(0)
    network = ActorCritic(Architecture.of(SPEC, encoder_sizes=(32,), recurrent_size=16, member_size=member_size))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)

    def show(last: bool) -> tuple[torch.Tensor, torch.Tensor]:
        values = observed(torch.full((256,), M))
        loudest = torch.full((256,), M - 1) if last else torch.randint(0, M - 1, (256,))
        values[:, SAID] = values[:, SAID].clamp(max=1.0)
        values[torch.arange(256), SAID.start + loudest] = 2.0
        return values, loudest

    for _ in range(150):
        values, loudest = show(last=False)
        loss = torch.nn.functional.cross_entropy(output(network, values)[0][:, TARGET], loudest + 1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    values, loudest = show(last=True)
    return float((output(network, values)[0][:, TARGET].argmax(dim=1) == loudest + 1).float().mean())


@pytest.mark.holds("G5")
def test_a_head_knows_a_member_in_a_place_where_it_never_saw_one_like_it():
    assert share_of_right_choices(member_size=8) > 0.95
    assert share_of_right_choices(member_size=0) < 0.2


@pytest.mark.parametrize("name", names())
def test_declared_sets_fit_and_leave_the_signature_alone(name: str):
    spec = declare(name)
    layouts = SetLayout.from_spec(spec, 8)
    plain = [ObservationBlock(block.name, block.shape, block.low, block.high) for block in spec.observation]

    head_rows(spec.heads, layouts)
    remaining_slices(spec.observation_size, layouts)
    assert replace(spec, observation=tuple(plain)).signature == spec.signature
    assert len(layouts) == {"mech-duel": 1, "mech-duel-2": 1, "mech-pack": 2, "mech-company": 2}.get(name, 0)


def test_sets_that_do_not_fit_are_refused_by_name():
    present_mask = SPEC.observation[2]

    def declared(mask: ObservationBlock) -> EnvironmentSpec:
        return replace(SPEC, observation=(*SPEC.observation[:2], mask, *SPEC.observation[3:]))

    for wrong, values in (
        (replace(present_mask, describes=("heard",)), ("there", 4, "heard")),
        (
            replace(present_mask, describes=("map",)),
            ("map", "(5,)"),
        ),
        (replace(present_mask, chosen_by=("move",)), ("move",)),
        (replace(present_mask, describes=("seen", "seen")), ()),
    ):
        with refused("invalid-game", *values):
            ActorCritic(Architecture.of(declared(wrong), member_size=4))
    with refused("invalid-game", "target", 3, 4):
        head_rows((ActionHead("target", HeadKind.CATEGORICAL, 3, masked=True),), SetLayout.from_spec(SPEC, 4))
