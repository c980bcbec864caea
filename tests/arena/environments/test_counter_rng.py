from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena import seeding
from arena.environments import counter_rng as randomness

WAYS = (randomness.derive, randomness.derive_on_device)
words = st.integers(min_value=0, max_value=2**63 - 1)


@given(seed=words, keys=st.lists(words, max_size=4))
def test_tensor_seeds_equal_those_of_the_torch_free_derivation(seed: int, keys: list[int]):
    for derive in WAYS:
        assert derive(torch.tensor([seed]), *keys).item() == seeding.derive(seed, *keys)
        assert derive(torch.tensor(seed), *keys).item() == seeding.derive(seed, *keys)


@pytest.mark.parametrize("derive", WAYS)
def test_keys_may_be_tensors_that_broadcast(derive: Callable[..., torch.Tensor]):
    derived = derive(torch.tensor([[3], [4]]), torch.arange(5), 7)

    assert derived.dtype is torch.int64
    assert derived.tolist() == [[seeding.derive(seed, key, 7) for key in range(5)] for seed in (3, 4)]


def test_uniform_numbers_fill_the_unit_interval_evenly():
    numbers = randomness.uniform(randomness.derive(torch.arange(100_000), 1))

    assert float(numbers.min()) >= 0.0
    assert float(numbers.max()) < 1.0
    counts = torch.histc(numbers, bins=10, min=0.0, max=1.0)
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 30.0  # chi-square, 9 degrees of freedom: p < 0.0005
