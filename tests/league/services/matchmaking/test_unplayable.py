"""Players that workers report as unplayable: what one token can do, what several can, and what the server checks."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest
from league_scene import ON_SQLITE, Scene, result, safetensors, sha256
from refused import assert_names, refused

from league import wire
from league.client import LeagueClient
from league.db.engine import Database
from league.errors import (
    ForbiddenError,
    StoreUnavailableError,
    UnknownCheckpointError,
)
from league.services.audit.log import Cause
from league.services.auth import tokens
from league.services.unplayable_reports import false_reports
from league.storage.local import DirectoryStore

REASON = "weights are not finite"

Connect = Callable[..., LeagueClient]


def lease_on(scene: Scene, player: wire.Player, worker: wire.Worker) -> wire.Lease:
    """A lease of the worker that seats the player."""
    while True:
        for lease in scene.lease(64, worker=worker):
            if player.id in (lease.home.player_id, lease.away.player_id):
                return lease


def report(
    client: LeagueClient, worker: wire.Worker, lease: wire.Lease, player: wire.Player, *, local: bool = False
) -> wire.ReleaseAnswer:
    named = [wire.UnplayablePlayer(player_id=player.id, reason=REASON, local=local)]
    return client.release(wire.ReleaseRequest(worker_id=worker.id, lease_ids=[lease.lease_id], unplayable=named))


def drawn(scene: Scene, worker: wire.Worker) -> set[int]:
    return {seat.player_id for lease in scene.lease(64, worker=worker) for seat in (lease.home, lease.away)}


@dataclass(frozen=True)
class Evaluator:
    """A worker of a token, which leases rating pairs."""

    client: LeagueClient
    worker: wire.Worker

    @classmethod
    def of(cls, client: LeagueClient, name: str, signature: str = "rps-1") -> "Evaluator":
        request = wire.WorkerCreate(name=name, kind="evaluator", version="1", signatures=[signature])
        return cls(client, client.register_worker(request))

    def leases(self, player: wire.Player) -> list[wire.Lease]:
        """Leases that seat the player."""
        request = wire.RatingLeases(
            kind="rating", worker_id=self.worker.id, environment=player.environment, count=64, budget=1
        )
        leases = self.client.lease(request).items
        return [each for each in leases if player.id in (each.home.player_id, each.away.player_id)]

    def report(self, player: wire.Player, *, local: bool = False) -> list[int]:
        """Report that it cannot be played; return who was quarantined."""
        return report(self.client, self.worker, self.leases(player)[0], player, local=local).quarantined

    def play(self, player: wire.Player) -> None:
        """Play a match of it to the end."""
        played = [result(self.leases(player)[0], learner_step=None)]
        (answer,) = self.client.report(wire.ResultBatch(worker_id=self.worker.id, results=played)).items
        assert answer.status == "accepted"


@dataclass(frozen=True)
class Closed:
    """A closed league: an admin, a trainer's token with snapshots, and tokens that evaluate."""

    admin: LeagueClient
    scene: Scene
    connect: Connect

    def evaluator(self, token: str) -> Evaluator:
        return Evaluator.of(self.connect("worker", token), f"evaluator of {token}")

    def standing(self, player: wire.Player) -> str | None:
        return self.admin.player(player.id).standing

    def events(self, kind: str) -> list[wire.Event]:
        return self.admin.events(kind=kind).items


@pytest.fixture
def closed(connect: Connect) -> Closed:
    admin = connect("admin", "boss")
    return Closed(admin, Scene(connect("worker", "ann")), connect)


# --- one worker ------------------------------------------------------------------------------------------------------


