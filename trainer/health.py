"""The monitor: reads every update's metrics and says in words what is wrong and what to try.

Pure and without torch; the same monitor watches a run and explains a finished one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from trainer import symptoms
from trainer.history import History, Metrics, Setup
from trainer.symptoms import Measure, Reading
from trainer.thresholds import Band, Thresholds

HEALTH = "health/"
"""Followed by a symptom's name."""

WORST = "health/worst"


class Severity(IntEnum):
    """How bad it is: worth knowing, worth a change, or nothing is being learned."""

    HINT = 1
    WARNING = 2
    ALARM = 3


STYLES = {Severity.HINT: "cyan", Severity.WARNING: "yellow", Severity.ALARM: "bold red"}
"""How a terminal shows them."""


@dataclass(frozen=True)
class Symptom:
    """Something that can be wrong.

    Attributes:
        severity: How bad it is.
        measure: Reads its level.
        meaning: What is wrong, as a clause.
        advice: What to try, with the settings by name.
        expected_when_solved: Where nothing is left to learn it is as it should be, and not told.
    """

    severity: Severity
    measure: Measure
    meaning: str
    advice: str
    expected_when_solved: bool = False


SYMPTOMS: Mapping[str, Symptom] = {
    "frozen_policy": Symptom(
        Severity.ALARM,
        symptoms.frozen_policy,
        "the policy does not move",
        "raise schedules.learning_rate, or schedules.learning_rate_final late in a run; if it never moved, look for "
        "advantages that are all 0 (normalization.advantage_std_floor) and rewards that never come",
        expected_when_solved=True,
    ),
    "entropy_collapsed": Symptom(
        Severity.WARNING,
        symptoms.entropy_collapsed,
        "the policy tries nothing new any more",
        "nothing, if one answer is right; otherwise raise schedules.entropy and schedules.entropy_final, set "
        "ppo.entropy_floors for the head that collapsed first, lower schedules.learning_rate, and begin a new run, for "
        "few policies recover",
        expected_when_solved=True,
    ),
    "always_at_kl_stop": Symptom(
        Severity.WARNING,
        symptoms.kl_stop,
        "nearly every update is cut short by the KL stop",
        "lower schedules.learning_rate or ppo.epochs, or collect more per update (rollout.steps, "
        "environment.num_envs); where losses/state_drift grows, stored memory is stale: set ppo.burn_in to a quarter "
        "of rollout.chunk; raise ppo.target_kl only if learning is stable",
    ),
    "critic_worse_than_mean": Symptom(
        Severity.WARNING,
        symptoms.critic,
        "the critic predicts returns worse than their mean would",
        "raise optimizer.critic_learning_rate_factor to 3, or ppo.value_coefficient; lower ppo.gamma or ppo.gae_lambda "
        "so that returns are less noisy; enlarge network.recurrent_size",
    ),
    "gradient_always_clipped": Symptom(
        Severity.WARNING,
        symptoms.always_clipped,
        "every gradient is many times its limit",
        "lower schedules.learning_rate or ppo.value_coefficient; raise optimizer.max_gradient_norm if learning is "
        "stable; look for outliers in rewards (normalization.reward_clip)",
    ),
    "gradient_never_clipped": Symptom(
        Severity.HINT,
        symptoms.never_clipped,
        "no gradient ever reaches its limit, which is no fault",
        "lower optimizer.max_gradient_norm towards the usual norm if single batches throw training back",
    ),
    "gradient_vanishing": Symptom(
        Severity.ALARM,
        symptoms.gradient_norm,
        "gradients are next to nothing",
        "look for rewards that never come and advantages that are all 0; raise schedules.entropy; shorten "
        "rollout.chunk; lower optimizer.epsilon",
        expected_when_solved=True,
    ),
    "actions_saturated": Symptom(
        Severity.WARNING,
        symptoms.saturation,
        "continuous actions stand at their limits",
        "raise schedules.entropy, lower schedules.learning_rate or network.initial_log_std; check that observations "
        "are in range (normalization.observation_std_floor)",
    ),
    "ratio_explosion": Symptom(
        Severity.ALARM,
        symptoms.ratio_alarms,
        "probability ratios are far from 1",
        "run `trainer bench --consistency`: if its largest error exceeds 1e-3, rollout and update disagree and that is "
        "a defect; otherwise lower schedules.learning_rate, ppo.epochs or ppo.target_kl",
    ),
    "head_starving": Symptom(
        Severity.WARNING,
        symptoms.starving_head,
        "one action head gets next to no gradient",
        "check that its actions matter and that its mask leaves a choice; raise schedules.entropy so that it is tried",
    ),
    "value_scale_drift": Symptom(
        Severity.WARNING,
        symptoms.scale_drift,
        "returns or values have changed their scale",
        "look at what the reward is made of (reward/...); lower normalization.reward_clip or schedules.learning_rate; "
        "expect the critic to need some updates",
        expected_when_solved=True,
    ),
    "batches_unstable": Symptom(
        Severity.WARNING,
        symptoms.unstable_batches,
        "a batch spreads far more than its neighbours",
        "collect more per update (rollout.steps, environment.num_envs); lower normalization.reward_clip; look for a "
        "reward that comes rarely",
        expected_when_solved=True,
    ),
    "opponents_too_easy": Symptom(
        Severity.HINT,
        symptoms.weakest_result,
        "the learner beats every rated opponent and learns from itself alone",
        "publish more often (league.snapshot_every_steps), promote snapshots with `league promote`, or train a second "
        "learner beside it (--learner, and another run.seed), which it then meets",
    ),
    "opponents_too_hard": Symptom(
        Severity.WARNING,
        symptoms.strongest_result,
        "the learner beats nobody it meets",
        "publish more often (league.snapshot_every_steps) so that it meets its like; look at the shaped rewards, which "
        "have to lead to a first win; raise schedules.entropy",
    ),
    "cycling": Symptom(
        Severity.WARNING,
        symptoms.fallen_win_rate,
        "the learner loses again to a player whom it used to beat",
        "keep past players in the population (promote snapshots that still win with `league promote`), publish more "
        "often (league.snapshot_every_steps), lower schedules.learning_rate",
    ),
    "not_finite": Symptom(
        Severity.ALARM,
        symptoms.rejected,
        "updates were rejected because something was not finite",
        "look for NaN in the environment's observations and rewards; lower schedules.learning_rate",
    ),
    "reward_dominated": Symptom(
        Severity.WARNING,
        symptoms.dominating_component,
        "one component of the reward is nearly all that is earned",
        "lower its weight, or raise the others: what they ask for is hardly learned; if that is how the game is meant, "
        "raise health.component_share",
    ),
    "solved": Symptom(
        Severity.HINT,
        symptoms.left_to_learn,
        "nothing is left to learn from these opponents",
        "stop here (run.total_steps), or give it opponents of another making: a second learner (--learner) with "
        "another run.seed or network",
    ),
}


