"""How much arithmetic the work is, and how much of it a processor could do."""

import statistics
from collections.abc import Callable

import torch

from benchmarks.peers.workload import Work

PRODUCT_SIZE = 2048
"""Rows and columns of the matrices whose product says what the processor can do."""

PRODUCTS = 5


def update_flop(work: Work, forward_flop: int) -> int:
    """Floating point operations of an update.

    A forward pass and twice as much backwards (for the weights, for the inputs) for every sample and epoch; nobody asks
    for the gradient of the observation, so that the encoder's first layer goes back once only.
    """
    first_layer = 2 * work.observation_size * work.encoder
    return work.samples * work.epochs * (3 * forward_flop - first_layer)


def iteration_flop(work: Work, forward_flop: int) -> int:
    """The update, and one forward pass for every sample of the rollout."""
    return update_flop(work, forward_flop) + work.samples * forward_flop


def matmul_bound(clock: Callable[[], float]) -> float:
    """Floating point operations a second of one large product, with this process's threads and precision."""
    left, right = torch.randn(2, PRODUCT_SIZE, PRODUCT_SIZE)
    product = torch.mm(left, right)
    seconds = []
    for _ in range(PRODUCTS):
        started = clock()
        torch.mm(left, right, out=product)
        seconds.append(clock() - started)
    return 2 * PRODUCT_SIZE**3 / statistics.median(seconds)
