"""Checks of invalid input: illegal actions and wrong calls."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from arena.conformance import checks
from arena.conformance.determinism_checks import ROWS_COMPARED, Determinism
from arena.conformance.lockstep import Lockstep
from arena.conformance.observation_checks import misplaced, out_of_range
from arena.conformance.report import Finding
from arena.conformance.step_checks import wrong_outcomes, wrong_rewards
from arena.conformance.transitions import ObservationBatch, Transition, describe, draw, first
from arena.environments.base import Actions, Environment, Observation
from arena.environments.spec import ActionHead, HeadKind
from arena.errors import ArenaError, InvalidActionError

LOOKED_FOR = 50
"""Number of decisions in which an agent with a masked option is searched."""

BEYOND = 3.0
"""A continuous action beyond [-1, 1]."""


Spoil = Callable[[Actions, Observation], tuple[Actions, int, int] | None]
"""Replaces an action by an illegal one; returns the actions, row and agent, or None if no agent qualifies now."""


def try_illegal_actions(repeating: Determinism, *, in_range: bool) -> Finding:
    """Choose masked and nonexistent options.

    Args:
        repeating: Creates the environment.
        in_range: Whether observations stay in range under legal actions; otherwise ranges are not checked here.
    """
    refused: list[str] = []
    taken: list[str] = []
    spec = repeating.make(num_envs=1, seed=0).spec
    for head in spec.heads:
        for what, spoil in _wrong_choices(head):
            row = _try_one(repeating, head, (what, spoil), (refused, taken), in_range=in_range)
            if row is not None:
                return row
    if not refused and not taken:
        return checks.ILLEGAL.not_applicable("no action is illegal")
    reactions = (("rejected", refused), ("accepted by the game's rules", taken))
    return checks.ILLEGAL.passed("; ".join(f"{became}: {', '.join(what)}" for became, what in reactions if what))


def try_wrong_calls(repeating: Determinism) -> Finding:
    """Call the environment with invalid arguments."""
    env = repeating.make(num_envs=ROWS_COMPARED, seed=0)
    seeds, head = repeating.seeds("match"), env.spec.heads[0]
    actions = draw(env, repeating.make(num_envs=ROWS_COMPARED, seed=0).reset(seeds), torch.Generator().manual_seed(0))
    calls: Mapping[str, Callable[[], object]] = {
        "a step before the first reset": lambda: env.step(actions),
        "a seed below 0": lambda: env.reset(seeds - seeds - 1),
        "seeds for fewer rows": lambda: env.reset(seeds[:-1]),
        f"actions without head {head.name!r}": lambda: _after_reset(env, seeds, _without(actions, head.name)),
        "actions with an additional head": lambda: _after_reset(env, seeds, {**actions, "another": actions[head.name]}),
        f"actions of fewer rows in head {head.name!r}": lambda: _after_reset(
            env, seeds, {**actions, head.name: actions[head.name][:-1]}
        ),
    }
    for what, call in calls.items():
        try:
            call()
        except ArenaError:
            continue
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever it raises instead
            return checks.REFUSALS.failed(f"{what} raises {describe(error)}")
        return checks.REFUSALS.failed(f"{what} is accepted silently")
    return checks.REFUSALS.passed(f"{len(calls)} kinds of them")


def _try_one(
    repeating: Determinism,
    head: ActionHead,
    wrong_choice: tuple[str, Spoil],
    became: tuple[list[str], list[str]],
    *,
    in_range: bool,
) -> Finding | None:
    """Try one illegal action at the first opportunity; return a finding only if the environment reacts wrongly.

    Appends to the list of rejected or to the list of accepted actions.
    """
    (what, spoil), (refused, taken) = wrong_choice, became
    env, reference = (repeating.make(num_envs=ROWS_COMPARED, seed=0) for _ in range(2))
    seeds, rng = repeating.seeds("match").to(env.device), torch.Generator().manual_seed(repeating.seed)
    shown, again = env.reset(seeds), reference.reset(seeds)
    lengths = torch.zeros_like(seeds)
    for decision in range(1, LOOKED_FOR + 1):
        actions = draw(env, shown, rng)
        lengths += 1
        if spoiled := spoil(actions, shown):
            wrong, row, agent = spoiled
            where = f"decision {decision} of row {row}, {env.spec.name_agent(agent)}"
            before = env.seeds.clone(), env.next_seeds.clone()
            try:
                step = env.step(wrong)
            except InvalidActionError:
                refused.append(f"{what} of {head.name}")
                return _after_refusal(
                    repeating, (env, shown), (reference, again), f"{what} of head {head.name!r}", where
                )
            except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: it has to be InvalidActionError
                return checks.ILLEGAL.failed(f"{what} of head {head.name!r} raises {describe(error)}", where)
            taken.append(f"{what} of {head.name}")
            moment = Transition(env, lengths, *before, shown, wrong, step)
            return _after_taking(moment, f"{what} of head {head.name!r}", where, in_range=in_range)
        step, other = env.step(actions), reference.step(actions)
        lengths = lengths.masked_fill(step.over, 0)
        shown, again = step.observation, other.observation
    return None


def _after_refusal(
    repeating: Determinism,
    one: tuple[Environment, Observation],
    other: tuple[Environment, Observation],
    what: str,
    where: str,
) -> Finding | None:
    """Check that a rejected action changed nothing, by playing on beside an identical environment."""
    if not one[0].spec.reproducible:
        return None
    rng = torch.Generator().manual_seed(repeating.seed)
    try:
        lockstep = Lockstep(one[0], other[0], range(ROWS_COMPARED))
        found = lockstep.compare(one[1], other[1], rng, decisions=repeating.decisions)
    except (Exception, SystemExit) as error:  # noqa: BLE001  as above
        return checks.ILLEGAL.failed(f"after {what} was rejected, legal actions raise {describe(error)}", where)
    return (
        None
        if found is None
        else checks.ILLEGAL.failed(f"{what} was rejected but changed the match: {found.seen}", where)
    )


def _after_taking(moment: Transition, what: str, where: str, *, in_range: bool) -> Finding | None:
    """Check the transition that follows an accepted illegal action."""
    everywhere = torch.ones_like(moment.step.over)
    batch = ObservationBatch(moment.env, moment.step.observation, everywhere)
    seen = (misplaced(batch) or out_of_range(batch)) if in_range else None
    fault = seen or wrong_rewards(moment) or wrong_outcomes(moment)
    return None if fault is None else checks.ILLEGAL.failed(f"{what} was accepted, and then: {fault.seen}", where)


def _wrong_choices(head: ActionHead) -> Iterator[tuple[str, Spoil]]:
    """Yield the illegal actions of a head, each with a function that applies it."""
    match head.kind:
        case HeadKind.CATEGORICAL:
            if head.masked:
                yield "a forbidden option", _forbidden(head)
            yield f"option {head.size}", _put(head, head.size)
            yield "option -1", _put(head, -1)
        case HeadKind.BERNOULLI:
            if head.masked:
                yield "a forbidden switch", _forbidden(head)
        case HeadKind.GAUSSIAN:
            yield f"{BEYOND:g} (beyond [-1, 1])", _put(head, BEYOND)


def _forbidden(head: ActionHead) -> Spoil:
    """Choose a masked option, or turn on a masked switch."""

    def spoil(actions: Actions, observation: Observation) -> tuple[Actions, int, int] | None:
        closed = ~observation.masks[head.name]
        index = first(observation.active & closed.any(dim=-1))
        if index is None:
            return None
        changed = actions[head.name].clone()
        changed[index] = int(closed[index].nonzero()[0]) if head.kind is HeadKind.CATEGORICAL else closed[index]
        return {**actions, head.name: changed}, index[0], index[1]

    return spoil


def _put(head: ActionHead, value: float) -> Spoil:
    """Set an action to a value outside its range."""

    def spoil(actions: Actions, observation: Observation) -> tuple[Actions, int, int] | None:
        index = first(observation.active)
        if index is None:
            return None
        changed = actions[head.name].clone()
        changed[index] = value
        return {**actions, head.name: changed}, index[0], index[1]

    return spoil


def _after_reset(env: Environment, seeds: Tensor, actions: Actions) -> None:
    env.reset(seeds)
    env.step(actions)


def _without(actions: Actions, head: str) -> Actions:
    return {name: action for name, action in actions.items() if name != head}
