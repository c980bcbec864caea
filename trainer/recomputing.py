"""Less memory for more time: the backward pass computes activations again, one part of a minibatch after another."""

import functools
import itertools

import torch
from torch.utils.checkpoint import checkpoint

from arena.policies import ActorCritic, RecurrentState
from arena.policies.network import Readout
from trainer.samples import Samples


def sequence_in_parts(network: ActorCritic, samples: Samples, parts: int, *, half: bool) -> Readout:
    """What `network.sequence` gives, with the activations of one part of the runs in memory at a time."""
    count = len(samples.state.hidden)
    sequence = functools.partial(network.sequence, half=half)
    parts = min(parts, count)
    bounds = [count * part // parts for part in range(parts + 1)]
    places, readouts = [], []
    for begin, end in itertools.pairwise(bounds):
        rows, runs = samples.runs.part(begin, end)
        state = RecurrentState(*(each[begin:end] for each in samples.state))
        seen = samples.seen.index_select(0, rows)
        readouts.append(checkpoint(sequence, seen, state, runs, use_reentrant=False, preserve_rng_state=False))
        places.append(rows)
    back = torch.cat(places).argsort()
    return Readout(*(torch.cat(pieces).index_select(0, back) for pieces in zip(*readouts, strict=True)))
