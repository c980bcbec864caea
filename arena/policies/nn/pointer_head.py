"""Pointer head: select a set member by scaled dot products of a query with the encoded members."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import ActionHead, HeadKind
from arena.errors import GameError
from arena.policies.nn.set_encoder import SetLayout


class HeadRows(NamedTuple):
    """Rows of the actor's output layer that belong to one head.

    A pointer head has one row per option that is no set member, followed by one query row per feature of a member.

    Attributes:
        rows: Slice of the actor's rows.
        direct: Number of rows that are distribution parameters themselves, before the query.
        set_index: Index of the set that the head points into; None for a head without a query.
    """

    rows: slice
    direct: int
    set_index: int | None


def head_rows(heads: Sequence[ActionHead], sets: Sequence[SetLayout]) -> dict[str, HeadRows]:
    """Assign rows of the actor's output layer to heads.

    Raises:
        ArenaError: A set names a head that does not exist, is not categorical or has too few options.
    """
    known = {head.name: head for head in heads}
    set_index = {name: number for number, layout in enumerate(sets) for name in layout.heads}
    for name, number in set_index.items():
        if name not in known or known[name].kind is not HeadKind.CATEGORICAL:
            raise GameError(f"{name!r} chooses of a set and is not a categorical head: name one of these")
        if known[name].size < sets[number].members:
            raise GameError(
                f"head {name!r} has {known[name].size} options for {sets[number].members} members: give it one for each"
            )
    parts: dict[str, HeadRows] = {}
    begin = 0
    for head in heads:
        if head.name in set_index:
            layout = sets[set_index[head.name]]
            direct, query = head.size - layout.members, layout.width
        else:
            direct, query = head.size, 0
        parts[head.name] = HeadRows(slice(begin, begin + direct + query), direct, set_index.get(head.name))
        begin += direct + query
    return parts


def head_parameters(
    parts: Iterable[HeadRows], rows: Float[Tensor, "... rows"], members: Sequence[Float[Tensor, "... _ _"]]
) -> Float[Tensor, "... P"]:
    """Return distribution parameters; a member's logit is q . k / sqrt(E) of the head's query and its features."""
    pieces: list[Tensor] = []
    for part in parts:
        own = rows[..., part.rows]
        pieces.append(own[..., : part.direct])
        if part.set_index is not None:
            query, keys = own[..., part.direct :], members[part.set_index]
            pieces.append((keys @ query.unsqueeze(-1)).squeeze(-1) / math.sqrt(keys.shape[-1]))
    return torch.cat(pieces, dim=-1)
