import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from fake_games import tagged
from runs import HEALTHY, recorded_components, recorded_lines, solved_run

from league.wire import Lease
from trainer.config.loading import sections
from trainer.monitoring.health.history import HORIZON, History, Setup
from trainer.monitoring.health.monitor import Monitor
from trainer.monitoring.health.rules import HEALTH_RULES, Hysteresis, Severity
from trainer.monitoring.metrics import MatchStatistics
from trainer.opponents.assignment import MatchAssignment
from trainer.rollout.collector import CollectedMatch

SETUP = Setup(learner="main", environment="mech-duel", optimizer_steps=8, max_grad_norm=0.5, component_share=0.8)

FROZEN = {
    "losses/approx_kl": 1e-7,
    "losses/clipfrac": 0.0,
    "losses/ratio_deviation": 0.0,
    "losses/normalized_entropy": 4.0,
}
"""The numbers of a run whose policy was cut off from its gradient: KL 1e-7, ratio 1, nothing clipped, entropy flat."""

PLAYED = MatchAssignment(tagged(1.0), away=False, seed=0, lease=None, sequence=0, self_play_match=False)

WRONG = {
    "frozen_policy": FROZEN,
    "entropy_collapsed": {"heads/move/std": 0.02, "heads/target/entropy": 0.03},
    "always_at_kl_stop": {"losses/kl_stop": 1.0},
    "critic_worse_than_mean": {"losses/explained_variance": -0.3},
    "gradient_always_clipped": {"losses/gradient_norm": 8.0, "losses/gradient_clipped": 1.0},
    "gradient_never_clipped": {"losses/gradient_clipped": 0.0},
    "gradient_vanishing": {"losses/gradient_norm": 1e-6},
    "actions_saturated": {"heads/move/saturated": 0.7},
    "ratio_explosion": {"losses/ratio_alarms": 20.0},
    "head_starving": {"heads/target/gradient_norm": 1e-5},
    "value_scale_drift": {"scales/return_std": 40.0},
    "opponents_too_easy": {"win_rate/lieutenant": 0.99, "win_rate/main@100": 0.99},
    "opponents_too_hard": {"win_rate/lieutenant": 0.0, "win_rate/main@100": 0.01},
    "cycling": {"win_rate/main@100": 0.3},
    "reward_dominated": {"reward_share/win": 0.9, "reward_share/zone": 0.06, "reward_share/damage": 0.04},
}

COMPANIONS = {"opponents_too_hard": {"cycling"}}
"""Other alerts that the same metrics raise."""


def watch(monitor, updates, first=1, **changes):
    """Feed updates to a monitor; return its alerts."""
    return [
        alert for update in range(first, first + updates) for alert in monitor.update(update, {**HEALTHY, **changes})
    ]


def after_health(updates=20):
    monitor = Monitor(SETUP)
    assert watch(monitor, updates) == []
    return monitor


def names(alerts):
    return [alert.name for alert in alerts]


def test_every_rule_but_four_has_metrics_that_break_it():
    assert set(HEALTH_RULES) - set(WRONG) == {"batches_unstable", "no_reward", "not_finite", "solved"}


def test_a_run_writes_every_metric_that_a_rule_reads(play, never):
    """Up to the names of heads, opponents and reward components."""
    played, scores = play(), MatchStatistics()
    metrics = played.learner.learn(played.collect(), never)
    for episode in played.episodes:
        rated = replace(episode.assignment, lease=Lease.model_construct(branch="pfsp"))
        scores.add(episode._replace(assignment=rated, components={"all": episode.mean_return}))
    metrics |= scores.metrics()

    def plain(name):
        return re.sub(r"/.*", "", name) if name.startswith(("win_rate/", "matches/", "reward_share/")) else name

    read = {
        name.replace("heads/target/", "heads/choice/") for changes in (HEALTHY, *WRONG.values()) for name in changes
    }
    assert {plain(name) for name in (*read, "charts/episodic_return")} <= {plain(name) for name in metrics}


