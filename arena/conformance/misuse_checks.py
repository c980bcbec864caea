"""Checks of invalid input: illegal actions and wrong calls."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from arena.conformance.check import NotApplicableError, ViolationError, check, describe
from arena.conformance.lockstep import Lockstep
from arena.conformance.observation_checks import layout, ranges
from arena.conformance.step_checks import outcomes, rewards
from arena.conformance.transitions import Memory, Transition, first
from arena.conformance.trial import Trial
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError, InvalidActionError
from arena.policies.scripted import draw_actions

LOOKED_FOR = 50
"""Number of decisions in which an agent with a masked option is searched."""

BEYOND = 3.0
"""A continuous action beyond [-1, 1]."""

REJECTED = "rejected"
ACCEPTED = "accepted by the game's rules"


@check("illegal actions")
def illegal_actions(trial: Trial) -> str:
    """Step raises InvalidActionError for a masked or nonexistent option and changes nothing, or the rules of the game
    define its effect.

    Remedy: validate all actions before the first takes effect, as arena/environments/adapters/subprocess/env.py does.
    """
    reactions: dict[str, list[str]] = {REJECTED: [], ACCEPTED: []}
    for head in trial.spec.heads:
        for what, value in _illegal_choices(head):
            if reaction := _try_one(trial, head, what, value):
                reactions[reaction].append(f"{what} of {head.name}")
    if not any(reactions.values()):
        raise NotApplicableError("no action is illegal")
    return "; ".join(f"{reaction}: {', '.join(choices)}" for reaction, choices in reactions.items() if choices)


@check("invalid calls")
def invalid_calls(trial: Trial) -> str:
    """A negative seed, a wrong number of seeds, a step before the first reset, a missing head and an action of a wrong
    shape raise ArenaError.

    Remedy: derive from SeededRows of arena/environments/seeded.py, which checks this.
    """
    env, seeds, head = trial.open(), trial.seeds("match"), trial.spec.heads[0].name
    actions = draw_actions(env.spec.heads, trial.open().reset(seeds), trial.rng())
    others = {name: action for name, action in actions.items() if name != head}
    wrong_actions: Mapping[str, Actions] = {
        f"actions without head {head!r}": others,
        "actions with an additional head": {**actions, "another": actions[head]},
        f"actions of fewer rows in head {head!r}": {**others, head: actions[head][:-1]},
    }
    calls: Mapping[str, Callable[[], object]] = {
        "a step before the first reset": partial(env.step, actions),
        "a seed below 0": partial(env.reset, torch.full_like(seeds, -1)),
        "seeds for fewer rows": partial(env.reset, seeds[:-1]),
        **{what: partial(_step_after_reset, env, seeds, wrong) for what, wrong in wrong_actions.items()},
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


def _step_after_reset(env: Environment, seeds: Tensor, actions: Actions) -> None:
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


def _try_one(trial: Trial, head: ActionHead, choice: str, value: float | None) -> str | None:
    """Try one illegal action at the first opportunity; return the reaction, or None without an opportunity.

    Raises:
        ViolationError: The environment reacts wrongly.
    """
    # The reference plays the same legal actions and never receives the illegal one.
    env, reference, rng = trial.open(), trial.open(), trial.rng()
    seeds = trial.seeds("match").to(env.device)
    shown, again = env.reset(seeds), reference.reset(seeds)
    lengths = torch.zeros_like(seeds)
    for _ in range(LOOKED_FOR):
        actions = draw_actions(env.spec.heads, shown, rng)
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
            _require_no_change(Lockstep(trial, env, reference), (shown, again), what, where)
        return REJECTED
    except (Exception, SystemExit) as error:
        raise ViolationError(f"{what} raises {describe(error)}", where=where) from error
    moment = Transition(env, lengths, *before, shown, wrong, step, Memory(env))
    try:
        if ranges not in trial.violations:  # legal actions stay in range
            layout.function(env, step.observation, torch.ones_like(step.over))
            ranges.function(env, step.observation, torch.ones_like(step.over))
        rewards.function(moment)
        outcomes.function(moment)
    except ViolationError as fault:
        raise ViolationError(f"{what} was accepted, and then: {fault}", where=where) from None
    return ACCEPTED


def _make_illegal(
    head: ActionHead, value: float | None, actions: Actions, observation: Observation
) -> tuple[Actions, int, int] | None:
    """Replace an action of an active agent; return the actions, row and agent, or None if no agent qualifies now."""
    # Only active agents: actions of inactive ones are ignored by contract.
    closed = ~observation.masks[head.name] if value is None else torch.ones_like(observation.active[..., None])
    index = first(observation.active & closed.any(dim=-1))
    if not index:
        return None
    changed = actions[head.name].clone()
    if value is not None:
        changed[index] = value
    else:
        changed[index] = int(closed[index].nonzero()[0]) if head.kind is HeadKind.CATEGORICAL else closed[index]
    return {**actions, head.name: changed}, index[0], index[1]


def _require_no_change(lockstep: Lockstep, shown: tuple[Observation, Observation], what: str, where: str) -> None:
    """Check that a rejected action changed nothing, by playing on beside an identical environment."""
    try:
        lockstep.play_on(shown)
    except ViolationError as difference:
        raise ViolationError(f"{what} was rejected but changed the match: {difference}", where=where) from None
    except (Exception, SystemExit) as error:
        raise ViolationError(
            f"after {what} was rejected, legal actions raise {describe(error)}", where=where
        ) from error