def test_one_report_keeps_a_player_from_that_worker_alone_and_for_a_while(scene: Scene, time: Any) -> None:
    snapshot, kept = scene.publish(1), scene.publish(2)
    other = scene.worker("trainer-2", "trainer")
    lease = lease_on(scene, snapshot, scene.trainer)
    answer = report(scene.client, scene.trainer, lease, snapshot)
    assert (answer.released, answer.quarantined) == (1, [])
    assert snapshot.id not in drawn(scene, scene.trainer)
    assert {snapshot.id, kept.id} <= drawn(scene, other)
    told = scene.client.explain_lease(scene.lease(1)[0].lease_id)
    assert {each.name: each.removed for each in told.filters}["playable"] == [snapshot.id]
    assert scene.client.player(snapshot.id).standing == "candidate"
    time.advance(3601)
    assert snapshot.id in drawn(scene, scene.trainer)


def test_an_evaluator_s_report_counts_for_its_pairs(scene: Scene) -> None:
    snapshot = scene.publish(1)
    lease = scene.rating_leases(2)[0]
    report(scene.client, scene.evaluator, lease, snapshot)
    assert scene.rating_leases(2) == []
    scene.publish(2)
    met = {seat.player_id for each in scene.rating_leases(4) for seat in (each.home, each.away)}
    assert met == {scene.baseline().id, snapshot.id + 1}


# --- one token, and several ------------------------------------------------------------------------------------------


def test_one_token_quarantines_nothing_however_many_workers_it_registers(closed: Closed) -> None:
    snapshots = [closed.scene.publish(step) for step in range(1, 5)]
    closed.admin.promote(snapshots[1].id)
    closed.admin.set_champion(snapshots[2].id, expected=None)
    mallory = closed.connect("worker", "mallory")
    for number in range(3):
        evaluator = Evaluator.of(mallory, f"evaluator-{number}")
        for player in snapshots:
            assert evaluator.report(player) == []
    assert [closed.standing(each) for each in snapshots] == ["candidate", "commander", "commander", "candidate"]
    assert closed.admin.champion().player.id == snapshots[2].id
    reported = closed.events("report")
    assert sorted(event.player_id for event in reported) == sorted(each.id for each in snapshots), "once per token"
    assert {event.actor for event in reported} == {"mallory"}


def test_workers_of_two_tokens_quarantine_a_candidate_that_no_other_token_played(closed: Closed) -> None:
    snapshot = closed.scene.publish(1)
    bob, eve = closed.evaluator("bob"), closed.evaluator("eve")
    assert bob.report(snapshot) == []
    assert eve.report(snapshot) == [snapshot.id]
    (event,) = closed.events("quarantine")
    assert (event.actor, event.details["tokens"]) == ("workers", ["bob", "eve"])
    assert event.details["worker_ids"] == sorted([bob.worker.id, eve.worker.id])
    assert REASON in event.reason
    assert {each.resolution for each in closed.admin.reports(snapshot.id).items} == {"corroborated"}


def test_local_reports_keep_a_player_from_their_worker_and_count_for_nothing_else(closed: Closed) -> None:
    snapshot, other = closed.scene.publish(1), closed.scene.publish(2)
    bob, eve = closed.evaluator("bob"), closed.evaluator("eve")
    assert [each.report(snapshot, local=True) for each in (bob, eve)] == [[], []]
    assert closed.standing(snapshot) == "candidate"
    assert closed.events("report") == []
    assert {each.resolution for each in closed.admin.reports(snapshot.id).items} == {"cleared"}
    assert bob.leases(snapshot) == []
    assert bob.leases(other) != []
    assert bob.report(other) == []
    assert eve.report(other) == [other.id], "a local report makes no later one doubtful"


def test_reports_do_not_quarantine_a_player_that_another_token_played(closed: Closed) -> None:
    snapshot = closed.scene.publish(1)
    closed.evaluator("carol").play(snapshot)
    assert [closed.evaluator(name).report(snapshot) for name in ("bob", "eve")] == [[], []]
    assert closed.standing(snapshot) == "candidate"


