"""Counter-based random numbers on tensors: identical on every device and for any batch size.

The functions are stateless. A number depends only on a seed and on integer keys for its purpose, computed as in
`arena.seeding`. Row k of a batch therefore never depends on its neighbours.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from arena.seeding.arrays import derive_array

_MANTISSA_BITS = 24  # of float32, with the implicit one


def derive(seed: Int[Tensor, "..."], *keys: int | Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Derive seeds elementwise, equal to `arena.seeding.derive` with integer keys.

    Args:
        seed: Parent seeds, int64 in [0, 2^63).
        keys: Integers in [0, 2^63), or int64 tensors that broadcast against `seed`.

    Returns:
        Derived seeds, int64 in [0, 2^63).
    """
    if seed.is_cpu:  # NumPy takes a quarter of the time for small arrays
        words = (key.numpy() if isinstance(key, Tensor) else key for key in keys)
        return torch.from_numpy(np.asarray(derive_array(seed.numpy(), *words)))
    return derive_on_device(seed, *keys)


def derive_on_device(seed: Int[Tensor, "..."], *keys: int | Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """Derive seeds as `derive` does, with operations available on any device."""
    state = _mix(seed + _GAMMA)
    for key in keys:
        word = torch.as_tensor(key, dtype=torch.int64, device=seed.device)
        state = _mix((state ^ _mix(word + 1)) + _GAMMA)
    return _shift_right(state, 1)


def uniform(derived: Int[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Map derived seeds to float32 numbers in [0, 1), with 24 bits of resolution."""
    # The highest 24 bits: float32 has no more, and rounding up could give 1.
    return (derived >> (63 - _MANTISSA_BITS)).to(torch.float32) * 2.0**-_MANTISSA_BITS


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


_GAMMA = _signed(0x9E3779B97F4A7C15)
_MULTIPLIERS = (_signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB))


def _mix(word: Tensor) -> Tensor:
    """SplitMix64's finaliser; int64 products wrap like unsigned ones."""
    word = (word ^ _shift_right(word, 30)) * _MULTIPLIERS[0]
    word = (word ^ _shift_right(word, 27)) * _MULTIPLIERS[1]
    return word ^ _shift_right(word, 31)


def _shift_right(word: Tensor, bits: int) -> Tensor:
    """Logical right shift, because int64 shifts are arithmetic."""
    return (word >> bits) & ((1 << (64 - bits)) - 1)
