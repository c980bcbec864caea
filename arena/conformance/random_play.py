"""Random play with a check of every transition; the first fault of each rule is recorded."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from arena.conformance import checks, observation_checks, step_checks
from arena.conformance.report import Finding, Verdict, describe
from arena.conformance.transitions import Fault, ObservationBatch, Transition, draw
from arena.environments.base import Environment, Observation
from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError

ObservationCheck = Callable[[ObservationBatch], Fault | None]
StepCheck = Callable[[Transition], Fault | None]

FINAL_OBSERVATION_CHECKS: tuple[tuple[checks.Check, ObservationCheck], ...] = (
    (checks.LAYOUT, observation_checks.misplaced),
    (checks.RANGES, observation_checks.out_of_range),
    (checks.OPTIONS, observation_checks.without_options),
)
"""Checks of every observation, including the final observation of an episode."""

OBSERVATION_CHECKS = (*FINAL_OBSERVATION_CHECKS, (checks.ABSENT, observation_checks.check_inactive_observations))
"""Checks of every observation except final observations."""


@dataclass(frozen=True)
class Result:
    """A finished match.

    Attributes:
        score: Score of home, in [0, 1].
        reason: Reason of the end.
        decisions: Length of the match.
        margin: Return of home (mean over its agents) minus return of away.
        cut: Whether the match was truncated.
    """

    score: float
    reason: str
    decisions: int
    margin: float
    cut: bool


@dataclass
class Played:
    """Matches between random players and the faults found in them.

    Attributes:
        tried: Coverage of the legal options.
        results: Finished matches, in the order of their ends.
        faults: First fault of each broken rule: its text and its location.
        decisions: Decisions of all rows together.
        stepping_s: Wall time of all steps in seconds.
    """

    tried: observation_checks.OptionCoverage
    results: list[Result] = field(default_factory=list)
    # Only first faults are stored: a broken rule usually fails at every step.
    faults: dict[checks.Check, tuple[str, str]] = field(default_factory=dict)
    decisions: int = 0
    stepping_s: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a fault of a stopping rule ended the play early."""
        return any(check.stops for check in self.faults)

    def rows(self, spec: EnvironmentSpec) -> list[Finding]:
        """Return the finding of every rule that random play checks."""
        return [self._row(check, spec) for check in checks.PLAYED]

    def _row(self, check: checks.Check, spec: EnvironmentSpec) -> Finding:
        if check is checks.ZERO_SUM and not spec.zero_sum and (check in self.faults or not self.stopped):
            sums = (
                "do not sum to 0 and need not"
                if check in self.faults
                else "sum to 0 but need not: declare zero_sum=True"
            )
            return check.finding(Verdict.INFO, f"rewards {sums}")
        if check in self.faults:
            return check.finding(check.severity, *self.faults[check])
        if why := _without_meaning(check, spec):
            return check.finding(Verdict.NOT_APPLICABLE, why)
        if self.stopped:
            broken = next(each.name for each in self.faults if each.stops)
            return check.finding(Verdict.NOT_REACHED, f"no fault before {broken!r} was broken")
        return check.finding(Verdict.PASSED, self._detail(check, spec))

    def _detail(self, check: checks.Check, spec: EnvironmentSpec) -> str:
        """Return the details of a check that passed, beyond the number of matches."""
        if check is checks.ACCEPTED:
            return str(self.tried)
        if check is checks.ENDS:
            lengths = [result.decisions for result in self.results]
            cut = sum(result.cut for result in self.results)
            most = f"{spec.max_decisions:,} at most"
            return f"{min(lengths):,} to {max(lengths):,} decisions ({most}); {cut} of {len(lengths)} truncated"
        if check is checks.OUTCOMES:
            reasons = Counter(result.reason for result in self.results).most_common()
            return ", ".join(f"{reason} {count}" for reason, count in reasons)
        if check is checks.RANGES:
            return f"{spec.observation_size:,} floats per agent"
        return ""


