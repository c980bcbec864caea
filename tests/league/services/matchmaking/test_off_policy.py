"""What another rule would have done with the games that were played: equal to that rule's own distributions."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from league_scene import ON_SQLITE, Scene, result, seen_from_home
from sqlalchemy import text

from arena.matchmaking import MatchmakingConfig
from arena.off_policy import LoggedDraws
from arena.off_policy import evaluate as evaluate_draws
from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import InvalidRequestError, UnknownPlayerError

Serve = Callable[..., TestClient]
Drawn = list[tuple[wire.Lease, float]]


def start(serve: Serve, weighting: str, **changes: Any) -> LeagueClient:
    config = MatchmakingConfig(weighting=weighting, warm_up_games=0, **changes)
    return LeagueClient(http=serve(matchmaking=config))


def opponent_of(scene: Scene, lease: wire.Lease) -> int:
    home, away = lease.home.player_id, lease.away.player_id
    return away if lease.learner_side == "home" else home


def play(scene: Scene, count: int, strength: dict[int, float]) -> Drawn:
    """Lease, and report two matches of every lease; the learner scores by the opponent."""
    drawn = [(lease, strength.get(opponent_of(scene, lease), 0.5)) for lease in scene.lease(count, budget=2)]
    scene.report(
        *(result(lease, number, seen_from_home(lease, score)) for lease, score in drawn for number in range(2))
    )
    return drawn


@pytest.fixture
def scene(serve: Serve) -> Scene:
    """A learner that lost to one of three snapshots of late, and draws everybody alike."""
    scene = Scene(start(serve, "uniform"))
    snapshots = [scene.publish(step) for step in range(3)]
    play(scene, 48, {snapshot.id: 1.0 for snapshot in snapshots})
    scene.evaluate(8, winner=snapshots[1].id)
    scene.client.close_period()
    play(scene, 48, {snapshot.id: float(snapshot is not snapshots[0]) for snapshot in snapshots})
    scene.client.close_period()
    return scene


@pytest.mark.parametrize("rule", ["hard", "skill", "nash", "forgotten"])
def test_a_rule_is_evaluated_by_what_it_would_have_drawn_from(scene: Scene, serve: Serve, time: Any, rule: str) -> None:
    time.advance(60)
    learner = scene.learner.player_id
    lost_to = next(item.player_id for item in scene.client.preview(learner).items if (item.win_rate or 0) < 0.6)
    logged = scene.client.preview(learner)
    drawn = play(scene, 40, {lost_to: 0.25})
    target = start(serve, rule).preview(learner)
    found = scene.client.evaluate_matchmaking(learner, rule, since=time.now)

    players = [*(item.player_id for item in target.items), learner]
    chances = [
        np.array([*(item.propensity or 0.0 for item in each.items), each.self_play]) for each in (logged, target)
    ]
    expected = evaluate_draws(
        LoggedDraws(
            *(each[None, :] / each.sum() for each in chances),
            distribution=np.zeros(len(drawn), dtype=np.int64),
            option=np.array([players.index(opponent_of(scene, lease)) for lease, _ in drawn]),
            score=np.array([score for _, score in drawn]),
        )
    )
    assert (found.leases, found.draws, found.matches, found.unplayed, found.unknown) == (40, 40, 80, 0, 0)
    shares = {each.player_id: (each.logged, each.target) for each in found.shares}
    for player, was, would_be in zip(players, expected.logged_shares, expected.target_shares, strict=True):
        assert shares[player] == pytest.approx((was, would_be), abs=2e-4)  # win rates are stored to four digits
    assert [each.target for each in found.shares] == sorted((each.target for each in found.shares), reverse=True)
    assert found.score is not None
    for estimate, same in (
        (found.logged_score, expected.logged_score),
        (found.score, expected.self_normalised),
        (found.weighted, expected.weighted),
    ):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(
            (same.value, same.low, same.high), abs=1e-3
        )
    assert found.effective_draws == pytest.approx(expected.effective_draws, rel=1e-3)
    assert found.too_few
    assert found.uncovered == 0.0


@ON_SQLITE
def test_the_rule_that_was_in_force_keeps_every_draw(scene: Scene) -> None:
    found = scene.client.evaluate_matchmaking(scene.learner.player_id, "uniform")
    assert found.draws == found.leases == 96
    assert found.effective_draws == pytest.approx(96)
    assert found.score is not None
    assert found.score.value == pytest.approx(found.logged_score.value)
    assert not found.too_few
    assert all(each.logged == pytest.approx(each.target) for each in found.shares)


@ON_SQLITE
def test_a_league_that_balances_learners_would_have_drawn_so(scene: Scene, serve: Serve) -> None:
    learner = scene.learner.player_id
    found = start(serve, "uniform", balance="learners").evaluate_matchmaking(learner, "uniform")
    shares = {each.name: (each.logged, each.target) for each in found.shares if each.player_id != learner}
    alone, balanced = shares.pop(scene.baseline().name)
    pfsp = 4 * alone
    assert balanced == pytest.approx(pfsp / 2)
    assert len(shares) == 3
    for logged, target in shares.values():
        assert target - logged == pytest.approx(pfsp / 6 - pfsp / 4)


def test_only_the_leases_that_are_asked_for_and_were_played_count(scene: Scene, time: Any) -> None:
    learner = scene.learner.player_id
    time.advance(60)
    play(scene, 10, {})
    scene.lease(3)
    assert scene.client.evaluate_matchmaking(learner, "hard", last=8).leases == 8
    late = scene.client.evaluate_matchmaking(learner, "hard", since=time.now)
    assert (late.leases, late.draws, late.unplayed) == (13, 10, 3)
    earlier = scene.client.evaluate_matchmaking(learner, "hard", since=time.now - timedelta(hours=1))
    assert (earlier.leases, earlier.draws) == (109, 106)


def test_results_of_a_quarantined_worker_do_not_count(scene: Scene, time: Any) -> None:
    learner = scene.learner.player_id
    time.advance(60)
    play(scene, 10, {})
    scene.client.quarantine_worker(scene.trainer.id, time.now, "broken")
    found = scene.client.evaluate_matchmaking(learner, "hard")
    assert (found.draws, found.unplayed) == (96, 10)


def test_draws_that_are_forgotten_are_counted_as_unknown(scene: Scene, database: Database, time: Any) -> None:
    with database.write() as session:
        session.execute(text("UPDATE draws SET pruned_at = created_at"))
    time.advance(60)
    scene.publish(9)
    play(scene, 10, {})
    found = scene.client.evaluate_matchmaking(scene.learner.player_id, "hard")
    assert (found.leases, found.draws, found.unknown) == (106, 10, 96)


@ON_SQLITE
def test_what_cannot_be_evaluated_is_said(scene: Scene) -> None:
    learner, baseline = scene.learner.player_id, scene.baseline().id
    ask = scene.client.evaluate_matchmaking
    with pytest.raises(InvalidRequestError, match=r"rule 'best': .*choose one of hard, .*docs/matchmaking\.md"):
        ask(learner, "best")
    with pytest.raises(InvalidRequestError, match=r"is a baseline; opponents are drawn for learners"):
        ask(baseline, "hard")
    with pytest.raises(UnknownPlayerError, match="9999"):
        ask(9999, "hard")
    with pytest.raises(InvalidRequestError, match="last"):
        ask(learner, "hard", last=1)
    rival = scene.client.learner(
        wire.LearnerCreate(name="rival", role="main", environment=scene.environment, signature=scene.signature)
    )
    with pytest.raises(
        InvalidRequestError, match=r"0 leases were looked at, 0 of them played.*takes two that are; let the"
    ):
        ask(rival.player_id, "hard")