@pytest.mark.holds("E7", "E10")
@pytest.mark.parametrize("name", WRONG)
def test_broken_metrics_raise_their_own_alert_once_and_healthy_ones_end_it(name):
    monitor = after_health()
    begun = watch(monitor, 110, first=21, **WRONG[name])
    assert {alert.name for alert in begun} - COMPANIONS.get(name, set()) == {name}
    (alerts,) = [alert for alert in begun if alert.name == name and alert.ended is None]
    assert alerts.evidence
    assert alerts.since > 20
    ended = watch(monitor, 150, first=131)
    assert name not in names(monitor.alerts)
    assert [alert.ended for alert in begun + ended if alert.name == name][1] is not None


@pytest.mark.holds("L2")
def test_a_frozen_policy_is_reported_within_ten_updates():
    monitor = Monitor(SETUP)
    (alert,) = watch(monitor, 10, **FROZEN)
    assert (alert.name, alert.since, alert.began) == ("frozen_policy", 1, 10)
    assert alert.rule.severity is Severity.ALARM
    assert "KL 1e-07, clip fraction 0" in alert.line
    assert "optimizer.learning_rate" in alert.line


UNPAID = {"scales/reward_mean": 0.0, "scales/reward_std": 0.0, "charts/episodes": 50.0}
COLLAPSED = {"heads/move/std": 0.02, "heads/target/entropy": 0.03}
VIOLENT = {"losses/approx_kl": 0.5, "losses/ratio_alarms": 20.0}


@pytest.mark.parametrize(
    ("before", "now", "advice"),
    [
        ({}, {}, "raise optimizer.learning_rate,"),
        ({}, {"charts/learning_rate": 0.0}, "set optimizer.learning_rate and optimizer.learning_rate_final above 0"),
        ({}, {"charts/learning_rate": 0.1}, "lower optimizer.learning_rate"),
        ({}, COLLAPSED, "raise ppo.normalized_ent_coef"),
        (VIOLENT, COLLAPSED, "lower optimizer.learning_rate"),
        ({"losses/approx_kl": 0.2}, COLLAPSED, "lower optimizer.learning_rate"),
        (VIOLENT, {}, "raise optimizer.learning_rate,"),
        ({}, {"scales/advantage_std": 0.0}, "look for the reason why advantages are all 0"),
    ],
)
def test_advice_for_a_frozen_policy_depends_on_the_cause(before, now, advice):
    monitor = after_health()
    watch(monitor, 1, first=21, **before)
    found = watch(monitor, 30, first=22, **{**FROZEN, **now})
    (alert,) = [each for each in found if each.name == "frozen_policy"]
    assert alert.advice.startswith(advice)


def test_learning_rate_0_is_frozen_with_one_optimiser_step_too():
    found = watch(Monitor(replace(SETUP, optimizer_steps=1)), 10, **{**FROZEN, "charts/learning_rate": 0.0})
    assert names(found) == ["frozen_policy"]


@pytest.mark.parametrize("name", ["critic_worse_than_mean", "gradient_always_clipped", "opponents_too_hard", "cycling"])
def test_learning_rate_0_silences_rules_about_learning(name):
    assert names(watch(after_health(), 110, first=21, **WRONG[name], **{"charts/learning_rate": 0.0})) == [
        "frozen_policy"
    ]


def test_no_reward_lasts_until_the_first_reward():
    monitor = Monitor(SETUP)
    (alert,) = watch(monitor, 10, **UNPAID)
    assert (alert.name, alert.since, alert.rule.severity) == ("no_reward", 1, Severity.ALARM)
    assert alert.evidence == {"updates": 10.0, "finished matches": 50.0}
    ended = watch(monitor, 10, first=11, **{**UNPAID, "scales/reward_std": 0.1})
    assert [(each.name, each.ended) for each in ended] == [("no_reward", 20)]
    assert watch(monitor, 50, first=21, **UNPAID) == [], "rewards that came once may come rarely"


def test_no_reward_needs_finished_matches():
    assert watch(Monitor(SETUP), 100, **{**UNPAID, "charts/episodes": 19.0}) == []