class RandomPlay:
    """Plays an environment with random legal actions and checks every transition.

    Args:
        env: The environment. Nothing else may step it meanwhile.
        matches: Number of matches to finish.
        rng: Random generator of the actions.
        on_finished: Called with the number of newly finished matches.
    """

    def __init__(
        self, env: Environment, matches: int, rng: torch.Generator, on_finished: Callable[[int], None]
    ) -> None:
        self._env, self._matches, self._rng, self._on_finished = env, matches, rng, on_finished
        self._played = Played(observation_checks.OptionCoverage(env.spec))
        self._lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self._returns = torch.zeros(env.num_envs, env.spec.num_agents, dtype=torch.float64, device=env.device)
        self._finished = [0] * env.num_envs
        self._step_checks: tuple[tuple[checks.Check, StepCheck], ...] = (
            (checks.REWARDS, step_checks.wrong_rewards),
            (checks.ENDS, step_checks.wrong_ends),
            (checks.OUTCOMES, step_checks.wrong_outcomes),
            (checks.LENGTHS, step_checks.wrong_lengths),
            (checks.ACCEPTED, self._played.tried),
            (checks.RETURNING, observation_checks.NoReactivation()),
            (checks.ZERO_SUM, step_checks.UnequalSums()),
            (checks.OWN_SIDE, observation_checks.SideIsObservable()),
            (checks.FINAL, step_checks.FinalObservation()),
            (checks.SEEDS, step_checks.wrong_seeds),
            (checks.KEPT, step_checks.NoAliasing()),
        )

    def play(self, seeds: Tensor) -> Played:
        """Play until enough matches are finished or a stopping rule is broken."""
        env, played = self._env, self._played
        try:
            observation = env.reset(seeds)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: that is what is asked here
            played.faults[checks.ACCEPTED] = (describe(error), "when its matches started")
            return played
        self._seeds = env.seeds.clone()
        everywhere = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        while len(played.results) < self._matches and self._sees(observation, everywhere, OBSERVATION_CHECKS):
            moment = self._step(observation)
            if moment is None or not self._checks_hold(moment):
                break
            self._count(moment)
            observation = moment.step.observation
        return played

    def _note(self, check: checks.Check, fault: Fault | None) -> bool:
        """Record the first fault of a rule; return false if it ends the play."""
        if fault is not None:
            self._played.faults.setdefault(check, (fault.seen, self._locate(fault)))
        return fault is None or not check.stops

    def _locate(self, fault: Fault) -> str:
        """Return the location of a fault: match, seed, decision and agent."""
        if fault.row is None:
            return f"decision {int(self._lengths.max())}"
        match = fault.row + self._finished[fault.row] * self._env.num_envs
        where = f"match {match} (seed {int(self._seeds[fault.row])}), decision {int(self._lengths[fault.row])}"
        return where if fault.agent is None else f"{where}, {self._env.spec.name_agent(fault.agent)}"

    def _sees(
        self, observation: Observation, rows: Tensor, looks: Sequence[tuple[checks.Check, ObservationCheck]]
    ) -> bool:
        """Check an observation; return false if a stopping rule is broken."""
        batch = ObservationBatch(self._env, observation, rows)
        return all(self._note(check, look(batch)) for check, look in looks)

    def _step(self, observation: Observation) -> Transition | None:
        """Play one decision; return None and record the fault if the environment raises an error."""
        env = self._env
        seeds, next_seeds = env.seeds.clone(), env.next_seeds.clone()
        actions = draw(env, observation, self._rng)
        self._seeds, self._lengths = seeds, self._lengths + 1
        # Only the step itself is timed, so that the reported speed excludes the checks.
        start = time.perf_counter()
        try:
            step = env.step(actions)
        except InvalidActionError as error:
            self._note(checks.ACCEPTED, Fault(f"legal actions were rejected: {error}"))
        except (Exception, SystemExit) as error:  # noqa: BLE001  as above
            self._note(checks.ACCEPTED, Fault("; ".join([describe(error), *getattr(error, "__notes__", [])])))
        else:
            self._played.stepping_s += time.perf_counter() - start
            self._played.decisions += env.num_envs
            return Transition(env, self._lengths, seeds, next_seeds, observation, actions, step)
        return None

    def _checks_hold(self, moment: Transition) -> bool:
        """Check a transition; return false if a stopping rule is broken."""
        if not all(self._note(check, find_fault(moment)) for check, find_fault in self._step_checks):
            return False
        ended = moment.step.ended
        return not bool(ended.any()) or self._sees(moment.step.final_observation, ended, FINAL_OBSERVATION_CHECKS)

    def _count(self, moment: Transition) -> None:
        """Record the finished matches. Each row contributes the same number of matches, plus or minus one."""
        env, step, results = self._env, moment.step, self._played.results
        self._returns += step.reward
        home, away = (self._returns[:, env.spec.side(side)].mean(dim=1) for side in (False, True))
        before = len(results)
        for row in step.over.nonzero().flatten().tolist():
            # Taking the first matches to finish would favour short ones, so each row contributes a fixed number.
            if row + self._finished[row] * env.num_envs < self._matches:
                results.append(
                    Result(
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
        self._on_finished(len(results) - before)


def _without_meaning(check: checks.Check, spec: EnvironmentSpec) -> str | None:
    """Return why a rule does not apply to an environment; None if it applies."""
    if check is checks.OPTIONS and not any(head.masked and head.kind is HeadKind.CATEGORICAL for head in spec.heads):
        return "no head has a mask of options"
    if check is checks.OWN_SIDE and spec.unlike_sides is None:
        return "sides are alike"
    if check is checks.RETURNING and spec.turn_based:
        return "sides move in turns"
    return None
