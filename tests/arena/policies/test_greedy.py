"""Networks that draw nothing do what they hold for best."""

import torch

from arena.environments import make
from arena.environments.base import Observation
from arena.policies import ActorCritic, Architecture, NetworkPolicy
from arena.policies.greedy import GreedyPolicy, greedy
from arena.policies.scripted import RandomPolicy

LEDUC = "openspiel:leduc_poker"


def test_it_takes_the_likeliest_legal_option_and_draws_nothing():
    env = make(LEDUC, num_envs=32)
    torch.manual_seed(1)
    network = ActorCritic(Architecture.of(env.spec, encoder_sizes=(8,), recurrent_size=8))
    with torch.no_grad():
        network.actor.weight.mul_(20.0)  # so that chance would show
    seen = env.reset()
    rows = Observation(seen.values.flatten(0, 1), {"action": seen.masks["action"].flatten(0, 1)}, seen.active.flatten())
    policy, rng = greedy(NetworkPolicy(network, LEDUC, env.spec.signature)), torch.Generator()
    before, starts = rng.get_state(), torch.ones(64, dtype=torch.bool)
    actions, state = policy.act(rows, policy.initial_state(64), starts, rng)
    output = network.step(rows.values, network.initial_state(64), starts, rows.active)
    best = output.parameters.masked_fill(~rows.masks["action"], -torch.inf).argmax(dim=-1)
    assert torch.equal(actions["action"][rows.active], best[rows.active])
    assert len(set(best[rows.active].tolist())) > 1
    assert torch.equal(rng.get_state(), before)
    assert all(torch.equal(one, other) for one, other in zip(state, output.state, strict=True))


def test_other_policies_are_returned_unchanged():
    env = make(LEDUC, num_envs=1)
    random = RandomPolicy(env.spec.heads)
    assert greedy(random) is random
    assert not isinstance(greedy(random), GreedyPolicy)