def test_an_alert_names_its_cause_and_ranks_below_it():
    monitor = Monitor(SETUP)
    watch(monitor, 30, **{**UNPAID, **FROZEN, "losses/gradient_norm": 1e-6, "scales/advantage_std": 0.0})
    causes = {alert.name: alert.cause for alert in monitor.alerts}
    assert causes == {"no_reward": "", "gradient_vanishing": "no_reward", "frozen_policy": "no_reward"}
    assert names(monitor.alerts)[0] == "no_reward"
    vanishing = next(each for each in monitor.alerts if each.name == "gradient_vanishing")
    assert "caused by no_reward" in vanishing.line
    assert vanishing.line.endswith("Try: follow the advice for no_reward")


def test_an_alarm_caused_by_a_warning_ranks_below_it():
    monitor = after_health()
    watch(monitor, 10, first=21, **COLLAPSED)
    watch(monitor, 20, first=31, **COLLAPSED, **FROZEN)
    assert names(monitor.alerts) == ["entropy_collapsed", "frozen_policy"]
    assert monitor.metrics()["health/worst"] == 3.0


def test_an_alert_is_not_caused_by_a_later_one():
    monitor = after_health()
    watch(monitor, 15, first=21, **FROZEN)
    later = watch(monitor, 15, first=36, **FROZEN, **COLLAPSED)
    assert names(later) == ["entropy_collapsed"]
    assert [alert.cause for alert in monitor.alerts] == ["", ""]


def test_causes_come_before_their_consequences_in_the_table():
    order = list(HEALTH_RULES)
    for name, rule in HEALTH_RULES.items():
        assert all(order.index(cause) < order.index(name) for cause in rule.causes)


@pytest.mark.holds("L2")
@pytest.mark.parametrize(
    "moves",
    [
        {"losses/approx_kl": 1e-3},
        {"losses/clipfrac": 0.02},
        {"losses/ratio_deviation": 0.05},
    ],
)
def test_a_policy_that_changes_in_any_way_is_not_frozen(moves):
    assert watch(Monitor(SETUP), 50, **{**FROZEN, **moves}) == []


@pytest.mark.holds("L2")
def test_a_policy_whose_entropy_changes_is_not_frozen():
    monitor = Monitor(SETUP)
    for update in range(50):
        assert monitor.update(update, {**HEALTHY, **FROZEN, "losses/normalized_entropy": 4.0 - 0.1 * update}) == []


def test_one_optimiser_step_per_update_measures_no_kl_and_is_not_frozen():
    assert watch(Monitor(replace(SETUP, optimizer_steps=1)), 50, **FROZEN) == []


@pytest.mark.holds("L2")
def test_a_healthy_recorded_run_raises_no_alert():
    monitor = Monitor(SETUP)
    lines = [json.loads(line) for line in recorded_lines()]
    assert len(lines) == 200
    assert [alert for each in lines for alert in monitor.update(int(each["charts/updates"]), each)] == []


def test_a_solved_game_raises_the_hint_solved_only():
    """`recall`, 600,000 steps: the policy is deterministic, and rare slips make outlying batches."""
    monitor = Monitor(SETUP)
    alerts = [alert for each in solved_run() for alert in monitor.update(int(each["charts/updates"]), each)]
    assert names(alerts) == ["solved"]
    assert alerts[0].line.startswith("health: hint solved since update 12: nothing is left to learn")
    assert (alerts[0].rule.severity, monitor.metrics()["health/worst"]) == (Severity.HINT, 1.0)


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({"charts/episodic_return": 0.2}, 8),  # returns have dropped
        ({"charts/episodic_return": 0.2}, 0),  # returns never rose
        ({"win_rate/main@106496": 0.3, "matches/main@106496": 200.0}, 0),  # an opponent beats it
        ({"scales/advantage_std": 1.5}, 0),  # advantages are still large
    ],
)
def test_a_policy_that_stops_changing_below_its_best_is_not_solved(changes, since):
    monitor, alerts = Monitor(SETUP), []
    for update, metrics in enumerate(solved_run(), start=1):
        alerts += monitor.update(update, {**metrics, **(changes if update > since else {})})
    assert "solved" not in names(alerts)
    assert "entropy_collapsed" in names(alerts)


def test_a_frozen_policy_whose_return_never_rose_is_not_solved():
    monitor = Monitor(SETUP)
    still = {**FROZEN, "charts/episodic_return": -1.0, "scales/advantage_std": 0.0}
    assert names(watch(monitor, 40, **still)) == ["frozen_policy"]


