"""`league gate`."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from league_command import Run
from league_scene import Scene, result
from refused import assert_names
from rich.console import Console

from league import wire
from league.cli import gates as cli
from league.cli.output import gate_progress
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import BusyError, InternalError, LeagueError, RateLimitedError, UnauthenticatedError
from league.services.gates import sprt as gate_sprt

Two = tuple[wire.Player, wire.Player]


@pytest.fixture
def two(scene: Scene) -> Two:
    return scene.publish(1), scene.publish(2)


@pytest.fixture
def play(
    scene: Scene,
    two: Two,
    database: Database,
    time: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[float], None]:
    """Let an evaluator play thirty pairs while the command waits, the candidate with this score in each match."""

    def arrange(score: float) -> None:
        def meanwhile(_seconds: float) -> None:
            finished = [
                result(lease, score=score if lease.home.player_id == two[0].id else 1.0 - score)
                for lease in scene.rating_leases(60)
            ]
            scene.report(*finished, worker=scene.evaluator)
            gate_sprt.close_decided(database, time.now)

        monkeypatch.setattr(gate_progress.time, "sleep", meanwhile)

    return arrange


@pytest.mark.parametrize(("score", "state", "code"), [(1.0, "accepted", 0), (0.0, "rejected", cli.REJECTED)])
def test_the_command_waits_for_the_verdict_and_ends_with_it(
    online: Run, two: Two, play: Callable[[float], None], score: float, state: str, code: int
) -> None:
    play(score)
    outcome = online("gate", "open", two[0].name, two[1].id, "--elo1", 100)
    assert outcome.code == code
    assert f"{two[0].name} against {two[1].name}: {state}" in outcome.out
    assert "LLR" in outcome.out
    assert "lead" in outcome.out
    again = online("gate", "open", two[0].id, two[1].id, "--elo1", 100)
    assert (again.code, again.out) == (code, outcome.out), "a verdict is there at once"


def test_json_output_equals_the_server_response(
    online: Run, scene: Scene, two: Two, play: Callable[[float], None]
) -> None:
    play(1.0)
    printed = json.loads(online("gate", "open", two[0].id, two[1].id, "--elo1", 100, "--json").out)
    assert printed == scene.client.gate(printed["id"]).model_dump(mode="json")
    listed = json.loads(online("gate", "list", "--json").out)
    assert listed["items"] == [printed]


def test_the_rival_is_the_champion_unless_named(online: Run, scene: Scene, two: Two) -> None:
    scene.client.set_champion(two[1].id, expected=None)
    assert online("gate", "open", two[0].id, "--timeout", 0).code == cli.UNDECIDED
    (gate,) = scene.client.gates().items
    assert gate.champion.player_id == two[1].id


def test_gate_continues_on_the_server_after_the_timeout(online: Run, scene: Scene, two: Two) -> None:
    outcome = online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    assert outcome.code == cli.UNDECIDED
    assert "attached evaluators: 1" in outcome.out
    assert [gate.state for gate in scene.client.gates().items] == ["open"]


def test_missing_evaluator_is_reported(online: Run, two: Two, time: Any) -> None:
    time.advance(3600)
    outcome = online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    for told in (outcome.out, outcome.err):
        assert_names(told, "trainer evaluate")


@pytest.fixture
def passing_time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let every wait of the command pass at once, until an hour is over, and count the seconds."""
    seconds = [0.0]

    def wait(duration: float) -> None:
        if seconds[0] >= 3600:
            raise KeyboardInterrupt
        seconds[0] += duration

    monkeypatch.setattr(gate_progress.time, "sleep", wait)
    monkeypatch.setattr(gate_progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_progress_is_printed_every_ten_seconds_without_a_terminal(
    online: Run, two: Two, passing_time: list[float]
) -> None:
    outcome = online("gate", "open", two[0].id, two[1].id, "--timeout", 35, "--json")
    lines = outcome.err.splitlines()[:-1]
    assert [line.split(",")[0].split(": ")[1] for line in lines] == ["0 s", "10 s", "20 s", "30 s"]
    assert all("0 pairs played" in line for line in lines)
    assert json.loads(outcome.out)["state"] == "open", "stdout holds the JSON alone"


def test_progress_shows_pairs_estimate_and_test(
    online: Run, two: Two, scene: Scene, time: Any, passing_time: list[float]
) -> None:
    online("gate", "open", two[0].id, two[1].id, "--elo1", 100, "--timeout", 0)
    finished = [result(lease, score=0.5) for lease in scene.rating_leases(8)]
    scene.report(*finished, worker=scene.evaluator)
    time.advance(1)
    scene.rating_leases(4)
    shown = online("gate", "open", two[0].id, two[1].id, "--elo1", 100, "--timeout", 0).err.splitlines()[0]
    assert "0 s, 4 pairs played, lead +0 [" in shown
    assert "LLR -" in shown
    assert " to 2.94" in shown
    assert "2 pairs in progress, attached evaluators: 1" in shown


def test_a_terminal_shows_one_line_that_is_updated_in_place(two: Two, scene: Scene, passing_time: list[float]) -> None:
    gate = scene.client.open_gate(wire.GateCreate(candidate_id=two[0].id, champion_id=two[1].id))
    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    status = console.status("")
    display = gate_progress._Display(console, status, 0.0)
    for waited_s in (0.0, 1.0, 30.0):
        passing_time[0] = waited_s
        display.show(gate)
        assert f"gate {gate.id}: {waited_s:.0f} s, 0 pairs played" in str(status.status)
    assert screen.getvalue() == ""


def test_an_evaluator_that_finishes_another_batch_is_named_as_the_reason_to_wait(
    online: Run, two: Two, scene: Scene, passing_time: list[float]
) -> None:
    batch = scene.rating_leases(4)
    busy = online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    for shown in (busy.out, busy.err):
        assert "the evaluator finishing another batch first" in shown
    scene.report(*map(result, batch), worker=scene.evaluator)
    idle = online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    assert "another batch" not in idle.err


def test_a_league_that_is_away_is_shown_as_the_reason_to_wait(
    online: Run, two: Two, passing_time: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_client: LeagueClient, _gate_id: int) -> wire.Gate:
        raise BusyError("GET /gates", "it is at its limit", "wait")

    monkeypatch.setattr(LeagueClient, "gate", fail)
    outcome = online("gate", "open", two[0].id, two[1].id, "--timeout", 15)
    assert "it is at its limit; waiting" in outcome.err


@pytest.mark.parametrize(("error", "retry_after_s"), [(BusyError, 7), (InternalError, None), (RateLimitedError, 3)])
def test_gate_command_waits_for_a_busy_server(
    online: Run,
    two: Two,
    play: Callable[[float], None],
    monkeypatch: pytest.MonkeyPatch,
    error: type[LeagueError],
    retry_after_s: int | None,
) -> None:
    play(1.0)
    evaluate, show, waits, refused = gate_progress.time.sleep, LeagueClient.gate, [], []

    def refuse_once(client: LeagueClient, gate_id: int) -> wire.Gate:
        if refused:
            return show(client, gate_id)
        refused.append(error("GET /gates", "it is at its limit", "wait"))
        refused[0].retry_after_s = retry_after_s
        raise refused[0]

    def wait(seconds: float) -> None:
        waits.append(seconds)
        evaluate(seconds)

    monkeypatch.setattr(LeagueClient, "gate", refuse_once)
    monkeypatch.setattr(gate_progress.time, "sleep", wait)
    assert online("gate", "open", two[0].id, two[1].id, "--elo1", 100).code == 0
    assert waits == [gate_progress.POLL_S, retry_after_s or gate_progress.POLL_S]


def test_a_gate_that_the_caller_may_not_look_at_ends_the_wait(
    online: Run, two: Two, play: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(1.0)

    def refuse(_client: LeagueClient, _gate_id: int) -> wire.Gate:
        raise UnauthenticatedError("with a revoked token", "nobody has it", "make another")

    monkeypatch.setattr(LeagueClient, "gate", refuse)
    ended = online("gate", "open", two[0].id, two[1].id)
    assert (ended.code, "make another" in ended.err) == (1, True)


def test_ctrl_c_leaves_the_gate_open(online: Run, scene: Scene, two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gate_progress.time, "sleep", interrupt)
    outcome = online("gate", "open", two[0].id, two[1].id)
    assert outcome.code == cli.UNDECIDED
    assert "`league gate cancel" in outcome.err
    assert [gate.state for gate in scene.client.gates().items] == ["open"]


def test_cancel_ends_only_the_named_gate(online: Run, scene: Scene, two: Two) -> None:
    for elo1 in (20, 50):
        online("gate", "open", two[0].id, two[1].id, "--elo1", elo1, "--timeout", 0)
    newest = scene.client.gates().items[0].id
    outcome = online("gate", "cancel", newest, "--reason", "too slow")
    assert (outcome.code, "cancelled" in outcome.out, "too slow" in outcome.out) == (0, True, True)
    assert {gate.elo1: gate.state for gate in scene.client.gates().items} == {20.0: "open", 50.0: "cancelled"}
    refused = online("gate", "cancel", newest)
    assert (refused.code, refused.one_line_error.count("\n")) == (1, 1)
    assert_names(online("gate", "cancel", 99).one_line_error, "league gate list")


def test_gates_are_listed_with_their_state(online: Run, scene: Scene, two: Two) -> None:
    assert_names(online("gate", "list").out, "league gate open CANDIDATE")
    online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    shown = online("gate", "list", "--state", "open", "--player", two[1].name).out
    assert f"{two[0].name}" in shown
    assert "0 or 20" in shown
    assert two[0].name not in online("gate", "list", "--state", "accepted").out


def test_bad_terms_are_refused_in_one_line(online: Run, two: Two) -> None:
    refused = online("gate", "open", two[0].id, two[1].id, "--elo0", 20, "--elo1", 20)
    assert refused.code == 2
    assert_names(refused.one_line_error, "elo0", "elo1")


def test_open_gate_is_shown_with_its_expected_length(online: Run, scene: Scene, two: Two) -> None:
    outcome = online("gate", "open", two[0].id, two[1].id, "--timeout", 0)
    (gate,) = scene.client.gates().items
    assert gate.expected_games is not None
    for shown in (outcome.out, outcome.err):
        assert_names(shown, gate.expected_games)
