import json
import os
import signal
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from arena.environments import declare
from arena.evaluation.nash_averaging import nash_mixture
from arena.policies import ActorCritic, Architecture, CoreKind, NetworkPolicy
from benchmarks import league_value
from benchmarks.value import conditions, report
from benchmarks.value.finding import findings
from benchmarks.value.games import game_of
from benchmarks.value.measures import Member, Outcome, Point, found, lead, point, safest, scores, spread, worst_score
from trainer.config.loading import resolve

ROCK, PAPER, SCISSORS = np.eye(3)
EQUILIBRIUM = np.array([1 / 2, 1 / 6, 1 / 3])
RPS = game_of("rps")


def member(policy, step, role="main"):
    return Member(role, step, datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=step), policy)


def outcome(newest, steps=10):
    return Outcome(
        [Point(steps, 1.0, 1.0), Point(2 * steps, newest, newest / 2)], newest / 4, 0.4, 0.3, 7, {"main": 1.0}
    )


@pytest.mark.parametrize("name", ["rps", "rps:rounds=10", "openspiel:kuhn_poker", "openspiel:kuhn_poker:rounds=20"])
def test_networks_are_policies_that_a_best_response_wins_of(name):
    game = game_of(name)
    policy = game.tabulate(ActorCritic(Architecture.of(declare(name), recurrent_size=8)))
    assert policy.sum(axis=-1) == pytest.approx(1.0)
    assert 0.0 < game.exploitability(policy) <= game.largest
    assert game.exploitability(game.mix([policy, policy], np.array([0.3, 0.7]))) == pytest.approx(
        game.exploitability(policy)
    )
    assert game.returns([policy]).shape == (1, 1)


def test_rock_paper_scissors_has_its_known_values():
    assert RPS.exploitability(EQUILIBRIUM) == pytest.approx(0.0)
    assert [RPS.exploitability(pure) for pure in (ROCK, PAPER, SCISSORS)] == [2.0, 3.0, 1.0]
    assert lead(RPS, np.stack([ROCK, PAPER]))[0, 1] == -2.0


def test_other_games_are_refused():
    with pytest.raises(ValueError, match=r"mech-duel has no exact values: take rps or a game of OpenSpiel"):
        game_of("mech-duel")


def test_the_mixture_is_of_those_who_were_there_and_is_safe_where_each_alone_is_not():
    members = [member(ROCK, 1), member(PAPER, 2, "league_exploiter"), member(SCISSORS, 3)]
    assert point(RPS, members, members[0], main_share=1 / 3) == Point(3, 2.0, 2.0)
    last = point(RPS, members, members[2], main_share=0.75)
    assert (last.steps, last.newest) == (4, 1.0)
    assert last.mixture == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    ("count", "most", "places"), [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (2, 9, [0, 1]), (9, 3, [0, 4, 8])]
)
def test_of_many_mains_a_few_are_valued_evenly(count, most, places):
    members = [member(ROCK, step) for step in range(count)]
    assert spread(members, most) == [members[place] for place in places]


def test_a_nash_mixture_is_safe_from_members_alone_and_the_safest_one_from_everybody():
    """Paper beats rock, so that it is the mixture of these two; scissors, which are not there, lose least to half."""
    policies = np.stack([ROCK, PAPER])
    nash = RPS.mix(policies, nash_mixture(scores(lead(RPS, policies))))
    assert nash == pytest.approx(PAPER, abs=1e-5)
    assert RPS.exploitability(nash) == pytest.approx(3.0, abs=1e-4)
    mixtures = [share * ROCK + (1.0 - share) * PAPER for share in np.linspace(0.0, 1.0, 10_001)]
    least = min(RPS.exploitability(mixture) for mixture in mixtures)
    assert safest(RPS, policies) == pytest.approx(least, abs=1e-3)
    assert safest(RPS, np.eye(3)) == pytest.approx(0.0, abs=1e-5)
    assert safest(RPS, policies[:1]) == 2.0


def test_best_responses_of_a_tree_win_what_exploitability_says():
    game = game_of("openspiel:kuhn_poker")
    policies = np.random.default_rng(0).dirichlet(np.ones(2), size=(3, 12))
    for policy in policies:
        gain = lead(game, np.stack([game.best_response(policy), policy]))[0, 1]
        assert gain == pytest.approx(game.exploitability(policy))
    of_all = safest(game, policies)
    assert 0.0 < of_all < min(game.exploitability(policy) for policy in policies)
    shares = np.random.default_rng(1).dirichlet(np.ones(3), size=2000)
    assert of_all <= min(game.exploitability(game.mix(policies, each)) for each in shares) + 1e-5