@pytest.mark.holds("K1")
def test_the_cap_on_a_components_share_is_a_setting():
    def alerts_of(cap, share):
        monitor = Monitor(replace(SETUP, component_share=cap))
        return names(watch(monitor, 20, **{"reward_share/win": share, "reward_share/zone": 1.0 - share}))

    assert alerts_of(0.8, 0.81) == ["reward_dominated"]
    assert alerts_of(0.8, 0.79) == []
    assert alerts_of(0.6, 0.79) == ["reward_dominated"]
    assert watch(Monitor(SETUP), 100, **{"reward_share/all": 1.0}) == []


@pytest.mark.holds("K1")
def test_a_dominant_terminal_bonus_is_reported():
    """The components of recorded matches, with the win's weight as it is and twenty times as large."""

    def alerts_of(factor):
        scores = MatchStatistics()
        for components in recorded_components():
            brought = {**components, "win": factor * components["win"]}
            scores.add(CollectedMatch(PLAYED, 1.0, "over", 10, sum(brought.values()), brought))
        shares = {name: share for name, share in scores.metrics().items() if name.startswith("reward_share/")}
        return watch(Monitor(SETUP), 20, **shares)

    assert alerts_of(1.0) == []
    (alert,) = alerts_of(20.0)
    assert alert.name == "reward_dominated"
    assert alert.evidence["share of win"] > 0.8


@pytest.mark.holds("L1")
def test_undefined_explained_variance_raises_no_alert():
    assert watch(Monitor(SETUP), 100, **{"losses/explained_variance": None}) == []


def test_updates_without_metrics_raise_no_alert():
    monitor = Monitor(SETUP)
    assert [alert for update in range(1, 50) for alert in monitor.update(update, {})] == []


def test_a_level_between_the_thresholds_begins_and_ends_no_alert():
    hysteresis = HEALTH_RULES["actions_saturated"].hysteresis
    between = {"heads/move/saturated": (hysteresis.trip + hysteresis.clear) / 2}
    monitor = after_health()
    assert watch(monitor, 50, first=21, **between) == []
    assert names(watch(monitor, 20, first=71, **WRONG["actions_saturated"])) == ["actions_saturated"]
    assert watch(monitor, 50, first=91, **between) == []
    assert names(monitor.alerts) == ["actions_saturated"]


def test_a_level_that_swings_around_a_threshold_does_not_flap():
    monitor = after_health()
    alerts = []
    for update in range(21, 221):
        kl = 0.5e-6 if update % 3 else 2e-6
        alerts += monitor.update(update, {**HEALTHY, **FROZEN, "losses/approx_kl": kl})
    assert alerts == []
    assert names(watch(monitor, 10, first=221, **FROZEN)) == ["frozen_policy"]
    for update in range(231, 431):
        kl = 0.5e-6 if update % 3 else 2e-6
        alerts += monitor.update(update, {**HEALTHY, **FROZEN, "losses/approx_kl": kl})
    assert alerts == []


def test_an_ended_alert_has_its_first_and_last_update():
    monitor = after_health()
    watch(monitor, 5, first=21, **WRONG["gradient_vanishing"])
    (over,) = watch(monitor, 30, first=26)
    assert (over.name, over.since, over.began, over.ended) == ("gradient_vanishing", 21, 25, 30)
    assert over.line == "health: gradient_vanishing of update 21 ended at update 30"


@pytest.mark.holds("K6")
@pytest.mark.parametrize("name", ["advantage", "value", "reward"])
def test_a_batch_with_ten_times_the_usual_deviation_is_reported(name):
    monitor = after_health()
    usual = HEALTHY[f"scales/{name}_std"]
    assert watch(monitor, 1, first=21, **{f"scales/{name}_std": 9.0 * usual}) == []
    watch(monitor, 10, first=22)
    (alert,) = watch(monitor, 1, first=32, **{f"scales/{name}_std": 11.0 * usual})
    assert alert.name == "batches_unstable"
    assert set(alert.evidence) == {f"usual {name} deviation", f"largest {name} deviation"}


