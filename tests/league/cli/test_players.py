"""Looking at the population and changing standings, against a server."""

import json

import pytest
from league_command import Run
from league_scene import Scene
from pydantic import ValidationError
from refused import assert_names

from league import wire
from league.cli import lifecycle
from league.client import LeagueClient


def test_standings_show_rank_rating_with_two_deviations_games_and_win_rate(
    online: Run, scene: Scene, snapshot: wire.Player
) -> None:
    outcome = online("standings")
    assert outcome.code == 0
    first = scene.client.standings(scene.environment).items[0]
    row = next(line for line in outcome.out.splitlines() if line.strip().startswith("1 "))
    for shown in (first.name, first.kind, f"{first.rating:.0f} ± {2 * first.deviation:.0f}", str(first.games)):
        assert shown in row


def test_show_prints_why_a_candidate_is_not_promoted_yet(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    reason = scene.client.player(snapshot.id).promotion_status
    assert reason is not None
    for key in (snapshot.id, snapshot.name):
        (line,) = [line for line in online("show", key).out.splitlines() if line.startswith("not promoted yet")]
        assert reason in line
    assert "not promoted yet" not in online("show", scene.baseline().id).out


@pytest.mark.parametrize("table", ["standings", "players"])
def test_tables_mark_and_explain_provisional_ratings(
    online: Run, scene: Scene, snapshot: wire.Player, table: str
) -> None:
    lines = online(table).out.splitlines()
    assert [line for line in lines if "?" in line and snapshot.name not in line] == [
        "?: provisional, the interval is still too wide for a promotion; rating matches narrow it"
    ]
    shown = scene.client.player(snapshot.id)
    marked = f"{shown.rating:.0f} ± {2 * shown.deviation:.0f}?"
    assert [marked in line for line in lines if snapshot.name in line] == [True]
    assert "?" not in online("players", "--kind", "baseline").out


def test_json_output_equals_the_server_response(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    sent = scene.client.standings(scene.environment)
    assert json.loads(online("standings", "--json").out) == sent.model_dump(mode="json")
    listed = json.loads(online("players", "--kind", "snapshot", "--json").out)
    assert [player["id"] for player in listed["items"]] == [snapshot.id]


def test_long_list_prints_the_next_cursor(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    everyone = json.loads(online("players", "--json").out)["items"]
    seen: list[int] = []
    cursor: list[str] = []
    for _ in everyone:
        page = online("players", "--limit", 1, *cursor)
        seen.append(int(page.out.splitlines()[2].split()[0]))  # below the game and the headings
        if "--cursor" not in page.out:
            break
        cursor = ["--cursor", page.out.split("--cursor")[1].strip()]
    assert seen == [player["id"] for player in everyone]


def test_a_player_is_shown_by_id_and_by_name_with_curve_and_matches(
    online: Run, scene: Scene, snapshot: wire.Player
) -> None:
    by_id, by_name = online("show", snapshot.id), online("show", snapshot.name)
    assert by_id.out == by_name.out
    assert snapshot.name in by_id.out
    assert "rating periods" in by_id.out
    shown = json.loads(online("show", snapshot.id, "--json").out)
    assert shown["player"]["id"] == snapshot.id
    assert [point["number"] for point in shown["ratings"]] == [1]
    assert len(shown["matches"]) == len(scene.client.matches(snapshot.id, limit=10).items) > 0


def test_an_external_player_that_nothing_is_known_by_is_shown_without_an_identity(
    online: Run, scene: Scene, snapshot: wire.Player
) -> None:
    told = {"environment": snapshot.environment, "signature": snapshot.signature}
    scene.client.register_external(wire.ExternalCreate(name="known", identity="bot 2", **told))
    scene.client.register_external(wire.ExternalCreate(name="unknown", metadata={"form": "python"}, **told))
    assert ["identity", "bot", "2"] in [line.split() for line in online("show", "known").out.splitlines()]
    unknown = online("show", "unknown").out
    assert ["form", "python"] in [line.split() for line in unknown.splitlines()]
    assert "identity" not in unknown


def test_standings_as_of_a_period_are_those_of_then(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    first = scene.client.periods(scene.environment).items[0].id
    before = online("standings", "--as-of", first, "--json").out
    scene.evaluate(count=4, winner=scene.baseline().id)
    scene.client.close_period(scene.environment)
    assert online("standings", "--as-of", first, "--json").out == before
    assert online("standings", "--json").out != before


def test_a_promoted_player_answers_to_its_call_sign(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    promoted = online("promote", snapshot.name, "--reason", "by a person")
    assert promoted.code == 0
    assert promoted.out.strip().endswith("candidate -> commander")
    call_sign = scene.client.player(snapshot.id).call_sign
    assert call_sign
    assert json.loads(online("show", call_sign, "--json").out)["player"]["id"] == snapshot.id


def test_every_change_of_standing_has_a_command(online: Run, snapshot: wire.Player) -> None:
    for word, standing in (
        ("promote", "commander"),
        ("retire", "retired"),
        ("reinstate", "candidate"),
        ("quarantine", "quarantined"),
    ):
        assert json.loads(online(word, snapshot.id, "--reason", "a test", "--json").out)["standing"] == standing


def test_reports_of_a_player_are_shown_and_dismissed(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    seated = (each for each in scene.rating_leases(64) if snapshot.id in (each.home.player_id, each.away.player_id))
    lease = next(seated)
    named = [wire.UnplayablePlayer(player_id=snapshot.id, reason="damaged weights")]
    scene.client.release(
        wire.ReleaseRequest(worker_id=scene.evaluator.id, lease_ids=[lease.lease_id], unplayable=named)
    )
    page = online("show", snapshot.id).out
    for word in ("reported as unplayable", scene.evaluator.name, "open", "damaged weights"):
        assert word in page
    (shown,) = json.loads(online("show", snapshot.id, "--json").out)["reports"]
    assert (shown["worker_id"], shown["token"], shown["resolution"]) == (scene.evaluator.id, None, None)
    assert (
        "1 dismissed; flagged tokens: none"
        in online("player", "dismiss-reports", snapshot.id, "--reason", "it plays").out
    )
    assert_names(online("player", "dismiss-reports", snapshot.id).one_line_error, snapshot.id)
    assert "reported as unplayable" not in online("show", scene.baseline().id).out


def test_a_change_that_the_standing_does_not_allow_is_one_line(online: Run, snapshot: wire.Player) -> None:
    online("promote", snapshot.id)
    outcome = online("promote", snapshot.id)
    assert outcome.code == 1
    assert "commander" in outcome.one_line_error


@pytest.mark.parametrize(
    "words", [("promote",), ("promote", "--champion"), ("retire",), ("gate", "open"), ("gate", "cancel")]
)
def test_unencodable_argument_is_a_one_line_error(
    online: Run, scene: Scene, snapshot: wire.Player, words: tuple[str, ...]
) -> None:
    other = [scene.publish(2000).id] if words == ("gate", "open") else []
    error = online(*words, snapshot.id, *other, "--reason", "x" * 501).one_line_error
    assert error.startswith("league: invalid request reason='xxx")
    assert "at most 500 characters; see `league COMMAND --help`" in error


def test_a_defect_is_no_bad_request(online: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeagueClient, "learners", lambda *_, **__: wire.Learner.model_validate({}))
    with pytest.raises(ValidationError):
        online("learner", "list")


@pytest.mark.parametrize("who", ["999999", "nobody"])
def test_an_unknown_player_is_one_line(online: Run, snapshot: wire.Player, who: str) -> None:
    outcome = online("show", who)
    assert outcome.code == 1
    assert f"unknown player {who}" in outcome.one_line_error


def test_a_name_that_two_players_have_asks_for_an_id(online: Run, scene: Scene) -> None:
    other = Scene(scene.client, environment="recall", signature="recall-1")
    outcome = online("show", "main")
    assert outcome.code == 1
    for learner in (scene.learner, other.learner):
        assert str(learner.player_id) in outcome.one_line_error


def test_several_environments_ask_for_a_name(online: Run, scene: Scene) -> None:
    Scene(scene.client, environment="recall", signature="recall-1")
    outcome = online("standings")
    assert outcome.code == 2
    assert "recall, rps" in outcome.one_line_error
    assert online("standings", "--environment", "recall").code == 0


def test_league_without_learners_prints_a_hint(online: Run) -> None:
    assert "trainer run" in online("standings").one_line_error


def test_unreachable_league_error_names_the_start_command(command: Run) -> None:
    outcome = command("players", "--url", "http://127.0.0.1:9")
    assert outcome.code == 75
    assert "league serve" in outcome.one_line_error


def test_an_address_without_a_scheme_is_bad_usage(command: Run) -> None:
    assert command("players", "--url", "somewhere").code == 2


def test_closing_a_period_rates_new_matches(online: Run, scene: Scene) -> None:
    scene.publish(step=1000)
    scene.train(count=2)
    outcome = online("close-period", "--json", "--reason", "lunch")
    assert json.loads(outcome.out)["matches"] == 2
    line = online("close-period").out
    assert line.count("closed") == 1
    assert "rating period 2 closed" in line


def test_period_is_listed_with_the_id_for_as_of(online: Run, scene: Scene) -> None:
    other = Scene(scene.client, environment="recall")
    scene.client.close_period(scene.environment)
    other.train(count=1)
    assert "rating period 1 (id 2) closed" in online("close-period", "--environment", "recall").out
    curve = online("show", other.learner.player_id).out.split("rating periods")[1]
    assert curve.splitlines()[2].split()[0] == "2"
    assert online("standings", "--environment", "recall", "--as-of", 2).code == 0


def test_a_champion_is_made_shown_and_remembered(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    assert "no champion of rps" in online("environment", "champion").one_line_error
    assert "champion" not in online("standings").out
    made = online("promote", snapshot.id, "--champion", "--reason", "beats everybody")
    call_sign = scene.client.player(snapshot.id).call_sign
    assert made.out.startswith(f"champion of rps: none -> {call_sign}")
    assert f"champion of rps: {call_sign}" in online("environment", "champion").out
    assert f"champion of rps: {call_sign}" in online("standings").out
    row = online("environment", "champion", "--history").out.splitlines()[1]
    for shown in ("1", call_sign, str(snapshot.id), "open", "beats everybody"):
        assert str(shown) in row
    assert json.loads(online("environment", "champion", "--json").out)["player"]["id"] == snapshot.id
    assert json.loads(online("environment", "champion", "--history", "--json").out)["items"][0]["number"] == 1
    assert "the champion is" in online("promote", snapshot.id, "--champion").one_line_error
    left = online("retire", snapshot.id).out.splitlines()
    assert left[1].startswith(f"champion of rps: {call_sign}")
    assert left[1].endswith(" -> none")


def test_a_standing_that_changed_since_it_was_looked_at_is_not_changed(
    online: Run, scene: Scene, snapshot: wire.Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = LeagueClient.player

    def look_then_lose_the_race(client: LeagueClient, who: str) -> wire.Player:
        before: wire.Player = look(client, who)
        scene.client.promote(before.id)
        return before

    monkeypatch.setattr(LeagueClient, "player", look_then_lose_the_race)
    outcome = online("retire", snapshot.id)
    assert "it is commander, not candidate as expected" in outcome.one_line_error
    assert look(scene.client, snapshot.id).standing == "commander"


def test_log_command_lists_actor_action_and_subject(online: Run, scene: Scene, snapshot: wire.Player) -> None:
    online("promote", snapshot.id, "--reason", "beats everybody")
    environment, _, *rows = online("admin", "log", snapshot.id).out.splitlines()
    assert environment.strip() == "rps"
    assert len(rows) == 1
    for shown in ("promote", f"player {snapshot.id}", "open", "beats everybody", "from candidate, to commander"):
        assert shown in rows[0]
    assert "period" not in online("admin", "log").out
    assert "period" in online("admin", "log", "--periods").out
    assert (
        json.loads(online("admin", "log", "--kind", "promote", "--json").out)["items"][0]["reason"] == "beats everybody"
    )
    assert "unknown player nobody" in online("admin", "log", "nobody").one_line_error


def test_empty_output_names_the_next_command(online: Run, scene: Scene) -> None:
    for arguments, value in (
        (("standings", "--standing", "commander"), "league players"),
        (("players", "--standing", "commander"), "trainer run"),
        (("environment", "champion", "--history"), "league promote PLAYER --champion"),
        (
            (
                "admin",
                "log",
            ),
            "--periods",
        ),
        (
            (
                "player",
                "superiority",
            ),
            "trainer evaluate",
        ),
    ):
        outcome = online(*arguments)
        assert (outcome.code, len(outcome.out.splitlines())) == (0, 1)
        assert_names(outcome.out, value)
    shown = online("show", scene.learner.player_id).out
    assert_names(shown, "league close-period")
    assert "latest matches: none yet; " in shown
    assert "latest changes: none" in shown


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("show", 99), "league players"),
        (("learner", "opponents", 99), "league players"),
        (("standings", "--as-of", 99), "league admin log --periods"),
        (("match", "lease", "nothing"), "league show PLAYER --json"),
        (("players", "--cursor", "x"), "league COMMAND --help"),
    ],
)
def test_error_remedy_is_a_command_not_an_http_call(
    online: Run, scene: Scene, arguments: tuple[object, ...], remedy: str
) -> None:
    _, _, last = online(*arguments).one_line_error.rpartition(";")
    assert_names(last, remedy)
    assert "/api/" not in last


def test_lost_champion_race_error_names_a_command(
    online: Run, scene: Scene, snapshot: wire.Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_then_lose_the_race(client: LeagueClient, environment: str | None) -> None:
        scene.client.set_champion(scene.publish(step=2000).id, expected=None)

    monkeypatch.setattr(lifecycle, "champion_of", look_then_lose_the_race)
    outcome = online("promote", snapshot.id, "--champion")
    assert_names(outcome.one_line_error, "league environment champion")


@pytest.mark.parametrize("width", [40, 80])
def test_help_names_every_option_whole_at_any_width(command: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    shown = command("standings", "--help").out
    for option in ("--environment", "--standing", "--as-of", "LEAGUE_TOKEN"):
        assert option in shown
    assert "Example: league standings" in shown


def test_learners_are_listed_with_role_and_new_beginnings(online: Run, scene: Scene) -> None:
    numbers = wire.RoleNumbers(reset=0.5)
    scene.client.register_learner(
        wire.LearnerCreate(
            name="finder",
            role="main_exploiter",
            environment=scene.environment,
            signature=scene.signature,
            rules=numbers,
        )
    )
    row = next(line.split() for line in online("learner", "list").out.splitlines() if "finder" in line)
    assert row[1:3] == ["finder", "main_exploiter"]
    listed = json.loads(online("learner", "list", "--json").out)["items"]
    assert [(each["name"], each["rules"]["reset"], each["resets"]) for each in listed] == [
        ("main", 0.0, 0),
        ("finder", 0.5, 0),
    ]


def test_the_log_shows_why_a_snapshot_was_left_without_its_columns(online: Run, scene: Scene) -> None:
    progress = wire.LearnerProgress(learner_id=scene.learner.id, step=10**6, since_step=0)
    scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    shown = " ".join(online("admin", "log", "--kind", "snapshot").out.split())
    assert_names(shown, 1000000)
    assert "role main" in shown
    assert "opponents" not in shown
    (event,) = json.loads(online("admin", "log", "--kind", "snapshot", "--json").out)["items"]
    assert len(event["details"]["opponents"]["win_rate"]) == 1


def test_metrics_of_a_learner_are_shown_with_their_trend(online: Run, scene: Scene) -> None:
    for step, value in ((64, 0.5), (128, 1.0), (192, 0.0)):
        progress = wire.LearnerProgress(learner_id=scene.learner.id, step=step, metrics={"kl": value, "flat": 2.0})
        scene.client.heartbeat(scene.trainer.id, wire.Heartbeat(learners=[progress]))
    shown = online("learner", "metrics", "main").out
    assert "main of rps, steps 64 to 192" in shown
    row = next(line.split() for line in shown.splitlines() if "kl" in line)
    assert row == ["kl", "0", "0", "1", "▅█▁"]
    assert "flat" not in online("learner", "metrics", str(scene.learner.id), "--name", "kl").out
    assert json.loads(online("learner", "metrics", "main", "--json").out)["metrics"]["kl"] == [0.5, 1.0, 0.0]
    assert "no such metric" in online("learner", "metrics", "main", "--name", "unknown").out
    assert_names(online("learner", "metrics", "nobody").err, "nobody")
