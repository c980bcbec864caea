"""Random play with a check of every transition; the first fault of each rule is recorded."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from arena.conformance import checks
from arena.conformance import observation_checks as observing
from arena.conformance import step_checks as ending
from arena.conformance.report import Finding
from arena.conformance.transitions import Fault, ObservationBatch, Transition, describe, draw
from arena.environments.base import Environment, Observation
from arena.environments.spec import EnvironmentSpec, HeadKind
from arena.errors import InvalidActionError

LAST_LOOKS = (
    (checks.LAYOUT, observing.misplaced),
    (checks.RANGES, observing.out_of_range),
    (checks.OPTIONS, observing.without_options),
)
"""Checks of every observation, including the final observation of an episode."""

LOOKS = (*LAST_LOOKS, (checks.ABSENT, observing.shown_to_absent))
"""Checks of every observation except final observations."""

STOPPING = frozenset(
    {checks.LAYOUT, checks.OPTIONS, checks.ACCEPTED, checks.REWARDS, checks.ENDS, checks.OUTCOMES, checks.LENGTHS}
)
"""Rules whose violation ends the random play: later results would be meaningless, or matches would not end."""


WARNINGS = frozenset({checks.RETURNING, checks.OWN_SIDE})
"""Rules whose violation is only a warning, because a game may break them on purpose."""


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

    tried: observing.Tried
    results: list[Result] = field(default_factory=list)
    # Only first faults are stored: a broken rule usually fails at every step.
    faults: dict[checks.Check, tuple[str, str]] = field(default_factory=dict)
    decisions: int = 0
    stepping_s: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether a fault of a stopping rule ended the play early."""
        return not STOPPING.isdisjoint(self.faults)

    def rows(self, spec: EnvironmentSpec) -> list[Finding]:
        """Return the finding of every rule that random play checks."""
        return [self._row(rule, spec) for rule in checks.PLAYED]

    def _row(self, rule: checks.Check, spec: EnvironmentSpec) -> Finding:
        if rule in self.faults:
            fault = self.faults[rule]
            if rule is checks.ZERO_SUM and not spec.zero_sum:
                return rule.info("rewards do not sum to 0 and need not")
            return rule.warned(*fault) if rule in WARNINGS else rule.failed(*fault)
        if why := _without_meaning(rule, spec):
            return rule.not_applicable(why)
        if self.stopped:
            broken = next(each.name for each in self.faults if each in STOPPING)
            return rule.not_reached(f"no fault before {broken!r} was broken")
        if rule is checks.ZERO_SUM and not spec.zero_sum:
            return rule.info("rewards sum to 0 but need not: declare zero_sum=True")
        return rule.passed(self._detail(rule, spec))

    def _detail(self, rule: checks.Check, spec: EnvironmentSpec) -> str:
        """Return the details of a check that passed, beyond the number of matches."""
        if rule is checks.ACCEPTED:
            return str(self.tried)
        if rule is checks.ENDS:
            lengths = [result.decisions for result in self.results]
            cut = sum(result.cut for result in self.results)
            most = f"{spec.max_decisions:,} at most"
            return f"{min(lengths):,} to {max(lengths):,} decisions ({most}); {cut} of {len(lengths)} truncated"
        if rule is checks.OUTCOMES:
            reasons = Counter(result.reason for result in self.results).most_common()
            return ", ".join(f"{reason} {count}" for reason, count in reasons)
        if rule is checks.RANGES:
            return f"{spec.observation_size:,} floats per agent"
        return ""


Look = Callable[[ObservationBatch], Fault | None]
StepCheck = Callable[[Transition], Fault | None]


