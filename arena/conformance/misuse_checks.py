"""Checks of invalid input: illegal actions and wrong calls."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from arena.conformance.determinism_checks import ROWS_COMPARED, Determinism
from arena.conformance.lockstep import Lockstep
from arena.conformance.observation_checks import misplaced, out_of_range
from arena.conformance.report import NotApplicableError, ViolationError, describe
from arena.conformance.step_checks import wrong_outcomes, wrong_rewards
from arena.conformance.transitions import ObservationBatch, Transition, draw, first
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError, InvalidActionError

LOOKED_FOR = 50
"""Number of decisions in which an agent with a masked option is searched."""

BEYOND = 3.0
"""A continuous action beyond [-1, 1]."""

REJECTED = "rejected"
ACCEPTED = "accepted by the game's rules"


def try_illegal_actions(repeating: Determinism, *, in_range: bool) -> str:
    """Choose masked and nonexistent options.

    Args:
        repeating: Creates the environment.
        in_range: Whether observations stay in range under legal actions; otherwise ranges are not checked here.
    """
    reactions: dict[str, list[str]] = {REJECTED: [], ACCEPTED: []}
    for head in repeating.make(num_envs=1, seed=0).spec.heads:
        for what, value in _illegal_choices(head):
            if reaction := _try_one(repeating, head, what, value, in_range=in_range):
                reactions[reaction].append(f"{what} of {head.name}")
    if not any(reactions.values()):
        raise NotApplicableError("no action is illegal")
    return "; ".join(f"{reaction}: {', '.join(choices)}" for reaction, choices in reactions.items() if choices)


def try_wrong_calls(repeating: Determinism) -> str:
    """Call the environment with invalid arguments."""
    env = repeating.make(num_envs=ROWS_COMPARED, seed=0)
    seeds, head = repeating.seeds("match"), env.spec.heads[0].name
    actions = draw(env, repeating.make(num_envs=ROWS_COMPARED, seed=0).reset(seeds), torch.Generator().manual_seed(0))
    others = {name: action for name, action in actions.items() if name != head}
    calls: Mapping[str, Callable[[], object]] = {
        "a step before the first reset": partial(env.step, actions),
        "a seed below 0": partial(env.reset, torch.full_like(seeds, -1)),
        "seeds for fewer rows": partial(env.reset, seeds[:-1]),
        f"actions without head {head!r}": partial(_after_reset, env, seeds, others),
        "actions with an additional head": partial(_after_reset, env, seeds, {**actions, "another": actions[head]}),
        f"actions of fewer rows in head {head!r}": partial(
            _after_reset, env, seeds, {**others, head: actions[head][:-1]}
        ),
    }
    for what, call in calls.items():
        try:
            call()
        except ArenaError:
            continue
        except (Exception, SystemExit) as error:
            raise ViolationError(f"{what} raises {describe(error)}") from error
        raise ViolationError(f"{what} is accepted silently")
    return f"{len(calls)} kinds of them"


def _after_reset(env: Environment, seeds: Tensor, actions: Actions) -> None:
    env.reset(seeds)
    env.step(actions)


def _illegal_choices(head: ActionHead) -> list[tuple[str, float | None]]:
    """Return the illegal actions of a head: a name and a value each, None for a masked option."""
    match head.kind:
        case HeadKind.CATEGORICAL:
            masked = [("a forbidden option", None)] if head.masked else []
            return [*masked, (f"option {head.size}", head.size), ("option -1", -1)]
        case HeadKind.BERNOULLI:
            return [("a forbidden switch", None)] if head.masked else []
        case HeadKind.GAUSSIAN:
            return [(f"{BEYOND:g} (beyond [-1, 1])", BEYOND)]


def _try_one(
    repeating: Determinism, head: ActionHead, choice: str, value: float | None, *, in_range: bool
) -> str | None:
    """Try one illegal action at the first opportunity; return the reaction, or None without an opportunity.

    Raises:
        ViolationError: The environment reacts wrongly.
    """
    # The reference plays the same legal actions and never receives the illegal one.
    env, reference = (repeating.make(num_envs=ROWS_COMPARED, seed=0) for _ in range(2))
    seeds, rng = repeating.seeds("match").to(env.device), torch.Generator().manual_seed(repeating.seed)
    shown, again = env.reset(seeds), reference.reset(seeds)
    lengths = torch.zeros_like(seeds)
    for _ in range(LOOKED_FOR):
        actions = draw(env, shown, rng)
        lengths += 1
        if spoiled := _make_illegal(head, value, actions, shown):
            break
        step, other = env.step(actions), reference.step(actions)
        lengths = lengths.masked_fill(step.over, 0)
        shown, again = step.observation, other.observation
    else:
        return None
    wrong, row, agent = spoiled
    what = f"{choice} of head {head.name!r}"
    where = f"decision {int(lengths[row])} of row {row}, {env.spec.name_agent(agent)}"
    before = env.seeds.clone(), env.next_seeds.clone()
    try:
        step = env.step(wrong)
    except InvalidActionError:
        if env.spec.reproducible:
            _require_no_change(repeating, Lockstep(env, reference, range(ROWS_COMPARED)), (shown, again), what, where)
        return REJECTED
    except (Exception, SystemExit) as error:
        raise ViolationError(f"{what} raises {describe(error)}", where) from error
    moment = Transition(env, lengths, *before, shown, wrong, step)
    batch = ObservationBatch(env, step.observation, torch.ones_like(step.over))
    seen = (misplaced(batch) or out_of_range(batch)) if in_range else None
    if fault := seen or wrong_rewards(moment) or wrong_outcomes(moment):
        raise ViolationError(f"{what} was accepted, and then: {fault.seen}", where)
    return ACCEPTED


def _make_illegal(
    head: ActionHead, value: float | None, actions: Actions, observation: Observation
) -> tuple[Actions, int, int] | None:
    """Replace an action of an active agent; return the actions, row and agent, or None if no agent qualifies now."""
    # Only active agents: actions of inactive ones are ignored by contract.
    closed = ~observation.masks[head.name] if value is None else torch.ones_like(observation.active[..., None])
    index = first(observation.active & closed.any(dim=-1))
    if index is None:
        return None
    changed = actions[head.name].clone()
    if value is not None:
        changed[index] = value
    else:
        changed[index] = int(closed[index].nonzero()[0]) if head.kind is HeadKind.CATEGORICAL else closed[index]
    return {**actions, head.name: changed}, index[0], index[1]


def _require_no_change(
    repeating: Determinism, lockstep: Lockstep, shown: tuple[Observation, Observation], what: str, where: str
) -> None:
    """Check that a rejected action changed nothing, by playing on beside an identical environment."""
    rng = torch.Generator().manual_seed(repeating.seed)
    try:
        lockstep.compare(shown, rng, decisions=repeating.decisions)
    except ViolationError as difference:
        raise ViolationError(f"{what} was rejected but changed the match: {difference.seen}", where) from None
    except (Exception, SystemExit) as error:
        raise ViolationError(f"after {what} was rejected, legal actions raise {describe(error)}", where) from error
