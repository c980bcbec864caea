"""Checks of determinism: the same seeds and actions give the same match in any row, order and process."""

from dataclasses import replace
from itertools import chain

import torch

from arena.conformance.check import NotApplicableError, ViolationError, check
from arena.conformance.lockstep import Lockstep, choose
from arena.conformance.report import Verdict
from arena.conformance.transitions import parts_of, play, tensors_of
from arena.conformance.trial import ROWS_COMPARED, Trial
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.base import Actions, Environment, Observation
from arena.policies.scripted import draw_actions

MOST_PROCESSES = 2


@check("repeats")
def repeats(trial: Trial) -> str:
    """The same seeds and actions give the same match bit for bit.

    Remedy: derive all randomness from the seed of the match, not from the clock, the process or a shared generator, or
    declare reproducible=False.
    """
    Lockstep(trial, trial.open(), trial.open()).play()
    return f"{ROWS_COMPARED} matches, played twice"


@check("rows")
def rows(trial: Trial) -> str:
    """A match does not depend on its row, on other rows or on the seed with which the environment was created.

    Remedy: store the state of each match in its own row, and derive all randomness from the seed of the match.
    """
    turned = [*reversed(range(ROWS_COMPARED))]
    Lockstep(trial, trial.open(), trial.open(1), turned).play()
    Lockstep(trial, trial.open(), trial.open(2, rows=1), turned[:1]).play()
    return "in another order, with another seed of the environment, and alone"


@check("reset")
def reset(trial: Trial) -> str:
    """A match that starts after another one, with or without reset, equals the same match in a new environment.

    Remedy: reset the whole state of a match when it starts.
    """
    used = trial.open()
    _play_match(trial, used, used.reset(trial.seeds("other")), decisions=max(1, trial.spec.max_decisions // 2))
    Lockstep(trial, trial.open(), used).play()
    one, used = (trial.open(rows=1) for _ in range(2))
    seeds = trial.seeds("match", rows=1).to(one.device)
    shown = used.reset(trial.seeds("other", rows=1))
    used.next_seeds.copy_(seeds)
    shown = _play_match(trial, used, shown, decisions=trial.most_decisions)
    if int(used.seeds[0]) == int(seeds[0]):  # otherwise its match is longer than comparisons are
        Lockstep(trial, one, used, [0]).play_on((one.reset(seeds), shown))
    return "after an unfinished match, and after a finished one"


@check("next match")
def next_match(trial: Trial) -> str:
    """A match and its final observation do not depend on the next match of its row.

    Remedy: observe the match before the row starts the next one, and draw nothing from the next seed before that.
    """
    Lockstep(trial, trial.open(), trial.open()).play(next_seeds=trial.seeds("next"))
    return "with other matches after them"


@check("processes")
def processes(trial: Trial) -> str:
    """A match does not depend on the number of processes that step it.

    Remedy: leave no state of one match for another in modules or files.
    """
    if not plays_single_matches(trial.env):
        raise NotApplicableError("it steps a whole batch itself")
    Lockstep(trial, trial.open(), trial.open(processes=MOST_PROCESSES)).play()
    return f"0 and {MOST_PROCESSES} processes"


@check("actions of inactive agents")
def actions_of_inactive_agents(trial: Trial) -> str:
    """The actions of inactive agents have no effect.

    Remedy: ignore the actions of agents that are not active.
    """
    one, rng = trial.open(), trial.rng()

    def perturb(actions: Actions, observation: Observation) -> Actions:
        """Redraw the actions of inactive agents, without regard to masks."""
        anything = {name: torch.ones_like(mask) for name, mask in observation.masks.items()}
        return choose(
            observation.active, actions, draw_actions(one.spec.heads, replace(observation, masks=anything), rng)
        )

    Lockstep(trial, one, trial.open()).play(perturb=perturb)
    return "drawn again, also masked ones"


@check("chance")
def chance(trial: Trial) -> str:
    """Matches with different seeds differ if the spec has chance=True and are equal if it has chance=False.

    Remedy: derive the randomness of the game only from the seed of reset, or correct the spec.
    """
    differ = _differ_by_seed(trial)
    detail = "other seeds, same actions: " + ("other matches" if differ else "the same matches")
    match trial.spec.chance, differ:
        case (False, True):
            raise ViolationError(f"it declares no chance; {detail}")
        case (True, False):
            raise ViolationError(f"it declares chance; {detail}", verdict=Verdict.WARNING)
        case (None, False):
            why = "This is correct for a game without chance, otherwise it ignores its seeds"
            raise NotApplicableError(f"{detail}. {why}")
    return detail


REPRODUCTIONS = (repeats, rows, reset, next_match, processes, actions_of_inactive_agents)
"""Checks of games that do not declare reproducible=False."""


def _differ_by_seed(trial: Trial) -> bool:
    envs = trial.open(), trial.open()
    shown = [env.reset(trial.seeds(purpose)) for env, purpose in zip(envs, ("match", "other"), strict=True)]
    plays = [play(env, seen, trial.rng(), trial.most_decisions) for env, seen in zip(envs, shown, strict=True)]
    later = ([tensors_of(step) for step in steps] for steps in zip(*plays, strict=True))
    return any(
        not torch.equal(one[name], other[name])
        for one, other in chain([[parts_of(seen) for seen in shown]], later)
        for name in one
    )


def _play_match(trial: Trial, env: Environment, shown: Observation, *, decisions: int) -> Observation:
    """Play until the match of the first row ends, at most a number of decisions."""
    for step in play(env, shown, trial.rng(), decisions):
        shown = step.observation
        if bool(step.over[0]):
            break
    return shown
