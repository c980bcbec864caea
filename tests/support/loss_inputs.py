"""Arguments of an extra loss, made from what it reads."""

import torch
from torch import Tensor

from arena.policies import ActorCritic, PackedRuns, RecurrentState
from arena.policies.nn.actor_critic import PolicyOutput
from trainer.ppo.sequences import SequenceBatch


def inputs(
    network: ActorCritic, seen: Tensor, features: Tensor, lengths: list[int], counts: Tensor
) -> tuple[SequenceBatch, PolicyOutput]:
    """A batch of sequences and the network's output at its decisions; all that is not given is 0."""
    layout, decisions, chosen = network.layout, len(seen), counts.nonzero().squeeze(1)
    numbers = torch.zeros(len(chosen))
    state = torch.zeros(len(lengths), network.core.state_size)
    batch = SequenceBatch(
        seen=seen,
        state=RecurrentState(state, state),
        runs=PackedRuns.of(torch.tensor(lengths), max(lengths)),
        counts=counts,
        chosen=None if len(chosen) == decisions else chosen,
        index=chosen,
        noise=torch.zeros(len(chosen), layout.log_std_size),
        mask=torch.ones(len(chosen), layout.mask_size, dtype=torch.bool),
        raw=torch.zeros(len(chosen), layout.raw_size),
        log_prob=torch.zeros(len(chosen), len(layout.heads)),
        old_value=numbers,
        advantage=numbers,
        target=numbers,
    )
    return batch, PolicyOutput(torch.zeros(decisions, layout.parameter_size), torch.zeros(decisions), features)