def test_scores_of_equal_players_are_even():
    assert (scores(np.zeros((2, 2))) == 0.5).all()


def test_a_main_is_judged_by_the_snapshot_it_does_worst_against():
    past = [member(SCISSORS, 1), member(PAPER, 2)]
    assert worst_score(RPS, member(ROCK, 3), past) == pytest.approx(0.5 - 2.0 / 6.0)
    assert worst_score(RPS, member(ROCK, 3), []) == 0.5


def test_what_exploiters_find_is_a_share_of_what_the_main_of_then_can_lose():
    members = [
        member(ROCK, 1),
        member(PAPER, 2, "main_exploiter"),
        member(PAPER, 3),
        member(PAPER, 4, "main_exploiter"),
    ]
    assert found(RPS, members) == pytest.approx((2.0 / 2.0 + 0.0) / 2.0)
    assert found(RPS, members[:1]) == 0.0


def test_matches_of_several_rounds_are_valued_and_tuned_as_one_round():
    plain, rounds = "openspiel:kuhn_poker", "openspiel:kuhn_poker:rounds=20"
    assert (game_of(rounds).name, game_of(rounds).largest) == (plain, 2.0)
    assert conditions.condition("tuned", rounds) == conditions.condition("tuned", plain)
    assert conditions.condition("tuned", rounds) != conditions.condition("tuned", "openspiel:leduc_poker:rounds=20")


def test_slower_self_play_has_the_presets_learning_rates_times_a_third_or_so():
    settings = dict(each.split("=") for each in conditions.condition("slower", "openspiel:kuhn_poker").settings)
    assert float(settings["optimizer.learning_rate"]) == pytest.approx(3e-4)
    assert float(settings["optimizer.learning_rate_final"]) == pytest.approx(3e-5)


@pytest.mark.parametrize("game", ["openspiel:kuhn_poker", "openspiel:leduc_poker"])
def test_all_conditions_have_the_same_steps_and_each_differs_in_what_it_is_called_for(game):
    for name in conditions.NAMES:
        chosen = conditions.condition(name, game)
        settings = dict(each.split("=") for each in chosen.trainer_settings(chosen.trainees[0], 900, seed=4))
        assert int(settings["run.total_timesteps"]) * len(chosen.trainees) == 900
        assert settings["schedules.horizon_steps"] == settings["run.total_timesteps"]
        assert settings["run.seed"] == "4"
        assert (settings["ppo.normalized_ent_coef"] != "0.05") == (name == "tuned")
        assert ("optimizer.learning_rate" in settings) == (name == "slower")
        assert (float(settings["ppo.magnet_coef"]) > 0.0) == (name == "pulled")
        assert settings.get("environment.self_play") == (None if name == "league" else "1.0")
    assert [trainee.role for trainee in conditions.condition("league", game).trainees] == [
        "main",
        "main_exploiter",
        "league_exploiter",
    ]


@pytest.mark.parametrize("game", ["openspiel:kuhn_poker:rounds=20", "rps", "mech-duel"])
def test_a_main_is_pulled_to_a_mean_whether_its_preset_has_one_or_not(game):
    pulled = resolve(game, None, conditions.condition("pulled", game).settings)
    assert pulled.ppo.magnet_coef > 0.0
    assert pulled.league.ema_horizon_steps == 400_000
    assert pulled.ppo.normalized_ent_coef_final < pulled.ppo.normalized_ent_coef


def test_every_condition_has_a_colour_of_its_own():
    assert len(set(report.COLOURS)) >= len(conditions.NAMES)


def test_a_leagues_main_may_have_more_of_the_steps_and_exploiters_share_the_rest():
    league = conditions.condition("league", "rps", main_share=0.8)
    assert [league.steps_of(each, 1000) for each in league.trainees] == [800, 100, 100]
    alone = conditions.condition("self-play", "rps", main_share=0.8)
    assert alone.steps_of(alone.trainees[0], 1000) == 1000


def test_runs_with_another_share_of_the_main_are_another_plan():
    plain, shared = league_value.parse([]), league_value.parse(["--main-share", "0.8"])
    assert "main_share" not in league_value.plan(plain)
    assert league_value.plan(shared) == league_value.plan(plain) | {"main_share": 0.8}


class Race:
    """A run of four processes' steps, as `paced` looks at it."""

    def __init__(self, steps, main_share):
        self.condition = conditions.condition("league", "rps", main_share)
        self.told = dict(zip([each.name for each in self.condition.trainees], steps, strict=True))
        self.processes = {name: 10 + place for place, name in enumerate(self.told)}

    def steps(self):
        return self.told