def test_commanders_are_flagged_until_an_admin_confirms(closed: Closed) -> None:
    commander = closed.scene.publish(1)
    closed.admin.set_champion(commander.id, expected=None)
    for name in ("bob", "eve", "mia"):
        assert closed.evaluator(name).report(commander) == []
    assert closed.standing(commander) == "commander"
    flags = closed.admin.reports(commander.id).items
    assert {(each.token, each.reason, each.checked, each.resolution) for each in flags} == {
        (name, REASON, True, None) for name in ("bob", "eve", "mia")
    }
    closed.admin.quarantine(commander.id, "confirmed by hand")
    assert {each.resolution for each in closed.admin.reports(commander.id).items} == {"confirmed"}
    assert closed.events("token")[0].details.get("change") == "created", "true reports flag no token"


def test_reports_of_two_tokens_a_long_time_apart_do_not_add_up(closed: Closed, time: Any) -> None:
    snapshot = closed.scene.publish(1)
    assert closed.evaluator("bob").report(snapshot) == []
    time.advance(3601)
    assert closed.evaluator("eve").report(snapshot) == []


def test_reports_of_quarantined_workers_and_revoked_tokens_do_not_count(
    closed: Closed, time: Any, database: Database
) -> None:
    snapshot = closed.scene.publish(1)
    bob, eve, mia = (closed.evaluator(name) for name in ("bob", "eve", "mia"))
    for evaluator in (bob, eve, mia):
        evaluator.leases(snapshot)
    lease = eve.leases(snapshot)[0]
    bob.report(snapshot)
    with database.write() as session:
        tokens.revoke(session, "bob", Cause("test", "", time.now))
    closed.admin.quarantine_worker(eve.worker.id, time.now, "reports what never was")
    assert report(eve.client, eve.worker, lease, snapshot).quarantined == []
    assert mia.report(snapshot) == []
    assert closed.standing(snapshot) == "candidate"


def test_racing_reports_quarantine_once(closed: Closed) -> None:
    snapshot = closed.scene.publish(1)
    evaluators = [closed.evaluator(f"racer-{number}") for number in range(4)]
    leases = [each.leases(snapshot)[0] for each in evaluators]

    def race(number: int) -> list[int]:
        return report(evaluators[number].client, evaluators[number].worker, leases[number], snapshot).quarantined

    with ThreadPoolExecutor(4) as pool:
        quarantined = list(pool.map(race, range(4)))
    assert sorted(quarantined) == [[], [], [], [snapshot.id]]


# --- the server's own check ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("standing", ["candidate", "commander", "champion", "retired"])
def test_player_with_broken_weights_is_quarantined_at_the_first_report(scene: Scene, standing: str) -> None:
    broken = scene.publish(1, math.nan)  # an open league with a single owner
    lease = lease_on(scene, broken, scene.trainer)
    if standing in ("commander", "retired"):
        {"commander": scene.client.promote, "retired": scene.client.retire}[standing](broken.id)
    elif standing == "champion":
        scene.client.set_champion(broken.id, expected=None)
    assert report(scene.client, scene.trainer, lease, broken).quarantined == [broken.id]
    assert scene.client.player(broken.id).standing == "quarantined"
    (event,) = scene.client.events(kind="quarantine").items
    assert event.actor == "server"
    assert_names(event.details["finding"], "weight")
    assert event.details["worker_ids"] == [scene.trainer.id]


def test_a_false_report_of_an_open_league_s_single_owner_only_flags(scene: Scene) -> None:
    snapshot = scene.publish(1)
    for worker in (scene.trainer, scene.worker("trainer-2", "trainer"), scene.worker("trainer-3", "trainer")):
        assert report(scene.client, worker, lease_on(scene, snapshot, worker), snapshot).quarantined == []
    assert scene.client.player(snapshot.id).standing == "candidate"
    assert len(scene.client.reports(snapshot.id).items) == 3
    assert len(scene.client.events(kind="report").items) == 1