class _FaultLog:
    """Records the first fault of every rule with its location."""

    def __init__(self, env: Environment, played: Played) -> None:
        self.env, self.played = env, played
        self.lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self.finished = [0] * env.num_envs
        self.seeds: Tensor = env.seeds.clone()

    def note(self, rule: checks.Check, fault: Fault | None) -> bool:
        """Record a fault unless the rule has one; return true if there is no fault."""
        if fault is not None:
            self.played.faults.setdefault(rule, (fault.seen, self.locate(fault)))
        return fault is None

    def locate(self, fault: Fault) -> str:
        """Return the location of a fault: match, seed, decision and agent."""
        if fault.row is None:
            return f"decision {int(self.lengths.max())}"
        match = fault.row + self.finished[fault.row] * self.env.num_envs
        where = f"match {match} (seed {int(self.seeds[fault.row])}), decision {int(self.lengths[fault.row])}"
        return where if fault.agent is None else f"{where}, {self.env.spec.name_agent(fault.agent)}"


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
        self.played = Played(observing.Tried(env.spec))
        self._checks: Sequence[tuple[checks.Check, StepCheck]] = (
            (checks.REWARDS, ending.wrong_rewards),
            (checks.ENDS, ending.wrong_ends),
            (checks.OUTCOMES, ending.wrong_outcomes),
            (checks.LENGTHS, ending.wrong_lengths),
            (checks.ACCEPTED, self.played.tried),
            (checks.RETURNING, observing.NoReactivation()),
            (checks.ZERO_SUM, ending.UnequalSums()),
            (checks.OWN_SIDE, observing.SideIsObservable()),
            (checks.FINAL, ending.FinalObservation()),
            (checks.SEEDS, ending.wrong_seeds),
            (checks.KEPT, ending.NoAliasing()),
        )

    def play(self, seeds: Tensor) -> Played:
        """Play until enough matches are finished or a stopping rule is broken."""
        env, played = self._env, self.played
        observation = self._open(seeds)
        if observation is None:
            return played
        self._journal = _FaultLog(env, played)
        self._earned = torch.zeros(env.num_envs, env.spec.num_agents, dtype=torch.float64, device=env.device)
        everywhere = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
        while len(played.results) < self._matches and self._sees(observation, everywhere, LOOKS):
            moment = self._step(observation)
            if moment is None or not self._checks_hold(moment):
                break
            self._count(moment)
            observation = moment.step.observation
        return played

    def _open(self, seeds: Tensor) -> Observation | None:
        try:
            return self._env.reset(seeds)
        except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a game raises: that is what is asked here
            self.played.faults[checks.ACCEPTED] = (describe(error), "when its matches started")
            return None

    def _sees(self, observation: Observation, rows: Tensor, looks: Sequence[tuple[checks.Check, Look]]) -> bool:
        """Check an observation; return false if a stopping rule is broken."""
        for rule, look in looks:
            if not self._journal.note(rule, look(ObservationBatch(self._env, observation, rows))) and rule in STOPPING:
                return False
        return True

    def _step(self, observation: Observation) -> Transition | None:
        """Play one decision; return None and record the fault if the environment raises an error."""
        env, journal = self._env, self._journal
        seeds, next_seeds = env.seeds.clone(), env.next_seeds.clone()
        actions = draw(env, observation, self._rng)
        journal.seeds, journal.lengths = seeds, journal.lengths + 1
        # Only the step itself is timed, so that the reported speed excludes the checks.
        start = time.perf_counter()
        try:
            step = env.step(actions)
        except InvalidActionError as error:
            journal.note(checks.ACCEPTED, Fault(f"legal actions were rejected: {error}"))
        except (Exception, SystemExit) as error:  # noqa: BLE001  as above
            journal.note(checks.ACCEPTED, Fault("; ".join([describe(error), *getattr(error, "__notes__", [])])))
        else:
            self.played.stepping_s += time.perf_counter() - start
            self.played.decisions += env.num_envs
            return Transition(env, journal.lengths, seeds, next_seeds, observation, actions, step)
        return None

    def _checks_hold(self, moment: Transition) -> bool:
        """Check a transition; return false if a stopping rule is broken."""
        for rule, check in self._checks:
            if not self._journal.note(rule, check(moment)) and rule in STOPPING:
                return False
        ended = moment.step.ended
        return not bool(ended.any()) or self._sees(moment.step.final_observation, ended, LAST_LOOKS)

    def _count(self, moment: Transition) -> None:
        """Record the finished matches. Each row contributes the same number of matches, plus or minus one."""
        env, journal, step = self._env, self._journal, moment.step
        self._earned += step.reward
        home, away = (self._earned[:, env.spec.side(side)].mean(dim=1) for side in (False, True))
        before = len(self.played.results)
        for row in step.over.nonzero().flatten().tolist():
            # Taking the first matches to finish would favour short ones, so each row contributes a fixed number.
            if row + journal.finished[row] * env.num_envs < self._matches:
                self.played.results.append(
                    Result(
                        score=float(step.outcome.score[row]),
                        reason=env.spec.reasons[int(step.outcome.reason[row])],
                        decisions=int(step.outcome.decisions[row]),
                        margin=float(home[row] - away[row]),
                        cut=bool(step.truncated[row]),
                    )
                )
            journal.finished[row] += 1
        self._earned = self._earned.masked_fill(step.over[:, None], 0.0)
        journal.lengths = journal.lengths.masked_fill(step.over, 0)
        self._on_finished(len(self.played.results) - before)


def _without_meaning(rule: checks.Check, spec: EnvironmentSpec) -> str | None:
    """Return why a rule does not apply to an environment; None if it applies."""
    categorical = [head for head in spec.heads if head.masked and head.kind is HeadKind.CATEGORICAL]
    if rule is checks.OPTIONS and not categorical:
        return "no head has a mask of options"
    if rule is checks.OWN_SIDE and spec.unlike_sides is None:
        return "sides are alike"
    if rule is checks.RETURNING and spec.turn_based:
        return "sides move in turns"
    return None
