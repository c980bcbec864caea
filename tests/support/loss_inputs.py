"""Arguments of an extra loss, made from what it reads."""

import torch
from torch import Tensor

from arena.policies import ActorCritic, PackedRuns, RecurrentState
from arena.policies.nn.actor_critic import PolicyOutput
from trainer.ppo.sequences import SequenceBatch


def inputs(
    network: ActorCritic, seen: Tensor, features: Tensor, lengths: list[int], loss_mask: Tensor
) -> tuple[SequenceBatch, PolicyOutput]:
    """A batch of sequences and the network's output at its decisions; all that is not given is 0."""
    layout, decisions, loss_index = network.layout, len(seen), loss_mask.nonzero().squeeze(1)
    numbers = torch.zeros(len(loss_index))
    state = torch.zeros(len(lengths), network.core.state_size)
    batch = SequenceBatch(
        observation=seen,
        state=RecurrentState(state, state),
        runs=PackedRuns.of(torch.tensor(lengths), max(lengths)),
        loss_mask=loss_mask,
        loss_index=None if len(loss_index) == decisions else loss_index,
        index=loss_index,
        noise=torch.zeros(len(loss_index), layout.log_std_size),
        action_mask=torch.ones(len(loss_index), layout.mask_size, dtype=torch.bool),
        raw_action=torch.zeros(len(loss_index), layout.raw_size),
        log_prob=torch.zeros(len(loss_index), len(layout.heads)),
        old_value=numbers,
        advantage=numbers,
        returns=numbers,
    )
    return batch, PolicyOutput(torch.zeros(decisions, layout.parameter_size), torch.zeros(decisions), features)
