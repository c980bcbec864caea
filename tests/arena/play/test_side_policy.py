from dataclasses import replace

import pytest
import torch

from arena.environments import HeadKind
from arena.environments.base import Observation
from arena.environments.spec import ActionHead
from arena.play.side_policy import SidePolicies
from arena.policies import ActorCritic, Architecture, CoreKind, EncoderKind, NetworkPolicy
from arena.policies.nn.distributions import ActionLayout
from arena.policies.scripted import RandomPolicy

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=False),
    ActionHead("choice", HeadKind.CATEGORICAL, 3, masked=True),
)
SMALL = Architecture(5, HEADS, EncoderKind.TANH, (16,), CoreKind.LSTM, 16, -0.5, ())
OTHERS = {
    "of one kind": SMALL,
    "of two widths": replace(SMALL, recurrent_size=12),
    "with and without memory": replace(SMALL, core=CoreKind.FEEDFORWARD),
}
AGENTS, DECISIONS = 2, 4


def policy_of(architecture: Architecture, seed: int) -> NetworkPolicy:
    torch.manual_seed(seed)
    network = ActorCritic(architecture)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0.0, 0.5)
    return NetworkPolicy(network, "game", "signature")


@pytest.fixture
def without_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is done follow from what is seen."""
    draw = ActionLayout.draw_noise
    monkeypatch.setattr(ActionLayout, "draw_noise", lambda self, shape, rng: torch.zeros_like(draw(self, shape, rng)))


def observation_of(matches: int, t: int) -> Observation:
    rows = matches * AGENTS
    values = torch.randn(rows, 5, generator=torch.Generator().manual_seed(t))
    only = torch.nn.functional.one_hot(torch.arange(rows) % 3, 3).bool()
    return Observation(values, {"choice": only}, torch.ones(rows, dtype=torch.bool))


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
@pytest.mark.usefixtures("without_chance")
def test_batched_policies_play_as_they_do_alone(other):
    one, two, three = policy_of(SMALL, 0), policy_of(other, 1), policy_of(SMALL, 2)
    policies = [one, two, one, three, two]
    lineup, rng = SidePolicies(policies, AGENTS), torch.Generator().manual_seed(0)
    states = [policy.initial_state(AGENTS) for policy in policies]
    for t in range(DECISIONS):
        seen = observation_of(len(policies), t)
        starts = torch.tensor([t == 0, t == 0, t in (0, 2), t == 0, t == 0])
        actions = lineup.act(seen, starts, rng)
        assert actions["move"].shape == (5, AGENTS, 2)
        assert actions["choice"].shape == (5, AGENTS)
        for match, policy in enumerate(policies):
            rows = torch.arange(match * AGENTS, (match + 1) * AGENTS)
            alone, states[match] = policy.act(seen.rows(rows), states[match], starts[match].expand(AGENTS), rng)
            torch.testing.assert_close(actions["move"][match], alone["move"], rtol=1e-4, atol=1e-5)
            assert torch.equal(actions["choice"][match], rows % 3)


@pytest.mark.usefixtures("without_chance")
def test_scripted_policies_and_networks_share_a_batch():
    network, scripted = policy_of(SMALL, 0), RandomPolicy(HEADS)
    lineup, alone = SidePolicies([scripted, network, scripted], AGENTS), SidePolicies([network], AGENTS)
    seen, rng = observation_of(3, 0), torch.Generator().manual_seed(0)
    actions = lineup.act(seen, torch.ones(3, dtype=torch.bool), rng)
    expected = alone.act(seen.rows(torch.arange(2, 4)), torch.ones(1, dtype=torch.bool), rng)
    torch.testing.assert_close(actions["move"][1], expected["move"][0], rtol=1e-4, atol=1e-5)
    assert actions["move"][0].ne(actions["move"][2]).all()


def test_the_same_chance_gives_the_same_actions():
    policies = [policy_of(SMALL, 0), RandomPolicy(HEADS), policy_of(SMALL, 1)]
    seen, starts = observation_of(3, 0), torch.ones(3, dtype=torch.bool)
    first, again = (
        SidePolicies(policies, AGENTS).act(seen, starts, torch.Generator().manual_seed(1)) for _ in range(2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
