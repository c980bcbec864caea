import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_games import tagged
from runs import HEALTHY, recorded_components, recorded_lines, solved_run

from league.wire import Lease
from trainer.collector import Episode
from trainer.config import sections
from trainer.health import SYMPTOMS, Monitor, Severity
from trainer.history import HORIZON, History, Setup
from trainer.leases import Assignment
from trainer.metrics import Scoreboard
from trainer.thresholds import Band, Thresholds

SETUP = Setup(learner="main", optimizer_steps=8, max_gradient_norm=0.5, component_share=0.8)

FROZEN = {
    "losses/approx_kl": 1e-7,
    "losses/clipfrac": 0.0,
    "losses/ratio_deviation": 0.0,
    "losses/entropy": 4.0,
}
"""The numbers of a run whose policy was cut off from its gradient: KL 1e-7, ratio 1, nothing clipped, entropy flat."""

PLAYED = Assignment(tagged(1.0), away=False, seed=0, lease=None, sequence=0, both_sides=False)

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
"""What else is true where everybody wins whom the learner used to beat."""


def watch(monitor, updates, first=1, **changes):
    """Put updates before a monitor; what it says of them."""
    return [
        verdict for update in range(first, first + updates) for verdict in monitor.take(update, {**HEALTHY, **changes})
    ]


def after_health(updates=20):
    monitor = Monitor(SETUP)
    assert watch(monitor, updates) == []
    return monitor


def names(verdicts):
    return [verdict.name for verdict in verdicts]


def test_every_symptom_has_its_thresholds_and_every_threshold_its_symptom():
    assert set(SYMPTOMS) == set(vars(Thresholds()))


def test_every_symptom_but_three_is_tried_below():
    assert set(SYMPTOMS) - set(WRONG) == {"batches_unstable", "not_finite", "solved"}


def test_a_run_writes_every_figure_that_a_symptom_is_read_from(play, never):
    """Heads, opponents and components of the reward have other names there."""
    played, scores = play(), Scoreboard()
    metrics = played.learner.learn(played.collect(), never)
    for episode in played.episodes:
        rated = replace(episode.assignment, lease=Lease.model_construct(branch="pfsp"))
        scores.add(replace(episode, assignment=rated, components={"all": episode.earned}))
    metrics |= scores.metrics()

    def plain(name):
        return re.sub(r"/.*", "", name) if name.startswith(("win_rate/", "matches/", "reward_share/")) else name

    read = {
        name.replace("heads/target/", "heads/choice/") for changes in (HEALTHY, *WRONG.values()) for name in changes
    }
    assert {plain(name) for name in (*read, "charts/episodic_return")} <= {plain(name) for name in metrics}


@pytest.mark.parametrize("name", WRONG)
def test_a_symptom_and_no_other_is_told_once_and_ends_when_all_is_well_again(name):
    monitor = after_health()
    begun = watch(monitor, 110, first=21, **WRONG[name])
    assert {verdict.name for verdict in begun} - COMPANIONS.get(name, set()) == {name}
    (told,) = [verdict for verdict in begun if verdict.name == name and verdict.ended is None]
    assert told.evidence
    assert told.since > 20
    ended = watch(monitor, 150, first=131)
    assert name not in names(monitor.verdicts)
    assert [verdict.ended for verdict in begun + ended if verdict.name == name][1] is not None


def test_the_numbers_of_a_frozen_policy_trip_it_within_ten_updates():
    monitor = Monitor(SETUP)
    (verdict,) = watch(monitor, 10, **FROZEN)
    assert (verdict.name, verdict.since, verdict.began) == ("frozen_policy", 1, 10)
    assert verdict.symptom.severity is Severity.ALARM
    assert "KL 1e-07, clip fraction 0" in verdict.line
    assert "schedules.learning_rate" in verdict.line


@pytest.mark.parametrize(
    "moves",
    [
        {"losses/approx_kl": 1e-3},
        {"losses/clipfrac": 0.02},
        {"losses/ratio_deviation": 0.05},
    ],
)
def test_a_policy_that_moves_in_any_way_is_not_frozen(moves):
    assert watch(Monitor(SETUP), 50, **{**FROZEN, **moves}) == []


def test_a_policy_whose_entropy_goes_somewhere_is_not_frozen():
    monitor = Monitor(SETUP)
    for update in range(50):
        assert monitor.take(update, {**HEALTHY, **FROZEN, "losses/entropy": 4.0 - 0.1 * update}) == []


def test_one_optimiser_step_per_update_measures_no_kl_and_is_not_frozen():
    assert watch(Monitor(replace(SETUP, optimizer_steps=1)), 50, **FROZEN) == []


def test_a_healthy_recorded_run_is_told_nothing():
    monitor = Monitor(SETUP)
    lines = [json.loads(line) for line in recorded_lines()]
    assert len(lines) == 200
    assert [verdict for each in lines for verdict in monitor.take(int(each["charts/updates"]), each)] == []


