"""FLOP of the workload, and the FLOP/s that the processor reaches in a large matrix product."""

import statistics
from collections.abc import Callable

import torch

from benchmarks.peers.workload import Workload

PRODUCT_SIZE = 2048
"""Rows and columns of the matrices."""

PRODUCTS = 5


def update_flop(work: Workload, forward_flop: int) -> int:
    """Return the FLOP of an update.

    Per sample and epoch: a forward pass, and twice as much backward (weights and inputs). The gradient of the
    observation is not needed, so the encoder's first layer counts once backward.
    """
    first_layer = 2 * work.observation_size * work.encoder
    return work.samples * work.epochs * (3 * forward_flop - first_layer)


def iteration_flop(work: Workload, forward_flop: int) -> int:
    """Return the FLOP of the update and of one forward pass per sample of the rollout."""
    return update_flop(work, forward_flop) + work.samples * forward_flop


def matmul_bound(clock: Callable[[], float]) -> float:
    """Return the FLOP/s of one large matrix product with this process's threads and precision."""
    left, right = torch.randn(2, PRODUCT_SIZE, PRODUCT_SIZE)
    product = torch.mm(left, right)
    seconds = []
    for _ in range(PRODUCTS):
        started = clock()
        torch.mm(left, right, out=product)
        seconds.append(clock() - started)
    return 2 * PRODUCT_SIZE**3 / statistics.median(seconds)
