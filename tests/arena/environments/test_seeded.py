import numpy as np
import pytest
import torch
from refused import refused

from arena.environments import make
from arena.environments.seeded import require_seed, require_seeds

LARGEST = "2**63 - 1"


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, 2.0, True, None, "1"])
def test_invalid_seed_is_rejected(seed):
    with refused("invalid-input", "rps", seed, LARGEST):
        require_seed("rps", seed)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, np.int64(7)])
def test_whole_numbers_of_63_bits_are_seeds(seed):
    require_seed("rps", seed)


@pytest.mark.parametrize("name", ["rps", "recall", "mech-duel"])
def test_environments_take_no_other_seeds(name):
    with refused("invalid-input", name, -1, LARGEST):
        make(name, num_envs=2, seed=-1)
    env = make(name, num_envs=2)
    planned = env.next_seeds.clone()
    with refused("invalid-input", name, -3, LARGEST):
        env.reset(torch.tensor([1, -3]))
    assert torch.equal(env.next_seeds, planned)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bool])
def test_seeds_of_episodes_are_whole_numbers(kind):
    with refused("invalid-input", kind, LARGEST, "int64"):
        require_seeds("rps", torch.ones(2, dtype=kind), 2)


@pytest.mark.parametrize("count", [1, 3])
def test_every_match_needs_a_seed(count):
    with refused("invalid-input", count, 2):
        require_seeds("rps", torch.arange(count), 2)