def test_a_solved_game_is_called_solved_and_nothing_is_called_wrong():
    """`recall`, 600,000 steps: the answer is certain, the policy rests, and a rare slip spreads a batch."""
    monitor = Monitor(SETUP)
    told = [verdict for each in solved_run() for verdict in monitor.take(int(each["charts/updates"]), each)]
    assert names(told) == ["solved"]
    assert told[0].line.startswith("health: hint solved since update 12: nothing is left to learn")
    assert (told[0].symptom.severity, monitor.metrics()["health/worst"]) == (Severity.HINT, 1.0)


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({"charts/episodic_return": 0.2}, 8),  # what it came to is lost
        ({"charts/episodic_return": 0.2}, 0),  # it never came to anything
        ({"win_rate/main@106496": 0.3, "matches/main@106496": 200.0}, 0),  # somebody wins against it
        ({"scales/advantage_std": 1.5}, 0),  # there is still something to gain
    ],
)
def test_a_policy_that_rests_anywhere_else_is_not_solved(changes, since):
    monitor, told = Monitor(SETUP), []
    for update, metrics in enumerate(solved_run(), start=1):
        told += monitor.take(update, {**metrics, **(changes if update > since else {})})
    assert "solved" not in names(told)
    assert "entropy_collapsed" in names(told)


def test_a_frozen_policy_that_earns_no_more_than_at_first_is_not_solved():
    monitor = Monitor(SETUP)
    still = {**FROZEN, "charts/episodic_return": -1.0, "scales/advantage_std": 0.0}
    assert names(watch(monitor, 40, **still)) == ["frozen_policy"]


def test_the_cap_on_a_components_share_is_a_setting():
    def told(cap, share):
        monitor = Monitor(replace(SETUP, component_share=cap))
        return names(watch(monitor, 20, **{"reward_share/win": share, "reward_share/zone": 1.0 - share}))

    assert told(0.8, 0.81) == ["reward_dominated"]
    assert told(0.8, 0.79) == []
    assert told(0.6, 0.79) == ["reward_dominated"]
    assert watch(Monitor(SETUP), 100, **{"reward_share/all": 1.0}) == []


def test_a_terminal_bonus_that_dwarfs_all_else_is_told():
    """The components of recorded matches, with the win's weight as it is and twenty times as large."""

    def told(factor):
        scores = Scoreboard()
        for components in recorded_components():
            brought = {**components, "win": factor * components["win"]}
            scores.add(Episode(PLAYED, 1.0, "over", 10, sum(brought.values()), brought))
        shares = {name: share for name, share in scores.metrics().items() if name.startswith("reward_share/")}
        return watch(Monitor(SETUP), 20, **shares)

    assert told(1.0) == []
    (verdict,) = told(20.0)
    assert verdict.name == "reward_dominated"
    assert verdict.evidence["share of win"] > 0.8


def test_constant_returns_have_no_explained_variance_and_are_no_fault():
    assert watch(Monitor(SETUP), 100, **{"losses/explained_variance": None}) == []


def test_updates_in_which_nothing_is_known_are_no_fault():
    monitor = Monitor(SETUP)
    assert [verdict for update in range(1, 50) for verdict in monitor.take(update, {})] == []


def test_a_level_between_the_two_thresholds_neither_begins_nor_ends_anything():
    band = Thresholds().actions_saturated
    between = {"heads/move/saturated": (band.trip + band.clear) / 2}
    monitor = after_health()
    assert watch(monitor, 50, first=21, **between) == []
    assert names(watch(monitor, 20, first=71, **WRONG["actions_saturated"])) == ["actions_saturated"]
    assert watch(monitor, 50, first=91, **between) == []
    assert names(monitor.verdicts) == ["actions_saturated"]


def test_a_level_that_swings_around_a_threshold_does_not_flap():
    monitor = after_health()
    told = []
    for update in range(21, 221):
        kl = 0.5e-6 if update % 3 else 2e-6
        told += monitor.take(update, {**HEALTHY, **FROZEN, "losses/approx_kl": kl})
    assert told == []
    assert names(watch(monitor, 10, first=221, **FROZEN)) == ["frozen_policy"]
    for update in range(231, 431):
        kl = 0.5e-6 if update % 3 else 2e-6
        told += monitor.take(update, {**HEALTHY, **FROZEN, "losses/approx_kl": kl})
    assert told == []


def test_a_verdict_that_ends_says_how_long_it_lasted():
    monitor = after_health()
    watch(monitor, 5, first=21, **WRONG["gradient_vanishing"])
    (over,) = watch(monitor, 30, first=26)
    assert (over.name, over.since, over.began, over.ended) == ("gradient_vanishing", 21, 25, 30)
    assert over.line == "health: gradient_vanishing of update 21 is over at update 30"


