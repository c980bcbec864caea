"""Plays matches at random and looks at every decision; of each rule the first break is kept."""

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
"""What is asked of every observation, also of the last one of an episode."""

LOOKS = (*LAST_LOOKS, (checks.ABSENT, observing.shown_to_absent))
"""What is asked of every other one."""

STOPPING = frozenset(
    {checks.LAYOUT, checks.OPTIONS, checks.ACCEPTED, checks.REWARDS, checks.ENDS, checks.OUTCOMES, checks.LENGTHS}
)
"""Rules without which nothing more can be looked at, or matches would not end."""


WARNINGS = frozenset({checks.RETURNING, checks.OWN_SIDE})
"""Rules that a game may have its reasons to break."""


@dataclass(frozen=True)
class Result:
    """A match that is over.

    Attributes:
        score: Home's.
        reason: Why it ended.
        decisions: Its length.
        margin: How much more home earned, mean of its agents less mean of away's.
        cut: Whether a limit cut it off.
    """

    score: float
    reason: str
    decisions: int
    margin: float
    cut: bool


@dataclass
class Played:
    """Matches at random, and what was found in them.

    Attributes:
        results: Of matches that are over, as they ended.
        faults: The first of each rule that was broken, and where.
        tried: Options that were tried.
        decisions: Of all matches together.
        stepping_s: How long their steps took.
    """

    tried: observing.Tried
    results: list[Result] = field(default_factory=list)
    faults: dict[checks.Check, tuple[str, str]] = field(default_factory=dict)
    decisions: int = 0
    stepping_s: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether it ended early."""
        return not STOPPING.isdisjoint(self.faults)

    def rows(self, spec: EnvironmentSpec) -> list[Finding]:
        """A row for every rule that is looked at."""
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
        return rule.passed(self._said(rule, spec))

    def _said(self, rule: checks.Check, spec: EnvironmentSpec) -> str:
        """What was looked at, where that says more than how many matches."""
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
    """Keeps the first fault of every rule."""

    def __init__(self, env: Environment, played: Played) -> None:
        self.env, self.played = env, played
        self.lengths = torch.zeros(env.num_envs, dtype=torch.int64, device=env.device)
        self.finished = [0] * env.num_envs
        self.seeds: Tensor = env.seeds.clone()

    def note(self, rule: checks.Check, fault: Fault | None) -> bool:
        """Keep a fault unless the rule has one; say whether there was none."""
        if fault is not None:
            self.played.faults.setdefault(rule, (fault.seen, self.place(fault)))
        return fault is None

    def place(self, fault: Fault) -> str:
        """Where a fault is: match, seed, decision, agent."""
        if fault.row is None:
            return f"decision {int(self.lengths.max())}"
        match = fault.row + self.finished[fault.row] * self.env.num_envs
        where = f"match {match} (seed {int(self.seeds[fault.row])}), decision {int(self.lengths[fault.row])}"
        return where if fault.agent is None else f"{where}, {self.env.spec.name_agent(fault.agent)}"


class RandomPlay:
    """Plays an environment at random, and looks at it.

    Args:
        env: What is played; nobody else steps it meanwhile.
        matches: How many of its matches count.
        rng: Where actions are drawn from.
        on_finished: Told how many more matches are over.
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
        """Play until enough matches are over, or something is broken without which it makes no sense to go on."""
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
        """Look at what agents perceive; say whether it can be gone on with."""
        for rule, look in looks:
            if not self._journal.note(rule, look(ObservationBatch(self._env, observation, rows))) and rule in STOPPING:
                return False
        return True

    def _step(self, observation: Observation) -> Transition | None:
        """Play one decision; None, and why, where the environment cannot."""
        env, journal = self._env, self._journal
        seeds, next_seeds = env.seeds.clone(), env.next_seeds.clone()
        actions = draw(env, observation, self._rng)
        journal.seeds, journal.lengths = seeds, journal.lengths + 1
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
        """Look at what came of it; say whether it can be gone on with."""
        for rule, check in self._checks:
            if not self._journal.note(rule, check(moment)) and rule in STOPPING:
                return False
        ended = moment.step.ended
        return not bool(ended.any()) or self._sees(moment.step.final_observation, ended, LAST_LOOKS)

    def _count(self, moment: Transition) -> None:
        """Note the matches that are over: each row plays as many of those that count as every other, or one more."""
        env, journal, step = self._env, self._journal, moment.step
        self._earned += step.reward
        home, away = (self._earned[:, env.spec.side(side)].mean(dim=1) for side in (False, True))
        before = len(self.played.results)
        for row in step.over.nonzero().flatten().tolist():
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
    """Why a rule says nothing about an environment; None where it says something."""
    categorical = [head for head in spec.heads if head.masked and head.kind is HeadKind.CATEGORICAL]
    if rule is checks.OPTIONS and not categorical:
        return "no head has a mask of options"
    if rule is checks.OWN_SIDE and spec.unlike_sides is None:
        return "sides are alike"
    if rule is checks.RETURNING and spec.turn_based:
        return "sides move in turns"
    return None