@dataclass(frozen=True)
class Verdict:
    """What is wrong.

    Attributes:
        name: Of the symptom.
        since: First update of the series that began it.
        began: Update at which it was told.
        evidence: The numbers, when it began.
        ended: Update at which it was over; None while it lasts.
    """

    name: str
    since: int
    began: int
    evidence: Mapping[str, float]
    ended: int | None = None

    @property
    def symptom(self) -> Symptom:
        """What it means, and what to try."""
        return SYMPTOMS[self.name]

    @property
    def style(self) -> str:
        """How a terminal shows it."""
        return "green" if self.ended is not None else STYLES[self.symptom.severity]

    @property
    def numbers(self) -> str:
        """The evidence in words."""
        return ", ".join(f"{words} {value:.3g}" for words, value in self.evidence.items())

    @property
    def line(self) -> str:
        """What a person is told."""
        if self.ended is not None:
            return f"health: {self.name} of update {self.since} is over at update {self.ended}"
        symptom = self.symptom
        told = f"{symptom.severity.name.lower()} {self.name} since update {self.since}: {symptom.meaning}"
        return f"health: {told} ({self.numbers}). Try: {symptom.advice}"


@dataclass
class _Watch:
    """How long a symptom has been bad, or good again."""

    streak: int = 0
    verdict: Verdict | None = None


@dataclass
class Monitor:
    """Watches one run.

    A symptom begins after `Band.updates` bad readings in a row and ends after as many good ones; between its two levels
    nothing changes, so it does not flap.
    """

    setup: Setup
    thresholds: Thresholds = field(default_factory=Thresholds)
    _watches: dict[str, _Watch] = field(default_factory=lambda: {name: _Watch() for name in SYMPTOMS})

    def __post_init__(self) -> None:
        self._history = History(self.setup)

    def take(self, update: int, metrics: Metrics) -> list[Verdict]:
        """Read an update's metrics; the verdicts that begin or end with it."""
        self._history.add(metrics)
        solved = self._read("solved")
        at_rest = solved is not None and self._band("solved").bad(solved.level)
        verdicts = []
        for name, watch in self._watches.items():
            band = self._band(name)
            reading = None if at_rest and SYMPTOMS[name].expected_when_solved else self._read(name)
            if (verdict := _follow(name, watch, band, reading, update)) is not None:
                verdicts.append(verdict)
        return verdicts

    def _band(self, name: str) -> Band:
        band: Band = getattr(self.thresholds, name)
        return band

    def _read(self, name: str) -> Reading | None:
        return SYMPTOMS[name].measure(self._history, self._band(name).window)

    @property
    def verdicts(self) -> list[Verdict]:
        """What is wrong now, the worst first."""
        lasting = [watch.verdict for watch in self._watches.values() if watch.verdict is not None]
        return sorted(lasting, key=lambda verdict: -verdict.symptom.severity)

    def metrics(self) -> dict[str, float | None]:
        """Severity of every symptom by tag, 0 where all is well, and the worst."""
        severities: dict[str, float | None] = {f"{HEALTH}{name}": 0.0 for name in SYMPTOMS}
        severities |= {f"{HEALTH}{each.name}": float(each.symptom.severity) for each in self.verdicts}
        return severities | {WORST: max((float(each.symptom.severity) for each in self.verdicts), default=0.0)}


def _follow(name: str, watch: _Watch, band: Band, reading: Reading | None, update: int) -> Verdict | None:
    if watch.verdict is None:
        return _begin(name, watch, band, reading, update)
    good = reading is None or band.good(reading.level)
    watch.streak = watch.streak + 1 if good else 0
    if watch.streak < band.updates:
        return None
    begun = watch.verdict
    watch.verdict, watch.streak = None, 0
    return Verdict(name, begun.since, begun.began, begun.evidence, ended=update)


def _begin(name: str, watch: _Watch, band: Band, reading: Reading | None, update: int) -> Verdict | None:
    if reading is None or not band.bad(reading.level):
        watch.streak = 0
        return None
    watch.streak += 1
    if watch.streak < band.updates:
        return None
    watch.verdict = Verdict(name, update - band.updates + 1, update, reading.evidence)
    watch.streak = 0
    return watch.verdict
