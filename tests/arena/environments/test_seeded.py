import numpy as np
import pytest
import torch

from arena.environments import make
from arena.environments.seeded import require_seed, require_seeds
from arena.errors import ArenaError

RULE = r"a seed is a whole number from 0 to 2\*\*63 - 1"


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, 2.0, True, None, "1"])
def test_what_is_no_seed_is_refused_by_its_value_and_the_rule(seed):
    with pytest.raises(ArenaError, match=rf"^rps was given the seed {seed!r}: {RULE}$"):
        require_seed("rps", seed)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(7)])
def test_whole_numbers_of_63_bits_are_seeds(seed):
    require_seed("rps", seed)


@pytest.mark.parametrize("name", ["rps", "recall", "mech-duel"])
def test_environments_take_no_other_seeds(name):
    with pytest.raises(ArenaError, match=f"^{name} was given the seed -1: {RULE}$"):
        make(name, num_envs=2, seed=-1)
    env = make(name, num_envs=2)
    planned = env.next_seeds.clone()
    with pytest.raises(ArenaError, match=f"^{name} was given the seed -3: {RULE}$"):
        env.reset(torch.tensor([1, -3]))
    assert torch.equal(env.next_seeds, planned)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bool])
def test_seeds_of_episodes_are_whole_numbers(kind):
    with pytest.raises(ArenaError, match=rf"given seeds of type {kind}: {RULE}; give a tensor of int64"):
        require_seeds("rps", torch.ones(2, dtype=kind), 2)


@pytest.mark.parametrize("count", [1, 3])
def test_every_match_needs_a_seed(count):
    with pytest.raises(ArenaError, match=f"given {count} seeds for 2 matches: give one for each"):
        require_seeds("rps", torch.arange(count), 2)
