"""Checks of observations: shapes, ranges, legal options and inactive agents."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from arena.conformance.transitions import Fault, ObservationBatch, Transition, first, misshapen
from arena.environments.spec import ChoiceBlock, EnvironmentSpec, HeadKind

MAX_STORED_OBSERVATIONS = 4096
"""Observations per side that are stored for the comparison."""


def misplaced(glance: ObservationBatch) -> Fault | None:
    """Check names, shapes, types and devices against the spec."""
    spec, seen = glance.env.spec, glance.observation
    agents = (glance.env.num_envs, spec.num_agents)
    masked = {head.name: head.size for head in spec.heads if head.masked}
    if seen.masks.keys() != masked.keys():
        return Fault(f"the masks are for heads {sorted(seen.masks)}, but the masked heads are {sorted(masked)}")
    expected = {
        "values": (seen.values, (*agents, spec.observation_size), torch.float32),
        "active": (seen.active, agents, torch.bool),
        **{f"mask {name!r}": (seen.masks[name], (*agents, size), torch.bool) for name, size in masked.items()},
    }
    faults = (misshapen(glance.env, name, *tensor) for name, tensor in expected.items())
    return next(filter(None, faults), None)


def out_of_range(glance: ObservationBatch) -> Fault | None:
    """Check that values are finite and within the bounds of their block; zeros of inactive agents are exempt."""
    spec, seen = glance.env.spec, glance.observation
    looked_at = glance.rows[:, None, None] & (seen.active[..., None] | (seen.values != 0.0))
    low, high, whole = _bounds(spec, seen.values)
    broken = ~torch.isfinite(seen.values) | (seen.values < low) | (seen.values > high)
    broken |= whole & (seen.values != seen.values.round())
    index = first(broken & looked_at)
    if index is None:
        return None
    row, agent, column = index
    value = f"{float(seen.values[index]):g}"
    needed = " and whole" if bool(whole[column]) else ""
    within = f"[{float(low[column]):g}, {float(high[column]):g}]{needed}"
    return Fault(f"{spec.name_entry(column)} is {value}: the spec declares {within}", row, agent)


def without_options(glance: ObservationBatch) -> Fault | None:
    """Check that active agents have a legal option of every masked categorical head."""
    for head in glance.env.spec.heads:
        if head.masked and head.kind is HeadKind.CATEGORICAL:
            nothing = glance.observation.active & ~glance.observation.masks[head.name].any(dim=-1)
            if index := first(nothing & glance.rows[:, None]):
                return Fault(f"it is active, but no option of head {head.name!r} is legal", *index)
    return None


def check_inactive_observations(glance: ObservationBatch) -> Fault | None:
    """Check that inactive agents observe zeros and have no legal options."""
    seen, absent = glance.observation, ~glance.observation.active & glance.rows[:, None]
    if index := first((seen.values != 0.0) & absent[..., None]):
        row, agent, column = index
        value = float(seen.values[index])
        return Fault(f"it is inactive, but {glance.env.spec.name_entry(column)} is {value:g}", row, agent)
    for head in glance.env.spec.heads:
        if head.masked:
            most = int(head.kind is HeadKind.CATEGORICAL)  # one that does nothing may stay
            open_to = seen.masks[head.name].sum(dim=-1)
            if index := first((open_to > most) & absent):
                return Fault(f"it is inactive, but head {head.name!r} has {int(open_to[index])} legal options", *index)
    return None


class NoReactivation:
    """Checks that inactive agents stay inactive for the rest of an episode, unless the game is turn-based."""

    def __init__(self) -> None:
        self._inactive = torch.zeros((), dtype=torch.bool)

    def __call__(self, moment: Transition) -> Fault | None:
        """Check the agents that are active in the next decision."""
        active, ended = moment.step.observation.active, moment.step.ended[:, None]
        before = ~moment.before.active | self._inactive
        back = first(before & active & ~ended) if not moment.env.spec.turn_based else None
        self._inactive = torch.where(ended, ~active, before | ~active)
        return None if back is None else Fault("it is active again after it was inactive", *back)


class SideIsObservable:
    """Checks that no observation occurs on both sides, in games with unlike sides."""

    def __init__(self) -> None:
        self._shown: tuple[set[bytes], set[bytes]] = (set(), set())

    def __call__(self, moment: Transition) -> Fault | None:
        """Compare the observations of active agents with those of the other side, up to a limit."""
        spec, before = moment.env.spec, moment.before
        if spec.unlike_sides is None or max(map(len, self._shown)) > MAX_STORED_OBSERVATIONS:
            return None
        for row, agent in before.active.nonzero().tolist():
            away = agent >= spec.agents_per_side[0]
            # Bytes are compared, so that -0.0 and 0.0 count as different, as they can be for a network.
            encoded = before.values[row, agent].cpu().numpy().tobytes()
            if encoded in self._shown[not away]:
                return Fault("its observation equals one of an agent of the other side", row, agent)
            self._shown[away].add(encoded)
        return None


class OptionCoverage:
    """Coverage of the legal options: those that were legal, and those that were chosen."""

    def __init__(self, spec: EnvironmentSpec) -> None:
        heads = [head for head in spec.heads if head.kind is HeadKind.CATEGORICAL]
        self._legal = {head.name: torch.zeros(head.size, dtype=torch.bool) for head in heads}
        self._taken = {head.name: torch.zeros(head.size, dtype=torch.bool) for head in heads}

    def __call__(self, moment: Transition) -> Fault | None:
        """Record the chosen options; never a fault."""
        active = moment.before.active
        for name, legal in self._legal.items():
            masks: Mapping[str, Tensor] = moment.before.masks
            legal |= masks[name][active].any(dim=0).cpu() if name in masks else active.any().cpu()
            self._taken[name][moment.actions[name][active].cpu()] = True
        return None

    def __str__(self) -> str:
        """Return the numbers of chosen and of legal options for each head."""
        return "; ".join(self._coverage()) or "no head is categorical; actions were drawn from the declared ranges"

    def _coverage(self) -> Iterator[str]:
        for name, legal in self._legal.items():
            taken = int(self._taken[name].sum())
            rest = "" if taken == int(legal.sum()) else " (more --matches try more)"
            yield f"{name}: {taken:,} of {int(legal.sum()):,} options tried{rest}"


def _bounds(spec: EnvironmentSpec, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return low, high and whether the value is an integer, each (D,)."""
    blocks = spec.observation
    low = torch.cat([torch.full((block.size,), block.low) for block in blocks]).to(like)
    high = torch.cat([torch.full((block.size,), block.high) for block in blocks]).to(like)
    whole = torch.cat([torch.full((block.size,), isinstance(block, ChoiceBlock)) for block in blocks])
    return low, high, whole.to(like.device)
