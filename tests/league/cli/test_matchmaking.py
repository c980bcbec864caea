"""Whom a learner meets next, and why, in a terminal."""

import json
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from league_command import Run
from league_scene import Scene
from refused import assert_names

from arena.matchmaking import MatchmakingConfig
from league import wire
from league.cli import connection
from league.client import LeagueClient

Serve = Callable[..., TestClient]


def line(output: str, start: str) -> str:
    return next(each for each in output.splitlines() if each.strip().startswith(start))


def test_the_next_opponents_are_shown_with_their_chances_and_the_rule(
    online: Run, scene: Scene, snapshot: wire.Player
) -> None:
    outcome = online("learner", "opponents", scene.learner.name)
    assert outcome.code == 0
    preview = scene.client.preview(scene.learner.player_id)
    for item in preview.items:
        shown = line(outcome.out, f"{item.player_id} ")
        assert item.name in shown
        assert f"{100 * (item.propensity or 0):.1f} %" in shown
        assert f"{100 * (item.win_rate or 0):.1f} %" in shown
    for branch in preview.branches:
        shown = line(outcome.out, branch.name)
        assert f"{100 * branch.share:.1f} %" in shown
        assert branch.rule in shown
    assert line(outcome.out, "frozen").split()[1:3] == ["1", str(scene.learner.player_id)]


def test_long_opponent_list_is_truncated_with_a_count(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    preview = scene.client.preview(scene.learner.player_id)
    least = min(item.propensity or 0 for item in preview.items)
    outcome = online("learner", "opponents", scene.learner.player_id, "--limit", len(preview.items) - 1)
    assert f"and 1 more, {100 * least:.1f} % together; --limit {len(preview.items)} shows all" in outcome.out


def test_lease_command_shows_state_and_explanation(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    match = scene.client.matches(snapshot.id).items[0]
    told = scene.client.explain_lease(match.lease_id)
    outcome = online("match", "lease", match.lease_id)
    assert outcome.code == 0
    assert "played, 1 of 1 matches reported" in outcome.out
    assert line(outcome.out, "branch").split(maxsplit=1)[1].startswith(f"{told.branch}: {told.lease.reason[:40]}")
    assert f"{match.home.name} (home) against {match.away.name} (away)" in outcome.out


def test_json_output_equals_the_server_response(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    preview = scene.client.preview(scene.learner.player_id)
    assert json.loads(online("learner", "opponents", scene.learner.player_id, "--json").out) == preview.model_dump(
        mode="json"
    )
    (lease,) = scene.lease(1)
    told = scene.client.explain_lease(lease.lease_id)
    assert json.loads(online("match", "lease", lease.lease_id, "--json").out) == told.model_dump(mode="json")


def test_unknown_learner_or_lease_is_a_one_line_error(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    refused = online("learner", "opponents", snapshot.id)
    assert refused.code == 2
    assert_names(refused.one_line_error, snapshot.id, "league players --kind learner")
    unknown = online("match", "lease", "nothing")
    assert unknown.code == 1
    assert_names(unknown.err, "nothing")


def test_rule_inputs_are_shown_as_columns(command: Run, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    http = serve(matchmaking=MatchmakingConfig(mixture=(("nash", 1.0), ("forgotten", 1.0)), warm_up_games=0))
    monkeypatch.setattr(connection, "LeagueClient", lambda _url, token, timeout_s: LeagueClient(http=http, token=token))
    scene = Scene(LeagueClient(http=http))
    scene.publish(1)
    scene.train(8)
    scene.client.close_period()
    outcome = command("learner", "opponents", scene.learner.name)
    for item in scene.client.preview(scene.learner.player_id).items:
        shown = line(outcome.out, f"{item.player_id} ")
        for record in (item.among, item.earlier, item.recent):
            assert record is not None
            assert f"{100 * record.score:.1f} % of {record.matches}" in shown
