"""Rules of matchmaking on a running server: what each looks at, what it then draws, and what is shown of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from installed_rules import brought
from league_scene import ON_SQLITE, Scene, result, safetensors, seen_from_home, sha256
from refused import assert_names, refused
from sqlalchemy import event

from arena.evaluation.nash_averaging import max_entropy_nash
from arena.matchmaking import MatchmakingConfig
from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.services.matchmaking import leases, pfsp
from league.services.population.cache import PopulationCache

Serve = Callable[..., TestClient]

OWN = '''
def nemesis(candidates):
    """Only whom the learner loses to most."""
    return candidates.win_rates == candidates.win_rates.min()

def learned(candidates):
    """Whom the others lose to, and the learner met."""
    return candidates.between.mean(axis=1) * (candidates.pasts.earlier.games + candidates.pasts.recent.games)

def broken(candidates):
    return candidates.ratings / candidates.nothing
'''


@pytest.fixture
def own_rules(tmp_path: Path) -> Iterator[None]:
    folder = tmp_path / "rules"
    folder.mkdir()
    with brought(folder, OWN, "nemesis", "learned", "broken", "gone"):
        yield


def by_rule(serve: Serve, name: str, **changes: object) -> Scene:
    """A league whose learners' opponents are drawn by one rule, without warm-up and without a uniform share."""
    config = MatchmakingConfig(weighting=name, warm_up_games=0, uniform_share=0.0, **changes)  # type: ignore[arg-type]
    return Scene(LeagueClient(http=serve(matchmaking=config)))


def play_in_a_circle(scene: Scene, snapshots: list[wire.Player]) -> None:
    """Each snapshot beats the next one, and everybody beats the baseline."""
    ids = [snapshot.id for snapshot in snapshots]
    leases = scene.rating_leases(24)
    beats = set(zip(ids, ids[1:] + ids[:1], strict=True)) | {(player, scene.baseline().id) for player in ids}
    scores = [float((lease.home.player_id, lease.away.player_id) in beats) for lease in leases]
    finished = [result(lease, score=score) for lease, score in zip(leases, scores, strict=True)]
    scene.report(*finished, worker=scene.evaluator)
    scene.client.close_period()


def play_the_learner(scene: Scene, *, times: int, score: Callable[[int], float], step: int = 7) -> None:
    """Play the learner, come to a step, against everybody; `score` says what it scores against whom."""
    for _ in range(times):
        leases = scene.lease(16, self_play=False)
        scores = [seen_from_home(each, score(_opponent(scene, each))) for each in leases]
        scene.report(*(result(each, score=home, learner_step=step) for each, home in zip(leases, scores, strict=True)))
    scene.client.close_period()


def _opponent(scene: Scene, lease: wire.Lease) -> int:
    at_home = lease.home.player_id == scene.learner.player_id
    return lease.away.player_id if at_home else lease.home.player_id


def weights(preview: wire.Preview) -> dict[int, float]:
    return {item.player_id: item.weights["pfsp"] for item in preview.items}


def test_nash_rule_uses_results_among_the_opponents(serve: Serve) -> None:
    scene = by_rule(serve, "nash")
    snapshots = [scene.publish(step) for step in range(3)]
    play_in_a_circle(scene, snapshots)
    preview = scene.client.preview(scene.learner.player_id)
    table = scene.client.payoff()
    places = [[each.player_id for each in table.players].index(item.player_id) for item in preview.items]
    win_rates = np.array(table.win_rates)[np.ix_(places, places)]
    assert list(weights(preview).values()) == pytest.approx(max_entropy_nash(win_rates), abs=1e-6)
    shown = {item.player_id: item.among for item in preview.items}
    for place, item in enumerate(preview.items):
        among = shown[item.player_id]
        assert among is not None
        assert among.matches == np.delete(np.array(table.counts)[places[place], places], place).sum()
        assert among.score == pytest.approx(win_rates[place].mean(), abs=1e-4)
    (lease,) = scene.lease(1, self_play=False)
    told = scene.client.explain_lease(lease.lease_id)
    assert {item.player_id: item.among for item in told.items} == shown


def test_forgotten_rule_draws_opponents_the_learner_used_to_beat(serve: Serve) -> None:
    scene = by_rule(serve, "forgotten")
    lost, kept = scene.publish(1), scene.publish(2)
    play_the_learner(scene, times=6, score=lambda _: 1.0)
    before = scene.client.preview(scene.learner.player_id)
    assert list(weights(before).values()) == pytest.approx([1 / 3] * 3)
    play_the_learner(scene, times=6, score=lambda opponent: float(opponent != lost.id))
    preview = scene.client.preview(scene.learner.player_id)
    assert weights(preview) == {scene.baseline().id: 0.0, lost.id: 1.0, kept.id: 0.0}
    (won,) = [item.games for item in before.items if item.player_id == lost.id]
    (shown,) = [item for item in preview.items if item.player_id == lost.id]
    older = shown.games // 2
    newer = shown.games - older
    assert shown.earlier == wire.Record(matches=older, score=round(min(won, older) / older, 4))
    assert shown.recent == wire.Record(matches=newer, score=round(max(won - older, 0) / newer, 4))


