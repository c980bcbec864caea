"""Random play with a check of every transition; the first violation of each rule is recorded."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import torch

from arena.conformance import observation_checks, step_checks
from arena.conformance.check import Check, ViolationError, describe
from arena.conformance.report import Finding, Verdict
from arena.conformance.transitions import Memory, Transition
from arena.conformance.trial import MatchSummary, Trial
from arena.environments import make
from arena.environments.base import Observation
from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError
from arena.policies.scripted import draw_actions
from arena.seeding import derive

Argument = TypeVar("Argument")
Result = TypeVar("Result")

FINAL_OBSERVATION_CHECKS = (observation_checks.layout, observation_checks.ranges, observation_checks.legal_options)
"""Checks of every observation, including the final observation of an episode."""

OBSERVATION_CHECKS = (*FINAL_OBSERVATION_CHECKS, observation_checks.inactive_agents)
"""Checks of every observation except final observations."""

STEP_CHECKS = (
    observation_checks.returning_agents,
    observation_checks.own_side,
    step_checks.legal_actions,
    step_checks.rewards,
    step_checks.zero_sum,
    step_checks.ends,
    step_checks.outcomes,
    step_checks.lengths,
    step_checks.final_observation,
    step_checks.seeds,
    step_checks.returned_arrays,
)
"""Checks of every transition, in the order of the report."""


class RandomPlay:
    """Plays the environment with random legal actions; results and violations go into the trial."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._rng = trial, trial.rng("players")
        self._env = env = make(trial.name, num_envs=trial.num_envs, seed=derive(trial.seed, "play"))
        self._memory = Memory(env)
        self._lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self._returns = torch.zeros(env.num_envs, env.spec.num_agents, dtype=torch.float64, device=env.device)
        self._finished = [0] * env.num_envs

    def play(self) -> list[Finding]:
        """Play until enough matches are finished or a stopping rule is broken."""
        trial, env = self._trial, self._env
        everywhere = torch.ones_like(self._lengths, dtype=torch.bool)
        # Stopping rules first: the other checks rely on them.
        ordered = sorted(STEP_CHECKS, key=lambda check: not check.stops)
        with trial.progress("matches at random", trial.matches) as advance, suppress(ViolationError):
            observation = self._call(env.reset, trial.seeds("opening", env.num_envs), "when its matches started")
            self._seeds = env.seeds.clone()
            while len(trial.results) < trial.matches:
                self._apply(OBSERVATION_CHECKS, env, observation, everywhere)
                moment = self._step(observation)
                self._apply(ordered, moment)
                if bool(moment.step.ended.any()):
                    self._apply(FINAL_OBSERVATION_CHECKS, env, moment.step.final_observation, moment.step.ended)
                advance(self._count(moment))
                observation = moment.step.observation
        return [self._finding(check) for check in (*OBSERVATION_CHECKS, *STEP_CHECKS)]

    def _apply(self, checks: Sequence[Check], *arguments: object) -> None:
        """Run checks and record their violations; raise that of a stopping rule."""
        for check in checks:
            try:
                check.function(*arguments)
            except ViolationError as violation:
                self._record(check, violation)

    def _record(self, check: Check, violation: ViolationError) -> None:
        """Record the first violation of a rule with its place: match, seed, decision and agent."""
        if violation.index:
            row, *agent = violation.index[:2]
            match = row + self._finished[row] * self._env.num_envs
            place = f"match {match} (seed {int(self._seeds[row])}), decision {int(self._lengths[row])}"
            violation.where = ", ".join([place, *map(self._env.spec.name_agent, agent)])
        violation.where = violation.where or f"decision {int(self._lengths.max())}"
        self._trial.violations.setdefault(check, violation)
        if check.stops:
            raise violation

    def _call(self, function: Callable[[Argument], Result], argument: Argument, where: str = "") -> Result:
        """Call the environment; an error, which only "legal actions" forbids, ends the play."""
        try:
            return function(argument)
        except InvalidActionError as error:
            seen = f"legal actions were rejected: {error}"
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: that is what is asked here
            seen = "; ".join([describe(error), *getattr(error, "__notes__", [])])
        violation = ViolationError(seen, where=where)
        self._record(step_checks.legal_actions, violation)
        raise violation

    def _step(self, observation: Observation) -> Transition:
        """Play one decision."""
        env, trial = self._env, self._trial
        seeds, next_seeds = env.seeds.clone(), env.next_seeds.clone()
        actions = draw_actions(env.spec.heads, observation, self._rng)
        self._seeds, self._lengths = seeds, self._lengths + 1
        # Only the step itself is timed, so that the reported speed excludes the checks.
        start = time.perf_counter()
        step = self._call(env.step, actions)
        trial.stepping_s += time.perf_counter() - start
        trial.decisions += env.num_envs
        return Transition(env, self._lengths, seeds, next_seeds, observation, actions, step, self._memory)

    def _count(self, moment: Transition) -> int:
        """Record the finished matches and return their number; each row contributes as many, plus or minus one."""
        env, step, before = self._env, moment.step, len(self._trial.results)
        self._returns += step.reward
        home, away = (self._returns[:, env.spec.side(side)].mean(dim=1) for side in (False, True))
        for row in step.over.nonzero().flatten().tolist():
            # Taking the first matches to finish would favour short ones, so each row contributes a fixed number.
            if row + self._finished[row] * env.num_envs < self._trial.matches:
                self._trial.results.append(
                    MatchSummary(
                        score=float(step.outcome.score[row]),
                        reason=env.spec.reasons[int(step.outcome.reason[row])],
                        decisions=int(step.outcome.decisions[row]),
                        margin=float(home[row] - away[row]),
                        cut=bool(step.truncated[row]),
                    )
                )
            self._finished[row] += 1
        self._returns = self._returns.masked_fill(step.over[:, None], 0.0)
        self._lengths = self._lengths.masked_fill(step.over, 0)
        return len(self._trial.results) - before

    def _finding(self, check: Check) -> Finding:
        spec, violation, stopping = self._env.spec, self._trial.violations.get(check), self._trial.stopping
        if check is step_checks.zero_sum and not spec.zero_sum and (violation or not stopping):
            sums = "do not sum to 0 and need not" if violation else "sum to 0 but need not: declare zero_sum=True"
            return check.finding(Verdict.INFO, f"rewards {sums}")
        if violation:
            return check.finding(check.severity, str(violation), violation.where)
        if why := _why_not_applicable(check, spec):
            return check.finding(Verdict.NOT_APPLICABLE, why)
        if stopping:
            return check.finding(Verdict.NOT_REACHED, f"no fault before {stopping.name!r} was broken")
        return check.finding(Verdict.PASSED, self._detail(check))

    def _detail(self, check: Check) -> str:
        """Return the details of a check that passed, beyond the number of matches."""
        spec, results = self._env.spec, self._trial.results
        if check is step_checks.legal_actions:
            tried = [_coverage(name, *options.sum(dim=1).tolist()) for name, options in self._memory.options.items()]
            return "; ".join(tried) or "no head is categorical; actions were drawn from the declared ranges"
        if check is step_checks.ends:
            lengths, cut = [result.decisions for result in results], sum(result.cut for result in results)
            most = f"{spec.max_decisions:,} at most"
            return f"{min(lengths):,} to {max(lengths):,} decisions ({most}); {cut} of {len(lengths)} truncated"
        if check is step_checks.outcomes:
            reasons = Counter(result.reason for result in results).most_common()
            return ", ".join(f"{reason} {count}" for reason, count in reasons)
        return f"{spec.observation_size:,} floats per agent" if check is observation_checks.ranges else ""


def _why_not_applicable(check: Check, spec: EnvironmentSpec) -> str | None:
    masked = any(head.masked and head.kind is HeadKind.CATEGORICAL for head in spec.heads)
    if check is observation_checks.legal_options and not masked:
        return "no head has a mask of options"
    if check is observation_checks.own_side and spec.unlike_sides is None:
        return "sides are alike"
    if check is observation_checks.returning_agents and spec.turn_based:
        return "sides move in turns"
    return None


def _coverage(head: str, legal: int, chosen: int) -> str:
    """Return the numbers of chosen and of legal options of a head."""
    rest = "" if chosen == legal else " (more --matches try more)"
    return f"{head}: {chosen:,} of {legal:,} options tried{rest}"