def test_a_batch_without_any_reward_is_not_compared():
    monitor = after_health()
    assert watch(monitor, 1, first=21, **{"scales/reward_std": 0.0}) == []
    assert watch(monitor, 20, first=22) == []


def test_a_rejected_update_is_reported_at_once_and_a_restarted_counter_is_not():
    monitor = after_health()
    assert names(watch(monitor, 1, first=21, **{"losses/rejected_steps": 3.0})) == ["not_finite"]
    resumed = after_health()
    watch(resumed, 20, first=21, **{"losses/rejected_steps": 3.0})
    assert watch(resumed, 20, first=41, **{"losses/rejected_steps": 0.0}) == []


def test_a_head_without_decisions_is_not_starving():
    assert watch(Monitor(SETUP), 50, **{"heads/target/gradient_norm": None, "heads/target/samples": 0.0}) == []


def test_entropy_has_not_collapsed_while_one_head_explores():
    assert watch(after_health(), 50, first=21, **{"heads/move/std": 0.02}) == []


@pytest.mark.holds("E10")
def test_gradients_slightly_above_their_limit_raise_no_alert():
    assert watch(Monitor(SETUP), 100, **{"losses/gradient_norm": 1.2, "losses/gradient_clipped": 1.0}) == []


def test_self_play_and_win_rates_of_few_matches_do_not_count():
    usual = {name: None for name in HEALTHY if name.startswith(("win_rate/", "matches/"))}
    own = {"win_rate/main": 1.0, "matches/main": 200.0, "win_rate/new": 1.0, "matches/new": 39.0}
    assert watch(Monitor(SETUP), 100, **usual, **own) == []
    enough = {**own, "matches/new": 40.0}
    assert names(watch(Monitor(SETUP), 100, **usual, **enough)) == ["opponents_too_easy"]


def test_cycling_names_the_opponent_and_both_win_rates():
    (alert,) = watch(after_health(), 50, first=21, **WRONG["cycling"])
    assert alert.evidence == {"best against main@100": 0.8, "now": 0.3}


def test_the_most_severe_alert_comes_first():
    monitor = after_health()
    watch(monitor, 30, first=21, **WRONG["always_at_kl_stop"], **WRONG["gradient_vanishing"])
    assert names(monitor.alerts) == ["gradient_vanishing", "always_at_kl_stop"]
    assert monitor.metrics()["health/worst"] == 3.0


def test_no_window_is_longer_than_the_history():
    assert max(rule.hysteresis.window for rule in HEALTH_RULES.values()) <= HORIZON


def test_hysteresis_direction_follows_from_its_levels():
    high, low = Hysteresis(10.0, 5.0, updates=1), Hysteresis(0.1, 0.5, updates=1)
    assert [high.bad(level) for level in (4.0, 7.0, 10.0)] == [False, False, True]
    assert [high.good(level) for level in (5.0, 7.0, 10.0)] == [True, False, False]
    assert [low.bad(level) for level in (0.1, 0.3, 0.6)] == [True, False, False]
    assert [low.good(level) for level in (0.1, 0.3, 0.6)] == [False, False, True]


def test_advice_names_settings_that_exist():
    known = {f"{section}.{key}" for section, model in sections().items() for key in model.model_fields}
    prefixes = "|".join(sections())
    for rule in HEALTH_RULES.values():
        assert "exploiter" not in rule.advice, "roles are labels: nothing changes with them"
    advice = [rule.advice for rule in HEALTH_RULES.values()]
    cases = [text for rule in HEALTH_RULES.values() for text in rule.cases.values()]
    for text in (*advice, *cases):
        named = set(re.findall(rf"\b(?:{prefixes})\.[a-z_]+", text))
        assert named
        assert named <= known


@pytest.mark.integration
def test_monitor_and_doctor_load_no_torch():
    script = "import sys, trainer.monitoring.report.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_names_of_heads_may_contain_slashes():
    """Keys of a Dict space are arbitrary."""
    history = History(SETUP)
    history.add({"heads/arm/grip/std": 0.5, "heads/arm/std": 0.25, "heads/std/entropy": 1.0})
    assert history.per_head("std") == {"arm/grip": 0.5, "arm": 0.25}
    assert history.per_head("entropy") == {"std": 1.0}