@ON_SQLITE
def test_matches_before_a_reset_are_not_part_of_the_past(
    serve: Serve,
) -> None:
    scene = by_rule(serve, "forgotten")
    numbers = wire.RoleNumbers(snapshot_steps=5, snapshot_limit=10, reset=1.0)
    learner = wire.LearnerCreate(
        name="main", role="main", environment=scene.environment, signature=scene.signature, rules=numbers
    )
    scene.client.register_learner(learner)
    play_the_learner(scene, times=6, score=lambda _: 1.0)
    asked = wire.LearnerProgress(learner_id=scene.learner.id, step=10, since_step=0)
    (due,) = scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[asked])).decisions
    assert due.reset
    data = safetensors(10, signature=scene.signature)
    scene.client.upload(data, sha256(data))
    scene.client.publish(wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(data), step=10, since_step=0))
    play_the_learner(scene, times=6, score=lambda _: 0.0, step=10)
    (shown, _) = scene.client.preview(scene.learner.player_id).items
    assert shown.recent == wire.Record(matches=(shown.games + 1) // 2, score=0.0)
    assert shown.earlier == wire.Record(matches=shown.games // 2, score=0.0)


@ON_SQLITE
def test_past_window_follows_the_setting(serve: Serve) -> None:
    scene = by_rule(serve, "forgotten", past_games=12)
    play_the_learner(scene, times=1, score=lambda _: 1.0)
    (shown,) = scene.client.preview(scene.learner.player_id).items
    assert shown.games == 16
    assert shown.earlier == shown.recent == wire.Record(matches=6, score=1.0)


@pytest.mark.usefixtures("own_rules")
def test_installed_rule_is_used_and_explained(serve: Serve) -> None:
    scene = by_rule(serve, "nemesis")
    nemesis, _ = scene.publish(1), scene.publish(2)
    play_the_learner(scene, times=1, score=lambda opponent: float(opponent != nemesis.id))
    leases = scene.lease(8, self_play=False)
    assert {_opponent(scene, lease) for lease in leases} == {nemesis.id}
    by_it = next(lease for lease in leases if lease.branch == "pfsp")
    told = scene.client.explain_lease(by_it.lease_id)
    assert told.lease.reason == "Only whom the learner loses to most"
    assert told.propensity == 1.0


@ON_SQLITE
@pytest.mark.usefixtures("own_rules")
def test_installed_rule_can_use_all_inputs(serve: Serve) -> None:
    scene = by_rule(serve, "learned")
    snapshots = [scene.publish(step) for step in range(2)]
    play_the_learner(scene, times=1, score=lambda opponent: float(opponent != snapshots[0].id))
    preview = scene.client.preview(scene.learner.player_id)
    expected = [item.among.score * item.games for item in preview.items if item.among]
    assert list(weights(preview).values()) == pytest.approx(np.array(expected) / sum(expected), abs=1e-3)


@ON_SQLITE
@pytest.mark.usefixtures("own_rules")
@pytest.mark.parametrize(
    ("name", "value"),
    [("nobody", "nemesis"), ("gone", "stranger_rules:gone")],
)
def test_a_rule_that_cannot_be_had_is_refused_at_start(
    configure: Callable[..., object], monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("LEAGUE_MATCHMAKING__WEIGHTING", name)
    with refused("configuration", f"LEAGUE_MATCHMAKING__WEIGHTING={name}", value):
        configure()


@ON_SQLITE
@pytest.mark.usefixtures("own_rules")
def test_failing_rule_falls_back_to_the_default(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    scene = by_rule(serve, "broken")
    scene.publish(1)
    (lease,) = scene.lease(1)
    told = scene.client.explain_lease(lease.lease_id)
    (failed,) = (each for each in told.filters if each.name == "failed rule")
    assert failed.rule.startswith("rule 'broken' failed: AttributeError: ")
    assert failed.rule.endswith("'nothing'; using 'hard' instead")
    sound = by_rule(serve, "hard").client.preview(scene.learner.player_id)
    shown = scene.client.preview(scene.learner.player_id)
    assert shown.branches == sound.branches
    assert [item.weights for item in shown.items] == [item.weights for item in sound.items]
    (logged,) = (record.getMessage() for record in caplog.records if record.name == pfsp.__name__)
    assert "rule 'broken' failed" in logged
    assert_names(logged, "LEAGUE_MATCHMAKING__WEIGHTING")


@ON_SQLITE
def test_rules_that_do_not_need_it_read_neither_the_opponents_results_nor_the_past(
    serve: Serve, configure: Callable[..., object], database: Database
) -> None:
    scene = by_rule(serve, "hard")
    scene.publish(1)
    play_the_learner(scene, times=1, score=lambda _: 1.0)
    assert _reads(configure, database, scene, "hard") == 0
    assert _reads(configure, database, scene, "forgotten") > 0
    shown = scene.client.preview(scene.learner.player_id).items
    assert [(item.among, item.earlier, item.recent) for item in shown] == 2 * [(None, None, None)]


def _reads(configure: Callable[..., object], database: Database, scene: Scene, rule: str) -> int:
    """Count the queries for matches that one distribution takes."""
    settings = configure(matchmaking=MatchmakingConfig(weighting=rule, warm_up_games=0))
    asked: list[str] = []
    with database.read() as session:
        bind = session.get_bind()
        event.listen(bind, "before_cursor_execute", lambda *call: asked.append(call[2]))
        population = PopulationCache().of_player(session, scene.learner.player_id)
        leases.distribution_of(session, population, settings, scene.learner.player_id)  # type: ignore[arg-type]
    return sum("FROM matches" in statement for statement in asked)
