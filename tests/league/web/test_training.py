"""Training: learners' numbers, curves, what is wrong in words, and whom they meet beside whom they met."""

import csv
import re
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_scene import Scene

from league import wire
from league.db.engine import Database
from league.services.leaderboard import opponent_mix
from league.services.population.cache import PopulationCache
from league.services.workers import polling
from league.settings import Settings
from league.web.training import charts
from league.web.training.page import CARDS_SHOWN

VERDICT = wire.HealthVerdict(
    name="entropy_collapsed",
    severity="warning",
    since_update=31,
    meaning="the policy tries nothing new any more",
    evidence="move has left 0.01",
    advice="raise <ppo.normalized_ent_coef> or run `trainer doctor`",
)
METRICS: dict[str, float | None] = {
    "charts/SPS": 12345.6,
    "charts/episodic_return": 1.25,
    "charts/score": 0.75,
    "heads/move/entropy": 0.5,
    "heads/fire/entropy": 0.25,
    "heads/fire/approx_kl": 0.1,
    "win_rate_by_branch/pfsp": 0.5,
    "losses/approx_kl": None,
}


@pytest.fixture
def backend() -> str:
    return "sqlite"


def beat(scene: Scene, step: int, metrics: dict[str, float | None], **more: Any) -> None:
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics=metrics, **more)
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))


def test_learner_without_metrics_has_an_empty_state(http: TestClient, scene: Scene) -> None:
    page = http.get("/training").text
    assert "has not reported yet" in page
    assert "trainer run --environment rps --learner main" in page


def test_numbers_verdicts_and_advice_are_on_the_page(http: TestClient, scene: Scene) -> None:
    beat(scene, 123456, METRICS, verdicts=[VERDICT])
    page = http.get("/training").text
    for shown in ("123,456", "12,346", "1.250", "75.0 %", "entropy collapsed", VERDICT.meaning, VERDICT.evidence):
        assert shown in page
    assert "raise &lt;ppo.normalized_ent_coef&gt; or run <code>trainer doctor</code>" in page


def test_numbers_that_have_gone_astray_take_no_more_room_than_others(http: TestClient, scene: Scene) -> None:
    counts = ("charts/episodes", "charts/self_play_episodes")
    beat(scene, 64, dict.fromkeys([*METRICS, *counts], 1e308) | {"losses/approx_kl": -1e300})
    page = http.get("/training").text
    assert "1e+308" in page
    assert "-1e+300" in page
    assert "0" * 30 not in page


def test_training_page_reports_no_findings_only_after_a_health_report(http: TestClient, scene: Scene) -> None:
    beat(scene, 64, METRICS)
    assert "no findings" not in http.get("/training").text
    beat(scene, 128, METRICS, verdicts=[])
    assert "no findings" in http.get("/training").text


def test_verdicts_of_a_trainer_that_sends_no_words_are_named(http: TestClient, scene: Scene) -> None:
    beat(scene, 64, {"health/cycling": 2.0, "health/solved": 0.0, "health/worst": 2.0})
    page = http.get("/training").text
    assert "<strong>cycling</strong>" in page
    assert "<strong>solved</strong>" not in page
    assert "<strong>worst</strong>" not in page


def test_a_learner_that_falls_silent_is_marked(http: TestClient, scene: Scene, time: Any) -> None:
    beat(scene, 64, METRICS)
    assert "silent" not in http.get("/training/now").text
    time.advance(61)
    assert "silent" in http.get("/training/now").text


def test_a_large_league_s_trainers_may_be_quiet_for_longer(http: Any, scene: Scene, time: Any) -> None:
    beat(scene, 64, METRICS)
    league = http.app.state.league
    league.worker_count.present = 5_000
    wait_s = 3 * polling.longest_heartbeat_s(league.settings, 5_000)
    time.advance(wait_s)
    assert "silent" not in http.get("/training/now").text
    time.advance(1)
    assert "silent" in http.get("/training/now").text


def test_reporting_learner_is_shown_first(http: TestClient, scene: Scene) -> None:
    request = wire.LearnerCreate(name="second", role="main_exploiter", environment="rps", signature="rps-1")
    second = scene.client.register_learner(request)
    assert f"/training/{scene.learner.id}/curves" in http.get("/training").text
    progress = wire.LearnerProgress(learner_id=second.id, step=64, metrics=METRICS)
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    assert f"/training/{second.id}/curves" in http.get("/training").text
    assert f"/training/{scene.learner.id}/curves" in http.get(f"/training?learner={scene.learner.id}").text
    assert http.get("/training?learner=999").status_code == 404


def test_many_learners_are_filtered_by_name(http: TestClient, scene: Scene) -> None:
    first = scene.learner.id
    requests = [
        wire.LearnerCreate(name=f"Other {number}", role="main", environment="rps", signature="rps-1")
        for number in range(CARDS_SHOWN)
    ]
    assert 'name="q"' not in http.get("/training").text
    others = [scene.client.register_learner(request).id for request in requests]

    def cards(address: str) -> list[int]:
        return [int(each) for each in re.findall(r'id="learner-(\d+)"', http.get(address).text)]

    assert 'name="q"' in http.get("/training").text
    assert cards("/training") == [first, *others[:-1]]
    assert cards(f"/training?learner={others[-1]}") == [others[-1], first, *others[:-1]]
    assert cards("/training?all=true") == [first, *others]
    assert cards(f"/training/now?learner={first}&q=OTHER+7") == [first, others[7]]
    assert f"2 of {CARDS_SHOWN + 1} learners" in http.get(f"/training?learner={first}&q=other+7").text


