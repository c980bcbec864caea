"""What the doctor finds in short runs that were really made: healthy ones, and ones with a single known fault."""

import json

import pytest
from runs import run_folder
from short_runs import alerts_of, as_lines, train

from trainer.monitoring.report.doctor import as_json, diagnose

pytestmark = pytest.mark.integration

GAMES = ["rps", "recall"]


def names(alerts):
    return [alert.name for alert in alerts]


def test_a_healthy_run_has_no_findings():
    assert alerts_of(*train("rps", 60)) == []


def test_a_run_that_solves_its_game_by_self_play_has_no_finding_but_that():
    assert names(alerts_of(*train("recall", 60))) == ["solved"]


@pytest.mark.parametrize("environment", GAMES)
def test_a_run_at_learning_rate_0_has_one_finding_which_names_the_learning_rate(environment):
    rate = ["optimizer.learning_rate=0", "optimizer.learning_rate_final=0"]
    config, metrics = train(environment, 40, *rate)
    (alert,) = alerts_of(config, metrics)
    assert (alert.name, alert.since, alert.cause) == ("frozen_policy", 1, "")
    assert alert.evidence["learning rate"] == 0.0
    assert alert.advice.startswith("set optimizer.learning_rate and optimizer.learning_rate_final above 0")
    assert {each["losses/ratio_alarms"] for each in metrics} == {0.0}


def test_a_run_at_learning_rate_0_1_is_advised_to_lower_it():
    """Three seeds of three were frozen within 35 updates."""
    rate = ["optimizer.learning_rate=0.1", "optimizer.learning_rate_final=0.1"]
    found = alerts_of(*train("rps", 60, *rate))
    assert {"ratio_explosion", "entropy_collapsed", "frozen_policy"} <= set(names(found))
    for alert in found:
        assert "raise optimizer.learning_rate" not in alert.advice
        if alert.name in ("entropy_collapsed", "frozen_policy"):
            assert alert.advice.startswith("lower optimizer.learning_rate")
        if alert.name == "frozen_policy":
            assert alert.cause == "entropy_collapsed"
            assert "caused by entropy_collapsed" in alert.line


@pytest.mark.parametrize("environment", GAMES)
def test_a_game_without_rewards_is_named_as_the_cause_of_other_alerts(environment, tmp_path):
    config, metrics = train(environment, 40, pays=False)
    found = alerts_of(config, metrics)
    assert names(found)[0] == "no_reward"
    assert set(names(found)) <= {"no_reward", "frozen_policy", "gradient_vanishing"}
    assert all(alert.cause == "no_reward" for alert in found[1:])
    assert not any("raise optimizer.learning_rate" in alert.advice for alert in found)
    told = as_json(diagnose(run_folder(tmp_path / "run", as_lines(metrics))))
    assert [finding["name"] for finding in told["findings"]] == names(found)
    assert [finding.get("follows_from") for finding in told["findings"]] == [None, "no_reward"]
    json.dumps(told)