@pytest.mark.parametrize(
    ("words", "steps", "held"),
    [(["--main-share", "0.8"], [400, 60, 50], [(11, signal.SIGSTOP)]), ([], [50, 300, 50], [])],
    ids=["shares", "no shares"],
)
def test_exploiters_are_held_to_the_same_part_of_their_way_as_the_main(words, steps, held, monkeypatch):
    signals = []
    monkeypatch.setattr(os, "kill", lambda process, number: signals.append((process, number)))
    arguments = league_value.parse(["--steps", "1000", *words])
    race = Race([0, 0, 0], arguments.main_share)
    pace = league_value.paced(arguments, race)
    race.told.update(zip(race.told, steps, strict=True))
    pace.keep()
    assert signals == held
    race.told["main"] = 500
    pace.keep()
    assert signals == held + [(process, signal.SIGCONT) for process, _ in held]


def test_intervals_are_students():
    assert report.interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.0 - 2.484138, 2.0 + 2.484138))
    assert report.interval([1.0])[1:] == (-np.inf, np.inf)


def test_a_cycling_main_is_judged_by_its_last_quarter_too():
    cycling = Outcome([Point(step, step % 2, 0.0) for step in range(1, 9)], 0.0, 0.5, 0.0, 0, {})
    assert report.last_quarter(cycling) == pytest.approx(1.0 / 3.0)


def test_reports_tell_means_intervals_and_curves():
    outcomes = {"league": [outcome(0.02), outcome(0.04, steps=11)], "self-play": [outcome(0.1)]}
    rows = report.table(outcomes).splitlines()
    assert rows[2].startswith("| league | 2 | 0.0300 (-0.0971 to 0.1571) | 0.0300 (-0.0971 to 0.1571) | 0.0150")
    assert "| 0.0150 (-0.0485 to 0.0785) | 0.0075 (-0.0243 to 0.0393) | 0.4000" in rows[2]
    assert rows[3].startswith("| self-play | 1 | 0.1000 | 0.1000 | 0.0500 | 0.0250 | 0.4000 | 30% | 7.0 | main 100% |")
    assert report.summary(outcomes)["self-play"]["newest main"] == {"mean": 0.1, "low": None, "high": None}
    lines = ET.fromstring(report.curves("rps", outcomes)).iter("{http://www.w3.org/2000/svg}polyline")
    assert len(list(lines)) == 4


def test_a_run_that_has_finished_is_kept_and_one_of_another_plan_refused(tmp_path):
    arguments = league_value.parse(["--steps", "1_000"])
    assert not league_value.kept(arguments, tmp_path, "league", 0)
    file = league_value.result(tmp_path, "league", 0)
    file.write_text(json.dumps({"plan": league_value.plan(arguments), "outcome": report_of(outcome(0.5))}))
    assert league_value.kept(arguments, tmp_path, "league", 0)
    assert league_value.read(tmp_path, "league", 0) == outcome(0.5)
    with pytest.raises(SystemExit, match="give another --out"):
        league_value.kept(league_value.parse(["--steps", "2000"]), tmp_path, "league", 0)


def test_settings_of_a_role_reach_nobody_else():
    arguments = league_value.parse(
        ["--set-main", "role.exploiter_below=0.3", "--set-exploiters", "ppo.normalized_ent_coef=0"]
    )
    main, *exploiters = conditions.condition("league", "rps").trainees
    assert league_value.role_settings(arguments, "league", main) == ["role.exploiter_below=0.3"]
    assert [league_value.role_settings(arguments, "league", each) for each in exploiters] == [
        ["ppo.normalized_ent_coef=0"]
    ] * 2
    assert league_value.role_settings(arguments, "self-play", main) == []


def report_of(told):
    return {**vars(told), "curve": [vars(each) for each in told.curve]}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "0"], "0 is too few: give 1 or more"),
        (["--main-share", "1.0"], "1.0 leaves somebody no steps: give more than 0 and less than 1"),
        (["--game", "mech-duel"], "mech-duel has no exact values: take rps or a game of OpenSpiel"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_runs(words, message, capsys):
    with pytest.raises(SystemExit):
        league_value.parse(words)
    assert message in capsys.readouterr().err


def test_an_exploiter_finds_nearly_all_that_can_be_won_of_a_beginner():
    spec = declare("rps")
    target = NetworkPolicy(ActorCritic(Architecture.of(spec, core=CoreKind.FEEDFORWARD)), "rps", spec.signature)
    settings = ["environment.self_play=0.0", "ppo.normalized_ent_coef=0.0", "ppo.normalized_ent_coef_final=0.0"]
    (first, early), (last, late) = findings(target, "rps", settings, (128, 6400))
    assert (first, last) == (128, 6400)
    assert early < 0.7 < late <= 1.0