def test_a_snapshot_is_read_once_however_often_it_is_reported(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = scene.publish(1)
    read: list[str] = []
    opening = DirectoryStore.open

    @contextmanager
    def counting(self: DirectoryStore, name: str) -> Iterator[IO[bytes]]:
        read.append(name)
        with opening(self, name) as stream:
            yield stream

    monkeypatch.setattr(DirectoryStore, "open", counting)
    for number in range(4):
        worker = scene.worker(f"trainer-{number}", "trainer")
        report(scene.client, worker, lease_on(scene, snapshot, worker), snapshot)
    assert read == [snapshot.checkpoint]


@pytest.mark.parametrize("found_by", ["the check", "a download"])
def test_bytes_damaged_at_rest_are_quarantined_and_come_back_when_sent_again(
    scene: Scene, tmp_path: Path, found_by: str
) -> None:
    snapshot = scene.publish(1)
    data = safetensors(1, signature=scene.signature)
    lease = lease_on(scene, snapshot, scene.trainer)
    file = tmp_path / "checkpoints" / sha256(data)[:2] / sha256(data)
    file.write_bytes(data[:-1] + b"\xff")
    if found_by == "a download":
        with pytest.raises(UnknownCheckpointError):
            scene.client.download(sha256(data))
    assert report(scene.client, scene.trainer, lease, snapshot).quarantined == [snapshot.id]
    (event,) = scene.client.events(kind="quarantine").items
    assert "its stored bytes" in event.reason
    file.write_bytes(data)
    scene.client.reinstate(snapshot.id)
    lease = lease_on(scene, snapshot, scene.trainer)
    assert report(scene.client, scene.trainer, lease, snapshot).quarantined == []


def test_leases_are_released_while_the_store_is_away_and_nothing_is_quarantined(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = closed.scene.publish(1)

    def away(self: DirectoryStore, name: str) -> None:
        raise StoreUnavailableError(self.folder, "it does not answer", "wait")

    monkeypatch.setattr(DirectoryStore, "find", away)
    assert [closed.evaluator(name).report(snapshot) for name in ("bob", "eve")] == [[], []]
    assert closed.standing(snapshot) == "candidate"
    assert [each.checked for each in closed.admin.reports(snapshot.id).items] == [False, False]


# --- reports that prove false ----------------------------------------------------------------------------------------


def test_token_with_a_refuted_report_is_flagged_and_ignored(closed: Closed, time: Any) -> None:
    first, second = closed.scene.publish(1), closed.scene.publish(2)
    bob, eve = closed.evaluator("bob"), closed.evaluator("eve")
    bob.report(first)
    closed.evaluator("carol").play(first)
    time.advance(1)
    closed.admin.close_period()
    (refuted,) = closed.admin.reports(first.id).items
    assert (refuted.token, refuted.resolution) == ("bob", "refuted")
    flagged = closed.events("token")[0]
    assert flagged.details == {"change": "flagged", "token": "bob"}
    assert flagged.player_id == first.id
    assert "token 'carol'" in flagged.reason
    assert [bob.report(second), eve.report(second)] == [[], []]
    assert {event.actor for event in closed.events("report") if event.player_id == second.id} == {"eve"}


def test_the_reporter_s_own_matches_and_too_few_others_refute_nothing(closed: Closed) -> None:
    snapshot = closed.scene.publish(1)
    closed.admin.promote(snapshot.id)
    bob, eve = closed.evaluator("bob"), closed.evaluator("eve")
    played = bob.leases(snapshot)[0]
    bob.report(snapshot)
    bob.client.report(wire.ResultBatch(worker_id=bob.worker.id, results=[result(played, learner_step=None)]))
    closed.admin.close_period()
    eve.report(snapshot)
    closed.evaluator("carol").play(snapshot)
    closed.admin.close_period()
    assert {each.resolution for each in closed.admin.reports(snapshot.id).items} == {None}


def test_the_publisher_of_a_snapshot_does_not_refute_reports_about_it(closed: Closed) -> None:
    snapshot = closed.scene.publish(1)
    closed.evaluator("bob").report(snapshot)
    Evaluator.of(closed.scene.client, "evaluator of ann").play(snapshot)
    closed.admin.close_period()
    (standing,) = closed.admin.reports(snapshot.id).items
    assert (standing.token, standing.resolution) == ("bob", None)
    assert "flagged" not in {event.details["change"] for event in closed.events("token")}


def test_dismissing_reports_flags_their_tokens_until_an_admin_clears_them(
    closed: Closed, database: Database, time: Any
) -> None:
    snapshot = closed.scene.publish(1)
    bob = closed.evaluator("bob")
    bob.report(snapshot)
    with pytest.raises(ForbiddenError):
        bob.client.dismiss_reports(snapshot.id)
    (dismissed,) = closed.admin.dismiss_reports(snapshot.id, "plays fine").items
    assert (dismissed.token, dismissed.worker_id) == ("bob", bob.worker.id)
    (event,) = closed.events("dismiss")
    assert (event.actor, event.reason, event.details["tokens"]) == ("boss", "plays fine", ["bob"])
    with refused("invalid-request", snapshot.id):
        closed.admin.dismiss_reports(snapshot.id)
    with database.write() as session:
        listed = {each.name: each.false_reports for each in tokens.listing(session)}
        assert listed == {"boss": 0, "ann": 0, "bob": 1}
        assert false_reports.clear(session, "bob", Cause("keeper", "", time.now)) == 1
        assert false_reports.of_tokens(session) == {}
        with refused("invalid-request", "bob"):
            false_reports.clear(session, "bob", Cause("keeper", "", time.now))
        with refused("unknown-token", "nobody"):
            false_reports.clear(session, "nobody", Cause("keeper", "", time.now))
    assert [event.details["change"] for event in closed.events("token")][:2] == ["cleared", "flagged"]


def test_reinstating_a_player_flags_the_reporting_tokens(closed: Closed, database: Database, time: Any) -> None:
    snapshot = closed.scene.publish(1)
    bob, eve = closed.evaluator("bob"), closed.evaluator("eve")
    bob.report(snapshot)
    eve.report(snapshot)
    time.advance(1)
    closed.admin.reinstate(snapshot.id, "it plays")
    assert {each.resolution for each in closed.admin.reports(snapshot.id).items} == {"dismissed"}
    with database.read() as session:
        assert false_reports.of_tokens(session) == {"bob": 1, "eve": 1}
    assert bob.leases(snapshot), "it is leased again to the worker that reported it"
    assert [bob.report(snapshot), eve.report(snapshot)] == [[], []]
    assert closed.standing(snapshot) == "candidate"


def test_reinstating_a_player_quarantined_by_the_server_flags_no_token(closed: Closed, database: Database) -> None:
    broken = closed.scene.publish(1, math.nan)
    assert closed.evaluator("bob").report(broken) == [broken.id]
    closed.admin.reinstate(broken.id)
    with database.read() as session:
        assert false_reports.of_tokens(session) == {}


# --- who may be reported ---------------------------------------------------------------------------------------------


def test_unplayable_baseline_is_withheld_but_not_quarantined(scene: Scene) -> None:
    scene.publish(1)
    baseline = scene.baseline()
    for worker in (scene.trainer, scene.worker("trainer-2", "trainer")):
        assert report(scene.client, worker, lease_on(scene, baseline, worker), baseline).quarantined == []
        assert baseline.id not in drawn(scene, worker)
    assert scene.client.player(baseline.id).standing is None


@ON_SQLITE
def test_only_players_of_the_callers_leases_can_be_reported(scene: Scene) -> None:
    snapshot = scene.publish(1)
    lease = lease_on(scene, snapshot, scene.trainer)
    stranger = scene.worker("trainer-2", "trainer")
    with refused("invalid-request", snapshot.id):
        report(scene.client, stranger, lease, snapshot)
    named = [wire.UnplayablePlayer(player_id=999, reason=REASON)]
    request = wire.ReleaseRequest(worker_id=scene.trainer.id, lease_ids=[lease.lease_id], unplayable=named)
    with refused("invalid-request", 999):
        scene.client.release(request)
    assert scene.client.explain_lease(lease.lease_id).state == "open"