def test_curves_are_loaded_per_chart_and_then_incrementally(http: TestClient, scene: Scene) -> None:
    beat(scene, 64, METRICS)
    told = http.get(f"/training/{scene.learner.id}/curves").json()
    assert told["steps"] == [64]
    assert told["charts"]["entropy"] == [{"label": "fire", "values": [0.25]}, {"label": "move", "values": [0.5]}]
    assert [line["label"] for line in told["charts"]["win_rate"]] == ["all", "pfsp"]
    assert told["charts"]["kl"] == [{"label": "KL", "values": [None]}]
    assert told["charts"].keys() == {chart.key for chart in charts.CHARTS if not chart.more}
    more = http.get(f"/training/{scene.learner.id}/curves?more=true").json()
    assert more["charts"].keys() == {chart.key for chart in charts.CHARTS}
    assert more["charts"]["head_kl"] == [{"label": "fire", "values": [0.1]}]
    beat(scene, 128, METRICS)
    fresh = http.get(f"/training/{scene.learner.id}/curves?after={told['last']}").json()
    assert fresh["steps"] == [128]


def second_learner(scene: Scene) -> wire.Learner:
    request = wire.LearnerCreate(name="second", role="main", environment="rps", signature="rps-1")
    return scene.client.register_learner(request)


def test_curves_of_several_learners_share_the_charts(http: TestClient, scene: Scene) -> None:
    first, second = scene.learner.id, second_learner(scene).id
    page = http.get(f"/training?learner={first}&compare={second}&x=hours&smooth=0.5&log=true").text
    for learner in (first, second):
        assert f'data-learner="/training/{learner}/curves"' in page
    alone = f"/training?learner={first}&amp;x=hours&amp;smooth=0.5&amp;log=True"
    assert f'href="{alone}" aria-label="Remove second"' in page
    assert f"/training/curves.csv?learner={first}&amp;learner={second}" in page
    assert http.get(f"/training?compare={first + 1000}").status_code == 404
    assert http.get("/training?smooth=1").status_code == 422


def test_at_most_six_learners_are_compared(http: TestClient, scene: Scene) -> None:
    asked = "&".join(f"compare={number}" for number in range(1, 8))
    answer = http.get(f"/training?{asked}")
    assert answer.status_code == 422
    assert "7 learners" in answer.text


def test_curves_are_downloaded_as_csv(http: TestClient, scene: Scene) -> None:
    second = second_learner(scene)
    beat(scene, 64, METRICS)
    progress = wire.LearnerProgress(learner_id=second.id, step=32, metrics={"charts/SPS": 2.0})
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    answer = http.get("/training/curves.csv", params={"learner": [scene.learner.id, second.id]})
    assert "curves.csv" in answer.headers["content-disposition"]
    main, other = csv.DictReader(answer.text.splitlines())
    assert [main[name] for name in ("learner", "step", "charts/SPS", "losses/approx_kl")] == [
        "main",
        "64",
        "12345.6",
        "",
    ]
    assert [other[name] for name in ("learner", "step", "charts/SPS", "charts/score")] == ["second", "32", "2.0", ""]
    assert http.get("/training/curves.csv").status_code == 422


def test_metric_group_pattern_accepts_one_segment() -> None:
    chart = charts.Chart("c", "C", "", {"heads/*/entropy": "*", "exact": "exactly"})
    metrics = {"heads/a/entropy": [1.0], "heads/a/b/entropy": [2.0], "exact": [3.0], "exact/more": [4.0]}
    assert charts.lines_of(chart, metrics) == [charts.Line("a", [1.0]), charts.Line("exactly", [3.0])]


def test_training_page_shows_played_beside_planned_shares(scene: Scene, database: Database, configure: Any) -> None:
    for step in (1, 2):
        scene.publish(step)
    scene.train(6, learner_score=0.25)
    settings: Settings = configure()
    with database.read() as session:
        met = opponent_mix.get_opponent_mix(session, settings, PopulationCache(), scene.learner.player_id, 100)
    assert met.matches == 6
    assert sum(each.now for each in met.opponents) == pytest.approx(1.0)
    assert sum(each.recent.matches for each in met.opponents) == 6
    assert sum(each.share or 0.0 for each in met.branches) == pytest.approx(1.0)
    assert {each.recent.score for each in met.opponents if each.recent.matches} == {0.25}
    assert [each.now for each in met.opponents] == sorted((each.now for each in met.opponents), reverse=True)


def test_the_page_shows_both_sides_of_the_draw(http: TestClient, scene: Scene) -> None:
    scene.publish(1)
    scene.train(4)
    page = http.get("/training").text
    assert "the last 4 reported matches" in page
    assert ">self-play<" in page
    assert "environments of its own" not in page


def test_local_self_play_is_shown_apart_from_leased_matches(http: TestClient, scene: Scene) -> None:
    scene.publish(1)
    beat(scene, 64, METRICS | {"charts/episodes": 40.0, "charts/self_play_episodes": 30.0})
    page = http.get("/training/opposition").text
    assert "not reported: 30 of 40 matches, 75.0 %" in page
    assert ">self-play<" not in page
