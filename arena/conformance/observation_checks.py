"""Checks of observations: shapes, ranges, legal options and inactive agents."""

import torch

from arena.conformance.check import ViolationError, check
from arena.conformance.report import Verdict
from arena.conformance.transitions import Transition, first, require_tensor
from arena.environments.base import Environment, Observation
from arena.environments.spec import ChoiceBlock, HeadKind

MAX_STORED_OBSERVATIONS = 4096
"""Observations per side that are stored for the comparison."""


@check("layout", stops=True)
def layout(env: Environment, seen: Observation, rows: torch.Tensor) -> None:
    """Observations have the shapes of the spec: values are float32, masks and active are bool, all on the
    environment's device.

    Remedy: allocate them with spec.num_agents, spec.observation_size and the masked heads.
    """
    agents = (env.num_envs, env.spec.num_agents)
    masked = {head.name: head.size for head in env.spec.heads if head.masked}
    if seen.masks.keys() != masked.keys():
        raise ViolationError(f"the masks are for heads {sorted(seen.masks)}, but the masked heads are {sorted(masked)}")
    require_tensor(env, "values", seen.values, (*agents, env.spec.observation_size), torch.float32)
    require_tensor(env, "active", seen.active, agents, torch.bool)
    for name, size in masked.items():
        require_tensor(env, f"mask {name!r}", seen.masks[name], (*agents, size), torch.bool)


@check("ranges")
def ranges(env: Environment, seen: Observation, rows: torch.Tensor) -> None:
    """Every number of an observation is finite and within low and high of its block, and choices are whole numbers.

    Remedy: widen the bounds of the block, or scale or clip the observation.

    Zeros of inactive agents may be out of range.
    """
    blocks = env.spec.observation
    sizes = torch.tensor([block.size for block in blocks])
    bounds = torch.tensor([(block.low, block.high, isinstance(block, ChoiceBlock)) for block in blocks])
    low, high, whole = bounds.repeat_interleave(sizes, dim=0).to(seen.values).unbind(1)
    broken = ~torch.isfinite(seen.values) | (seen.values < low) | (seen.values > high)
    broken |= whole.bool() & (seen.values != seen.values.round())
    if index := first(broken & rows[:, None, None] & (seen.active[..., None] | (seen.values != 0.0))):
        column = index[2]
        needed = " and whole" if bool(whole[column]) else ""
        raise ViolationError(
            f"{env.spec.name_entry(column)} is {float(seen.values[index]):g}: the spec declares "
            f"[{float(low[column]):g}, {float(high[column]):g}]{needed}",
            index,
        )


@check("legal options", stops=True)
def legal_options(env: Environment, seen: Observation, rows: torch.Tensor) -> None:
    """Every active agent has at least one legal option of every categorical head.

    Remedy: allow an option without effect, or mark the agent as inactive (in a mask 1 is legal and 0 is not).
    """
    for head in env.spec.heads:
        if head.masked and head.kind is HeadKind.CATEGORICAL:
            nothing = seen.active & ~seen.masks[head.name].any(dim=-1)
            if index := first(nothing & rows[:, None]):
                raise ViolationError(f"it is active, but no option of head {head.name!r} is legal", index)


@check("inactive agents")
def inactive_agents(env: Environment, seen: Observation, rows: torch.Tensor) -> None:
    """An agent that does not act, because it is dead or waits for its turn, observes zeros and has no legal options,
    except in the final observation.

    Remedy: set its values to 0 and its masks to false, except for at most one option without effect.
    """
    absent = ~seen.active & rows[:, None]
    if index := first((seen.values != 0.0) & absent[..., None]):
        entry = env.spec.name_entry(index[2])
        raise ViolationError(f"it is inactive, but {entry} is {float(seen.values[index]):g}", index)
    for head in env.spec.heads:
        if head.masked:
            legal = seen.masks[head.name].sum(dim=-1)
            if index := first((legal > int(head.kind is HeadKind.CATEGORICAL)) & absent):
                raise ViolationError(
                    f"it is inactive, but head {head.name!r} has {int(legal[index])} legal options", index
                )


@check("returning agents", severity=Verdict.WARNING)
def returning_agents(moment: Transition) -> None:
    """In games without turns, an inactive agent stays inactive until the episode ends, because its recurrent state is
    not reset.

    Remedy: give a new agent an index that is unused in this match, or declare turn_based if the agent only waits.
    """
    active, ended, memory = moment.step.observation.active, moment.step.ended[:, None], moment.memory
    before = ~moment.before.active | memory.inactive
    memory.inactive = torch.where(ended, ~active, before | ~active)
    if not moment.env.spec.turn_based and (index := first(before & active & ~ended)):
        raise ViolationError("it is active again after it was inactive", index)


@check("own side", severity=Verdict.WARNING)
def own_side(moment: Transition) -> None:
    """If the sides differ, each agent can observe which side it plays.

    Remedy: add an entry to the observation that is 0 at home and 1 away, unless agents should play both sides alike.
    """
    spec, before, seen = moment.env.spec, moment.before, moment.memory.seen
    if spec.unlike_sides is None or max(map(len, seen)) > MAX_STORED_OBSERVATIONS:
        return
    for row, agent in before.active.nonzero().tolist():
        away = agent >= spec.agents_per_side[0]
        # Bytes are compared, so that -0.0 and 0.0 count as different, as they can be for a network.
        encoded = before.values[row, agent].cpu().numpy().tobytes()
        if encoded in seen[not away]:
            raise ViolationError("its observation equals one of an agent of the other side", (row, agent))
        seen[away].add(encoded)
