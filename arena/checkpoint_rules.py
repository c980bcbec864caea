"""Rules for the numbers of a checkpoint. Torch-free: the league server checks the same rules as the loader."""

POLICY_FORMAT = "echelon-league.policy"

SAFE_CASTS = {"float32": ("bfloat16", "float16", "float64")}
"""Types of stored tensors that are converted on loading, by the type of the network's tensor.

Integers are never converted: such a file was not written from the weights of this network.
"""

LARGEST_WEIGHT = 1e18
"""Largest magnitude of a floating-point weight.

The product of two weights above 1.8e19 overflows single precision. Trained weights stay below 1e3.
"""


def is_safe_cast(stored: str, needed: str) -> bool:
    """Return whether a tensor of one type may be loaded into one of another, by the names of their types."""
    return stored == needed or stored in SAFE_CASTS.get(needed, ())
