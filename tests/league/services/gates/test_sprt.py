"""Verdicts of gates: the sequential test of two frozen players, judged in lease order as results come."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from gate_scene import Two, judged, open_gate, outcome, play
from league_history import play_periods, recomputed
from league_scene import ON_SQLITE, Scene

from arena.evaluation.sprt import SprtConfig, run_sprt
from league import wire
from league.db.engine import Database
from league.services.gates.sprt import GateEvaluator
from league.settings import Settings

Configure = Callable[..., Settings]


@pytest.fixture
def two(scene: Scene) -> Two:
    """A candidate and whom it is to beat."""
    return scene.publish(1), scene.publish(2)


# --- the verdict -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("score", "state"), [(1.0, "accepted"), (0.0, "rejected")])
def test_the_verdict_falls_when_the_results_suffice_and_is_that_of_the_arithmetic(
    scene: Scene, two: Two, database: Database, time: Any, score: float, state: str
) -> None:
    gate = open_gate(scene, two)
    scores = [0.5, score, 0.5] + [score] * 27
    play(scene, two[0], scores)
    (closed,) = judged(scene, database, time)
    expected = run_sprt(scores, SprtConfig(gate.elo0, gate.elo1))
    assert (closed.id, closed.state, closed.closed_at) == (gate.id, state, time.now)
    assert (closed.games, closed.counts) == (expected.stop.games, list(expected.stop.counts))
    assert closed.games < 60, "the last pairs count for nothing"
    assert (closed.llr, closed.lower, closed.upper) == (expected.stop.llr, expected.stop.lower, expected.stop.upper)
    assert (closed.elo, closed.elo_low, closed.elo_high) == pytest.approx(
        (expected.lead.elo, expected.lead.low, expected.lead.high)
    )
    assert scene.client.gate(gate.id) == closed
    assert judged(scene, database, time) == []
    assert all(lease.gate_id is None for lease in scene.rating_leases(4))
    event = scene.client.events(kind="gate").items[0]
    assert (event.player_id, event.details["state"], event.details["against"]) == (two[0].id, state, two[1].id)
    assert f"{closed.games} games" in event.reason


def test_gate_stays_open_while_evidence_is_insufficient(scene: Scene, two: Two, database: Database, time: Any) -> None:
    gate = open_gate(scene, two)
    play(scene, two[0], [0.5] * 5)
    assert judged(scene, database, time) == []
    seen = scene.client.gate(gate.id)
    assert (seen.state, seen.games, seen.counts, seen.evaluators) == ("open", 10, [0.0, 0.0, 5.0, 0.0, 0.0], 1)


def test_fractional_pair_counts_are_shown_without_rounding_residue(scene: Scene, two: Two) -> None:
    gate = open_gate(scene, two)
    play(scene, two[0], [0.1] * 5)
    assert scene.client.gate(gate.id).counts == [3.0, 2.0, 0.0, 0.0, 0.0]


def test_pairs_are_judged_in_the_order_of_their_leases_and_not_of_arrival(
    scene: Scene, two: Two, database: Database, time: Any
) -> None:
    gate = open_gate(scene, two)
    held = scene.rating_leases(2)
    time.advance(1)
    play(scene, two[0], [1.0] * 30)
    seen = scene.client.gate(gate.id)
    assert (seen.games, seen.waiting_pairs) == (0, 31)
    assert judged(scene, database, time) == []
    scene.report(*(outcome(lease, two[0], 0.0) for lease in held), worker=scene.evaluator)
    (closed,) = judged(scene, database, time)
    expected = run_sprt([0.0] + [1.0] * 30, SprtConfig(gate.elo0, gate.elo1))
    assert (closed.games, closed.llr) == (expected.stop.games, expected.stop.llr)


def test_lease_of_several_matches_has_one_pair_per_seed(scene: Scene, two: Two) -> None:
    gate = open_gate(scene, two)
    there, back = scene.rating_leases(2, budget=3)
    seen = [(there, 0, 1.0), (back, 0, 0.0), (there, 1, 1.0), (back, 1, 1.0), (back, 2, 1.0)]
    scene.report(*(outcome(lease, two[0], score, number) for lease, number, score in seen), worker=scene.evaluator)
    told = scene.client.gate(gate.id)
    assert (told.counts, told.games, told.waiting_pairs) == ([0.0, 0.0, 1.0, 0.0, 1.0], 4, 1)


@pytest.mark.parametrize("ended", ["expired", "released"])
def test_abandoned_pairs_delay_the_verdict_and_count_as_losses(scene: Scene, two: Two, time: Any, ended: str) -> None:
    gate = open_gate(scene, two)
    held = scene.rating_leases(2)
    time.advance(1)
    play(scene, two[0], [1.0] * 3)
    if ended == "released":
        ids = [lease.lease_id for lease in held]
        scene.client.release(wire.ReleaseRequest(worker_id=scene.evaluator.id, lease_ids=ids))
    else:
        time.advance(360)
    assert scene.client.gate(gate.id).games == 0
    time.advance(31)
    seen = scene.client.gate(gate.id)
    assert (seen.games, seen.lost_pairs, seen.waiting_pairs) == (6, 1, 0)
    late = scene.report(*(outcome(lease, two[0], 0.0) for lease in held), worker=scene.evaluator)
    assert {answer.status for answer in late} == {"accepted"}
    assert scene.client.gate(gate.id) == seen, "what was judged without them stays judged"


def test_the_matches_of_a_gate_are_in_the_log_and_never_rated(scene: Scene, time: Any, database: Database) -> None:
    players = play_periods(scene, time, number=2)

    def frozen() -> list[tuple[float, float, int]]:
        return [(each.rating, each.deviation, each.games) for each in scene.client.players(kind="snapshot").items]

    ratings, payoff = frozen(), scene.client.payoff()
    open_gate(scene, (players[0], players[1]))
    play(scene, players[0], [1.0] * 20)
    assert scene.client.close_period().matches == 0
    assert (frozen(), scene.client.payoff().counts) == (ratings, payoff.counts)
    last = scene.client.matches(players[0].id).items[0]
    assert (last.kind, last.period_id, last.counts) == ("gate", None, True)
    assert [outcome.differing for outcome in recomputed(database)] == [0]


def test_a_clock_that_is_set_back_keeps_no_judge_from_looking_again(
    scene: Scene, two: Two, database: Database, time: Any
) -> None:
    gate, judge_of_leases = open_gate(scene, two), GateEvaluator()
    with database.read() as session:
        assert judge_of_leases.needs(session, time.now)[gate.id] > 0
    play(scene, two[0], [1.0] * 30)
    time.advance(-86_400.0)
    with database.read() as session:
        assert judge_of_leases.needs(session, time.now) == {gate.id: 0}


@ON_SQLITE
def test_a_lease_that_is_written_after_later_ones_is_not_passed_by(scene: Scene, two: Two, time: Any) -> None:
    gate = open_gate(scene, two, least_games=10**6)

    def counts() -> tuple[float, ...]:
        return tuple(scene.client.gate(gate.id).counts)

    play(scene, two[0], [0.5] * 3)
    time.advance(20)
    assert counts() == (0.0, 0.0, 3.0, 0.0, 0.0)
    time.advance(-25)
    play(scene, two[0], [1.0])
    time.advance(60)
    assert counts() == (0.0, 0.0, 3.0, 0.0, 1.0)


def test_no_more_pairs_are_leased_once_the_verdict_is_certain(scene: Scene, two: Two, time: Any) -> None:
    gate = open_gate(scene, two)
    scene.rating_leases(2)
    time.advance(1)
    play(scene, two[0], [1.0] * 30)
    time.advance(10)
    assert {lease.gate_id for lease in scene.rating_leases(2)} == {None}
    seen = scene.client.gate(gate.id)
    assert (seen.state, seen.games, seen.waiting_pairs) == ("open", 0, 31)


def test_more_pairs_are_leased_if_earlier_results_change(scene: Scene, two: Two, time: Any) -> None:
    gate = open_gate(scene, two)
    held = scene.rating_leases(6)
    time.advance(1)
    play(scene, two[0], [1.0] * 13)
    time.advance(10)
    assert {lease.gate_id for lease in scene.rating_leases(2)} == {None}
    scene.report(*(outcome(lease, two[0], 0.0) for lease in held), worker=scene.evaluator)
    time.advance(10)
    assert run_sprt([0.0] * 3 + [1.0] * 13, SprtConfig(gate.elo0, gate.elo1)).stop.decision == "continue"
    assert {lease.gate_id for lease in scene.rating_leases(2)} == {gate.id}


# --- workers that are not trusted ------------------------------------------------------------------------------------


def test_results_of_untrusted_workers_are_excluded_from_an_open_gate(scene: Scene, two: Two, time: Any) -> None:
    gate = open_gate(scene, two)
    play(scene, two[0], [0.5] * 2)
    time.advance(1)
    liar = scene.worker("evaluator-2", "evaluator")
    play(scene, two[0], [1.0] * 4, worker=liar)
    assert scene.client.gate(gate.id).games == 12
    scene.client.quarantine_worker(liar.id, time.now, "reports wins that were none")
    time.advance(391)
    seen = scene.client.gate(gate.id)
    assert (seen.games, seen.counts[2]) == (4, 2.0)
    scene.client.reinstate_worker(liar.id, restore=True)
    assert scene.client.gate(gate.id).games == 12


def test_a_verdict_that_rested_on_an_untrusted_worker_is_taken_back(
    scene: Scene, two: Two, database: Database, time: Any
) -> None:
    gate = open_gate(scene, two)
    liar = scene.worker("evaluator-2", "evaluator")
    play(scene, two[0], [1.0] * 30, worker=liar)
    assert [closed.state for closed in judged(scene, database, time)] == ["accepted"]
    time.advance(391)
    scene.client.quarantine_worker(liar.id, time.now - timedelta(days=1), "lies")
    reopened = scene.client.gate(gate.id)
    assert (reopened.state, reopened.games, reopened.closed_at) == ("open", 0, None)
    assert "it was accepted" in scene.client.events(kind="gate").items[0].reason
    scene.client.reinstate_worker(liar.id, restore=True)
    assert [closed.state for closed in judged(scene, database, time)] == ["accepted"]


def test_a_gate_counts_the_evaluators_that_could_play_it(scene: Scene, two: Two, time: Any) -> None:
    gate = open_gate(scene, two)
    others = [scene.worker(f"evaluator-{number}", "evaluator") for number in (2, 3)]
    scene.client.register_worker(
        wire.WorkerCreate(name="elsewhere", kind="evaluator", version="1", signatures=["chess-1"])
    )
    assert scene.client.gate(gate.id).evaluators == 3
    scene.client.quarantine_worker(others[0].id, time.now, "odd")
    scene.client.command_worker(others[1].id, "stop")
    assert scene.client.gate(gate.id).evaluators == 1
    time.advance(361)
    assert scene.client.gate(gate.id).evaluators == 0
    scene.client.heartbeat(scene.evaluator.id)
    assert scene.client.gate(gate.id).evaluators == 1
