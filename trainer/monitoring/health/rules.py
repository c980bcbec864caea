"""The rules of training health: what is measured, from which level on it is wrong, and what to try. Without torch.

Usual ranges of healthy training: KL per update 0.001 to 0.02, clip fraction 0.02 to 0.3, policy loss 0.01 to 0.1 in
size, explained variance rising from 0 towards 1, entropy falling slowly.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from trainer.monitoring.health import measurements
from trainer.monitoring.health.measurements import Measure


class Severity(IntEnum):
    """How bad it is: worth knowing, worth a change, or nothing is being learned."""

    HINT = 1
    WARNING = 2
    ALARM = 3


@dataclass(frozen=True)
class Hysteresis:
    """When an alert begins and ends. `trip` above `clear`: high is bad; below: low is bad.

    Attributes:
        trip: Level from which on an update counts as bad.
        clear: Level from which on it counts as good again; in between nothing changes.
        updates: Bad updates in a row that begin an alert, and good ones that end it.
        window: Updates that a level is measured over.
    """

    trip: float
    clear: float
    updates: int
    window: int = 1

    def bad(self, level: float) -> bool:
        """Return whether the level is beyond `trip`."""
        return level >= self.trip if self.trip > self.clear else level <= self.trip

    def good(self, level: float) -> bool:
        """Return whether the level is back at `clear`."""
        return level <= self.clear if self.trip > self.clear else level >= self.clear


@dataclass(frozen=True)
class HealthRule:
    """Something that can be wrong with training.

    Attributes:
        severity: How bad it is.
        measure: Measures its level.
        hysteresis: Levels between which it changes.
        meaning: What is wrong, as a clause.
        advice: What to try, with the settings by name.
        expected_when_solved: Where nothing is left to learn it is as it should be, and not reported.
        needs_learning: It judges how updates learn, which is undefined at a learning rate of 0.
        causes: Rules that it follows from if one of their alerts began no later. They come before it in the table.
    """

    severity: Severity
    measure: Measure
    hysteresis: Hysteresis
    meaning: str
    advice: str
    expected_when_solved: bool = False
    needs_learning: bool = True
    causes: tuple[str, ...] = ()


HEALTH_RULES: Mapping[str, HealthRule] = {
    "no_reward": HealthRule(
        Severity.ALARM,
        measurements.no_reward,
        # 1 until the first reward comes. Ten updates are as many as a policy without a gradient takes to be called
        # frozen, so that the cause is known by then.
        Hysteresis(1.0, 0.0, updates=10),
        "no reward ever came, so that there is nothing to learn from",
        "check that the game pays what it should (`arena verify`), that its reward weights are not all 0, and whether "
        "every match ends in a draw; if the first reward is only far away, pay for steps towards it, or collect more "
        "per update (rollout.num_steps, environment.num_envs)",
        needs_learning=False,
    ),
    "ratio_explosion": HealthRule(
        Severity.ALARM,
        measurements.ratio_outlier_share,
        # Share of samples with a ratio over 5 or under 0.1; while updates stay close there are none.
        Hysteresis(1e-3, 2e-4, updates=3),
        "probability ratios are far from 1",
        "run `trainer bench --consistency`: if its largest error exceeds 1e-3 with run.matmul_precision=highest and "
        "ppo.precision=float32, rollout and update disagree and that is a defect; otherwise lower "
        "optimizer.learning_rate, ppo.update_epochs or ppo.target_kl",
        needs_learning=False,
    ),
    "entropy_collapsed": HealthRule(
        Severity.WARNING,
        measurements.entropy_collapsed,
        # Share of the opening's width that the widest head has left: at a twentieth it no longer tries anything.
        Hysteresis(0.05, 0.1, updates=10),
        "the policy tries nothing new any more",
        "nothing, if one answer is right; otherwise raise ppo.normalized_ent_coef and ppo.normalized_ent_coef_final, "
        "set "
        "ppo.entropy_floors for the head that collapsed first, lower optimizer.learning_rate, and begin a new run, for "
        "few policies recover",
        expected_when_solved=True,
        causes=("ratio_explosion",),
    ),
    "gradient_vanishing": HealthRule(
        Severity.ALARM,
        measurements.gradient_norm,
        # Norm; healthy ones are 0.05 to 5. Adam's epsilon of 1e-5 begins to swallow what is smaller.
        Hysteresis(1e-4, 1e-3, updates=5),
        "gradients are next to nothing",
        "look for rewards that never come and advantages that are all 0; raise ppo.normalized_ent_coef; shorten "
        "rollout.bptt_horizon; lower optimizer.adam_eps",
        expected_when_solved=True,
        causes=("no_reward", "entropy_collapsed"),
    ),
    "frozen_policy": HealthRule(
        Severity.ALARM,
        measurements.frozen_policy,
        # Learning takes 1,000 times more, and rest in a solved game 10 times; a policy cut off from its gradient shows
        # 1e-7, ratio 1 and no clipping.
        Hysteresis(1e-6, 1e-5, updates=10),
        "the policy does not move",
        "raise optimizer.learning_rate, or optimizer.learning_rate_final late in a run; if it never moved, look for "
        "advantages that are all 0 (normalization.advantage_std_floor)",
        expected_when_solved=True,
        needs_learning=False,
        causes=("no_reward", "entropy_collapsed", "gradient_vanishing"),
    ),
    "always_at_kl_stop": HealthRule(
        Severity.WARNING,
        measurements.kl_stop_share,
        # Share of updates cut short: now and then the stop does its work, always means that most data is thrown away.
        Hysteresis(0.9, 0.5, updates=1, window=20),
        "nearly every update is cut short by the KL stop",
        "lower optimizer.learning_rate or ppo.update_epochs, or collect more per update (rollout.num_steps, "
        "environment.num_envs); where losses/state_drift grows, stored memory is stale: set ppo.burn_in to a quarter "
        "of rollout.bptt_horizon; raise ppo.target_kl only if learning is stable",
    ),
    "critic_worse_than_mean": HealthRule(
        Severity.WARNING,
        measurements.explained_variance,
        # Median explained variance; 0 is the mean's, and a game without anything to predict stays there.
        Hysteresis(-0.05, -0.01, updates=20, window=10),
        "the critic predicts returns worse than their mean would",
        "raise optimizer.critic_lr_scale to 3, or ppo.vf_coef; lower ppo.gamma or ppo.gae_lambda "
        "so that returns are less noisy; enlarge network.recurrent_size",
        expected_when_solved=True,
    ),
    "gradient_always_clipped": HealthRule(
        Severity.WARNING,
        measurements.clipped_gradient_norm,
        # Norm over its limit while all steps are clipped: up to some times the limit is common and harmless with Adam.
        Hysteresis(10.0, 5.0, updates=1, window=20),
        "every gradient is many times its limit",
        "lower optimizer.learning_rate or ppo.vf_coef; raise optimizer.max_grad_norm if learning is "
        "stable; look for outliers in rewards (normalization.reward_clip)",
    ),
    "gradient_never_clipped": HealthRule(
        Severity.HINT,
        measurements.clipped_step_share,
        # Share of clipped steps: the limit guards against nothing, which is fine until an outlier comes.
        Hysteresis(0.0, 0.01, updates=1, window=100),
        "no gradient ever reaches its limit, which is no fault",
        "lower optimizer.max_grad_norm towards the usual norm if single batches throw training back",
    ),
    "actions_saturated": HealthRule(
        Severity.WARNING,
        measurements.saturated_share,
        # Share of one head's actions beyond 0.99: for half of them tanh passes 2 % of the gradient.
        Hysteresis(0.5, 0.3, updates=5, window=5),
        "continuous actions stand at their limits",
        "raise ppo.normalized_ent_coef, lower optimizer.learning_rate or network.initial_log_std; check that "
        "observations "
        "are in range (normalization.observation_std_floor)",
    ),
    "head_starving": HealthRule(
        Severity.WARNING,
        measurements.head_gradient_ratio,
        # One head's gradient over the largest head's: Adam evens out the head's own rows, not the shared trunk.
        Hysteresis(1e-3, 1e-2, updates=10),
        "one action head gets next to no gradient",
        "check that its actions matter and that its mask leaves a choice; raise ppo.normalized_ent_coef so that it "
        "is tried",
        causes=("no_reward", "entropy_collapsed"),
    ),
    "value_scale_drift": HealthRule(
        Severity.WARNING,
        measurements.scale_drift,
        # Spread of returns or values against some 100 updates ago: the critic's units lag behind such a change.
        Hysteresis(10.0, 5.0, updates=10, window=100),
        "returns or values have changed their scale",
        "look at what the reward is made of (reward/...); lower normalization.reward_clip or optimizer.learning_rate; "
        "expect the critic to need some updates",
        expected_when_solved=True,
        causes=("ratio_explosion", "entropy_collapsed"),
    ),
    "batches_unstable": HealthRule(
        Severity.WARNING,
        measurements.batch_spread_ratio,
        # Greatest spread of advantage, value or reward over the usual one: more than sampling explains.
        Hysteresis(10.0, 5.0, updates=1, window=20),
        "a batch spreads far more than its neighbours",
        "collect more per update (rollout.num_steps, environment.num_envs); lower normalization.reward_clip; look "
        "for a "
        "reward that comes rarely",
        expected_when_solved=True,
        causes=("ratio_explosion", "entropy_collapsed"),
    ),
    "opponents_too_easy": HealthRule(
        Severity.HINT,
        measurements.lowest_win_rate,
        # Least win rate over all rated opponents: who never loses learns from nobody but itself.
        Hysteresis(0.97, 0.93, updates=50),
        "the learner beats every rated opponent and learns from itself alone",
        "publish more often (league.snapshot_every_steps), promote snapshots with `league promote`, or train a second "
        "learner beside it (--learner, and another run.seed), which it then meets",
    ),
    "opponents_too_hard": HealthRule(
        Severity.WARNING,
        measurements.highest_win_rate,
        # Greatest win rate over all rated opponents: without a single win nothing tells better play from worse.
        Hysteresis(0.03, 0.07, updates=50),
        "the learner beats nobody it meets",
        "publish more often (league.snapshot_every_steps) so that it meets its like; look at the shaped rewards, which "
        "have to lead to a first win; raise ppo.normalized_ent_coef",
        causes=("no_reward", "entropy_collapsed", "frozen_policy"),
    ),
    "cycling": HealthRule(
        Severity.WARNING,
        measurements.win_rate_drop,
        # Fall of a win rate from its best: four standard errors at the least number of matches.
        Hysteresis(0.3, 0.2, updates=10),
        "the learner loses again to a player whom it used to beat",
        "keep past players in the population (promote snapshots that still win with `league promote`), publish more "
        "often (league.snapshot_every_steps), lower optimizer.learning_rate",
        causes=("entropy_collapsed", "opponents_too_hard"),
    ),
    "not_finite": HealthRule(
        Severity.ALARM,
        measurements.rejected_updates,
        # Rejected updates among the last: one is one too many.
        Hysteresis(1.0, 0.5, updates=1, window=10),
        "updates were rejected because something was not finite",
        "look for NaN in the environment's observations and rewards; lower optimizer.learning_rate",
        needs_learning=False,
    ),
    "reward_dominated": HealthRule(
        Severity.WARNING,
        measurements.largest_reward_share,
        # Greatest share of a component of the reward, in shares that it may have
        # (environment.max_reward_component_share, 0.8): what
        # else is paid hardly counts. The win has 0.35 in the mech arena, more than anything else.
        Hysteresis(1.0, 0.95, updates=20),
        "one component of the reward is nearly all that is earned",
        "lower its weight, or raise the others: what they ask for is hardly learned; if that is how the game is meant, "
        "raise environment.max_reward_component_share",
        needs_learning=False,
    ),
    "solved": HealthRule(
        Severity.HINT,
        measurements.advantage_spread_left,
        # Spread of advantages over that of the opening, at the best return: what is left is rare slips. While something
        # is learned it stays above a half.
        Hysteresis(0.15, 0.3, updates=10, window=5),
        "nothing is left to learn from these opponents",
        "stop here (run.total_timesteps), or give it opponents of another making: a second learner (--learner) with "
        "another run.seed or network",
    ),
}
