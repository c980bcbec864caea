"""Heads that choose a member of a set compare a wish with every member: where it stands makes no difference."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError
from arena.policies.sets import SetLayout


class ActorPart(NamedTuple):
    """Rows of the actor's layer that are one head's.

    A head that chooses of a set has a row for every other option, and then one for every feature of a member: its wish.

    Attributes:
        rows: Where they are.
        others: How many come before the wish.
        chosen: Number of the set that is chosen from; None for a head whose rows are its parameters.
    """

    rows: slice
    others: int
    chosen: int | None


def actor_parts(heads: Sequence[ActionHead], sets: Sequence[SetLayout]) -> dict[str, ActorPart]:
    """Rows of the actor's layer, head by head.

    Raises:
        ArenaError: A set is chosen from by a head that there is none of, or that has too few options.
    """
    known = {head.name: head for head in heads}
    chosen = {name: number for number, layout in enumerate(sets) for name in layout.heads}
    for name, number in chosen.items():
        if name not in known or known[name].kind is not HeadKind.CATEGORICAL:
            raise ArenaError(f"{name!r} chooses of a set and is not a categorical head: name one of these")
        if known[name].size < sets[number].members:
            raise ArenaError(
                f"head {name!r} has {known[name].size} options for {sets[number].members} members: give it one for each"
            )
    parts: dict[str, ActorPart] = {}
    begin = 0
    for head in heads:
        if head.name in chosen:
            layout = sets[chosen[head.name]]
            others, wish = head.size - layout.members, layout.width
        else:
            others, wish = head.size, 0
        parts[head.name] = ActorPart(slice(begin, begin + others + wish), others, chosen.get(head.name))
        begin += others + wish
    return parts


def choose(
    parts: Iterable[ActorPart], rows: Float[Tensor, "... rows"], members: Sequence[Float[Tensor, "... _ _"]]
) -> Float[Tensor, "... P"]:
    """Distribution parameters; the logit of a member is how well it answers the head's wish."""
    pieces: list[Tensor] = []
    for part in parts:
        own = rows[..., part.rows]
        pieces.append(own[..., : part.others])
        if part.chosen is not None:
            wish, offered = own[..., part.others :], members[part.chosen]
            pieces.append((offered @ wish.unsqueeze(-1)).squeeze(-1) / math.sqrt(offered.shape[-1]))
    return torch.cat(pieces, dim=-1)