@pytest.mark.parametrize("name", ["advantage", "value", "reward"])
def test_a_batch_that_spreads_ten_times_more_than_its_neighbours_is_told(name):
    monitor = after_health()
    usual = HEALTHY[f"scales/{name}_std"]
    assert watch(monitor, 1, first=21, **{f"scales/{name}_std": 9.0 * usual}) == []
    watch(monitor, 10, first=22)
    (verdict,) = watch(monitor, 1, first=32, **{f"scales/{name}_std": 11.0 * usual})
    assert verdict.name == "batches_unstable"
    assert set(verdict.evidence) == {f"usual {name} spread", f"greatest {name} spread"}


def test_a_batch_without_any_reward_is_not_compared():
    monitor = after_health()
    assert watch(monitor, 1, first=21, **{"scales/reward_std": 0.0}) == []
    assert watch(monitor, 20, first=22) == []


def test_a_rejected_update_is_told_at_once_and_a_resumed_count_is_not():
    monitor = after_health()
    assert names(watch(monitor, 1, first=21, **{"losses/rejected_steps": 3.0})) == ["not_finite"]
    resumed = after_health()
    watch(resumed, 20, first=21, **{"losses/rejected_steps": 3.0})
    assert watch(resumed, 20, first=41, **{"losses/rejected_steps": 0.0}) == []


def test_a_head_with_nothing_to_decide_is_not_starving():
    assert watch(Monitor(SETUP), 50, **{"heads/target/gradient_norm": None, "heads/target/samples": 0.0}) == []


def test_one_narrow_head_is_no_collapse_while_another_still_explores():
    assert watch(after_health(), 50, first=21, **{"heads/move/std": 0.02}) == []


def test_gradients_that_are_clipped_a_little_every_time_are_no_fault():
    assert watch(Monitor(SETUP), 100, **{"losses/gradient_norm": 1.2, "losses/gradient_clipped": 1.0}) == []


def test_matches_against_itself_and_win_rates_of_few_matches_say_nothing_of_opponents():
    usual = {name: None for name in HEALTHY if name.startswith(("win_rate/", "matches/"))}
    own = {"win_rate/main": 1.0, "matches/main": 200.0, "win_rate/new": 1.0, "matches/new": 39.0}
    assert watch(Monitor(SETUP), 100, **usual, **own) == []
    enough = {**own, "matches/new": 40.0}
    assert names(watch(Monitor(SETUP), 100, **usual, **enough)) == ["opponents_too_easy"]


def test_cycling_names_the_player_and_how_far_its_win_rate_fell():
    (verdict,) = watch(after_health(), 50, first=21, **WRONG["cycling"])
    assert verdict.evidence == {"best against main@100": 0.8, "now": 0.3}


def test_the_worst_comes_first():
    monitor = after_health()
    watch(monitor, 30, first=21, **WRONG["always_at_kl_stop"], **WRONG["gradient_vanishing"])
    assert names(monitor.verdicts) == ["gradient_vanishing", "always_at_kl_stop"]
    assert monitor.metrics()["health/worst"] == 3.0


def test_no_symptom_looks_further_back_than_the_monitor_remembers():
    assert max(band.window for band in vars(Thresholds()).values()) <= HORIZON


def test_a_band_knows_whether_high_or_low_is_bad():
    high, low = Band(10.0, 5.0, updates=1), Band(0.1, 0.5, updates=1)
    assert [high.bad(level) for level in (4.0, 7.0, 10.0)] == [False, False, True]
    assert [high.good(level) for level in (5.0, 7.0, 10.0)] == [True, False, False]
    assert [low.bad(level) for level in (0.1, 0.3, 0.6)] == [True, False, False]
    assert [low.good(level) for level in (0.1, 0.3, 0.6)] == [False, False, True]


def test_advice_names_settings_that_exist():
    known = {f"{section}.{key}" for section, model in sections().items() for key in model.model_fields}
    prefixes = "|".join(sections())
    for symptom in SYMPTOMS.values():
        named = set(re.findall(rf"\b(?:{prefixes})\.[a-z_]+", symptom.advice))
        assert named
        assert named <= known
        assert "exploiter" not in symptom.advice, "roles are labels: nothing changes with them"


def test_the_documentation_explains_every_verdict():
    text = (Path(__file__).parents[2] / "docs" / "health.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z_]+)` \|", text, flags=re.MULTILINE)) == set(SYMPTOMS)


def test_monitor_and_doctor_load_no_torch():
    script = "import sys, trainer.doctor; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_heads_may_be_called_by_paths():
    """Keys of a Dict space may hold anything."""
    history = History(SETUP)
    history.add({"heads/arm/grip/std": 0.5, "heads/arm/std": 0.25, "heads/std/entropy": 1.0})
    assert history.of_heads("std") == {"arm/grip": 0.5, "arm": 0.25}
    assert history.of_heads("entropy") == {"std": 1.0}
