import errno
import io
import itertools
import random
import sys
from dataclasses import replace
from datetime import UTC, datetime

import httpx2
import pytest
import torch
from nonsense_weights import as_integers, huge, not_numbers
from onnx_models import linear
from refused import refused
from rich.console import Console

from arena.durable_log import AppendFile
from arena.environments import declare, make
from arena.environments.adapters.subprocess.env import SubprocessBatch
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.classic.matrix_game import RPS_PAYOFF
from arena.play.runner import play_pairs, play_pairs_in
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from arena.policies.scripted import RandomPolicy
from arena.replay import unpack_recording
from arena.seeding import match_seed
from league import wire
from league.client.result_spool import ResultSpool
from league.errors import LeagueUnreachable, UnknownReplayError
from league.services.population import snapshots
from trainer.config.schema import LeagueSettings
from trainer.errors import UnusableOpponentError
from trainer.evaluation.env_cache import EnvironmentCache
from trainer.evaluation.evaluator import EvaluationBudget, EvaluationWorker, _load_player
from trainer.evaluation.replay_upload import ReplayUploader
from trainer.evaluation.session import HEARTBEAT_MAX_S, EvaluatorSession
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession
from trainer.monitoring.console import RunConsole
from trainer.opponents.checkpoint_cache import CheckpointCache
from trainer.opponents.pool import OpponentPool

SPEC = make("rps", num_envs=1).spec


@pytest.fixture
def retrying_client(client, outside):
    return RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)


def publish(client, retrying_client, steps):
    """Make a learner with snapshots at these steps."""
    member = LeagueSession(retrying_client, LeagueSettings(), SPEC, "0")
    member.register()
    for step in steps:
        torch.manual_seed(step)
        network = ActorCritic(Architecture.of(SPEC, encoder_sizes=(4,), recurrent_size=4))
        assert member.publish(encode(network, SPEC), step, None) is not None


@pytest.fixture
def worker_of(tmp_path, client, retrying_client, outside):
    spools = []

    def start(*, rounds=1, duty=0.5, budget=3, num_envs=12, record_every_s=None, console=None):
        spool = ResultSpool(tmp_path / "spool")
        spools.append(spool)
        cache = CheckpointCache(tmp_path / "opponents", 2**20)
        pool = OpponentPool(
            SPEC,
            lambda sha256: retrying_client.try_call("downloads", lambda client: client.download(sha256)),
            cache,
            memory_limit_bytes=2**20,
            device="cpu",
        )
        worker = EvaluationWorker(
            EvaluatorSession(retrying_client, [SPEC], name="evaluator", version="0"),
            {"rps": pool},
            spool,
            EvaluationBudget({"rps": num_envs}, budget, duty),
            ReplayUploader(record_every_s, outside.clock),
            EnvironmentCache(0),
            console=RunConsole(console or Console(quiet=True)),
            run_context=Pausing(outside, rounds).run_context(),
            rng=random.Random(0),
        )
        return worker, spool

    yield start
    for spool in spools:
        spool._file.close()


class Pausing:
    """Stops after so many pauses, and remembers how long each was."""

    def __init__(self, outside, rounds):
        self.outside, self.rounds, self.pauses = outside, rounds, []
        outside.pauses = self.pauses

    def run_context(self):
        plain = self.outside.run_context()
        return replace(plain, pause=self.pause)

    def pause(self, seconds):
        self.pauses.append(seconds)
        self.outside.time_s += seconds
        self.outside.asked |= len(self.pauses) >= self.rounds


def matches_of(client):
    found = {}
    for player in client.players("rps", limit=1000).items:
        found |= {match.id: match for match in client.matches(player.id, limit=1000).items}
    return list(found.values())


def test_rating_matches_are_played_on_both_sides_of_the_same_seeds_and_reported(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2, 3])
    worker, _ = worker_of(budget=3)
    worker.run()
    matches = matches_of(client)
    assert len(matches) == worker.matches == 12
    assert {match.kind for match in matches} == {"rating"}
    seats = {}
    for match in matches:
        assert match.seed == match_seed(client.explain_lease(match.lease_id).lease.seed, match.sequence)
        seats.setdefault(match.seed, []).append((match.home.player_id, match.away.player_id))
    for pairs in seats.values():
        assert all((away, home) in pairs for home, away in pairs)


def publish_models(retrying_client, count):
    """Make a learner with snapshots in ONNX; return them."""
    member = LeagueSession(retrying_client, LeagueSettings(), SPEC, "0")
    member.register()
    return [
        member.publish(linear(SPEC.observation_size, "choice", 3, step, masked=False), step, None)
        for step in range(1, count + 1)
    ]


def test_onnx_snapshots_are_rated_against_each_other_and_our_own(worker_of, client, retrying_client):
    publish(client, retrying_client, [10])
    models = publish_models(retrying_client, 2)
    worker, _ = worker_of(rounds=3, num_envs=48)
    worker.run()
    assert worker.matches > 0
    assert all(client.matches(each.id).items for each in models)
    client.close_period("rps")
    rated = {each.id: each.games for each in client.standings("rps").items}
    assert all(rated[each.id] > 0 for each in models)


def test_evaluator_without_onnxruntime_plays_the_others_and_quarantines_nobody(
    worker_of, client, retrying_client, monkeypatch
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    publish(client, retrying_client, [10, 11])
    models, console = publish_models(retrying_client, 2), Console(record=True, file=io.StringIO(), width=300)
    worker, _ = worker_of(rounds=4, num_envs=48, console=console)
    worker.run()
    assert worker.matches > 0
    assert [client.matches(each.id).items for each in models] == [[], []]
    assert {client.player(each.id).standing for each in models} == {"candidate"}
    assert {each.resolution for each in client.reports(models[0].id).items} == {"cleared"}
    assert "echelon-league[onnx]" in console.export_text()


def test_snapshots_with_invalid_weights_are_quarantined_without_rated_matches(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2])
    member = LeagueSession(retrying_client, LeagueSettings(), SPEC, "0")
    member.register()
    sound = encode(ActorCritic(Architecture.of(SPEC, encoder_sizes=(4,), recurrent_size=4)), SPEC)
    nonsense = [member.publish(damage(sound), step, None) for step, damage in enumerate((huge, not_numbers), start=3)]
    with refused("refused-checkpoint", "int64"):
        member.publish(as_integers(sound), 5, None)
    worker, _ = worker_of(rounds=4, num_envs=48)
    worker.run()
    assert worker.matches > 0
    assert {client.player(each.id).standing for each in nonsense} == {"quarantined"}
    assert [client.matches(each.id).items for each in nonsense] == [[], []]


def test_integer_weights_are_rejected_by_the_league(worker_of, client, retrying_client, monkeypatch):
    publish(client, retrying_client, [1])
    monkeypatch.setattr(snapshots, "find_header_fault", lambda _: None)  # a league that took it before it was checked
    member = LeagueSession(retrying_client, LeagueSettings(), SPEC, "0")
    member.register()
    old = encode(ActorCritic(Architecture.of(SPEC, encoder_sizes=(4,), recurrent_size=4)), SPEC)
    integers = member.publish(as_integers(old), 2, None)
    worker, _ = worker_of(rounds=3, num_envs=48)
    worker.run()
    assert worker.matches > 0
    assert client.player(integers.id).standing == "quarantined"
    assert client.matches(integers.id).items == []


def test_how_both_sides_played_is_reported_with_each_match(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(budget=3)
    report, sent = worker._session.report, []
    worker._session.report = lambda results: sent.extend(results) or report(results)
    worker.run()
    assert len(sent) == worker.matches > 0
    for result in sent:
        assert result.behaviour.measures == ["choice/0", "choice/1", "choice/2"]
        home, away = (side.index(1.0) for side in (result.behaviour.home, result.behaviour.away))
        assert result.score == pytest.approx(0.5 + RPS_PAYOFF[home][away] / 6.0), "what they did is what they got"


def test_a_match_is_recorded_now_and_then_and_sent_once_its_result_is_accepted(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2, 3])
    worker, _ = worker_of(rounds=3, record_every_s=1000.0)
    worker.run()
    (match,) = [match for match in matches_of(client) if has_recording(client, match.id)]
    recording = unpack_recording(client.replay(match.id), "replay")
    assert recording.header.players == (match.home.name, match.away.name)


def has_recording(client, match_id):
    try:
        return bool(client.replay(match_id))
    except UnknownReplayError:
        return False


def test_pairs_of_an_open_gate_are_played_before_others(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2, 3])
    *_, candidate, champion = client.players("rps", kind="snapshot").items
    gate = client.open_gate(wire.GateCreate(candidate_id=candidate.id, champion_id=champion.id))
    printed = io.StringIO()
    worker, _ = worker_of(budget=3, console=Console(file=printed, width=200))
    worker.run()
    matches = matches_of(client)
    assert {match.kind for match in matches} == {"gate"}
    assert {frozenset((match.home.player_id, match.away.player_id)) for match in matches} == {
        frozenset((candidate.id, champion.id))
    }
    assert client.gate(gate.id).games == len(matches) == worker.matches == 12
    assert f"matches for gate {gate.id}" in printed.getvalue()


def test_as_many_pairs_are_played_at_once_as_there_is_room_for(worker_of, client, retrying_client, monkeypatch):
    publish(client, retrying_client, [1, 2, 3, 4, 5])
    batches = []

    def seen(env, pairs, seeds, rng, *, watcher):
        batches.append(pairs)
        return play_pairs_in(env, pairs, seeds, rng, watcher=watcher)

    monkeypatch.setattr("trainer.evaluation.evaluator.play_pairs_in", seen)
    worker, _ = worker_of(budget=1, num_envs=8)
    worker.run()
    (batch,) = batches
    assert len(batch) == worker.matches == 8
    assert len({frozenset(map(id, pair)) for pair in batch}) > 1, "in a round of pairing nobody has two opponents"


@pytest.mark.parametrize(("num_envs", "budget", "leases"), [(128, 1, 128), (13, 3, 4), (4, 8, 2)])
def test_leases_fill_the_environment_and_are_of_one_pair_at_least(num_envs, budget, leases):
    assert EvaluationBudget({"rps": num_envs}, budget, 1.0).lease_count("rps", 0) == leases


def test_stopping_evaluator_requests_no_leases(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2, 3])
    worker, _ = worker_of()
    worker._pools["another"] = worker._pools["rps"]
    worker._queues["another"] = worker._queues["rps"]
    worker._budget = replace(worker._budget, parallel_matches={"rps": 12, "another": 12})
    asked, played, lease, play = [], [], worker._session.lease, worker._play

    def watched(*arguments):
        asked.append(outside.asked)
        return lease(*arguments)

    def asked_to_leave_meanwhile(environment, tables):
        played.append(environment)
        play(environment, tables)
        outside.asked = True

    worker._session.lease, worker._play = watched, asked_to_leave_meanwhile
    worker.run()
    assert played == ["rps"]
    assert asked
    assert True not in asked


def test_its_share_of_the_time_is_bounded(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=40, duty=0.2)
    play = worker._play

    def play_for_ten_seconds(*batch):
        play(*batch)
        outside.time_s += 10.0

    worker._play = play_for_ten_seconds
    began = outside.time_s
    worker.run()
    assert worker.matches >= 2 * 12
    assert worker.matches / 12 * 10.0 <= 0.2 * (outside.time_s - began + 40.0)


def test_heartbeats_are_sent_during_a_long_rest_and_commands_obeyed(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=100, duty=0.1)
    play = worker._play

    def play_for_a_minute(*batch):
        play(*batch)
        outside.time_s += 60.0

    heartbeat, seen_s = worker._session.heartbeat, []

    def dismissed_after_ten_beats():
        seen_s.append(outside.time_s)
        answer = heartbeat()
        return answer.model_copy(update={"command": "stop"}) if len(seen_s) == 10 else answer

    worker._play, worker._session.heartbeat = play_for_a_minute, dismissed_after_ten_beats
    worker.run()
    assert worker.matches == 12
    assert len(seen_s) == 10
    assert max(late - early for early, late in itertools.pairwise(seen_s)) <= 60.0 + 2.0 * HEARTBEAT_MAX_S
    assert outside.time_s < 60.0 / 0.1


def test_idle_evaluator_waits_for_the_poll_interval(worker_of, client, outside):
    worker, _ = worker_of(rounds=3)
    worker.run()
    assert worker.matches == 0
    assert all(2.0 <= pause <= 9.0 for pause in outside.pauses)  # 5 s, spread by the league and here
    assert len(set(outside.pauses)) == 3


def test_results_wait_while_the_league_is_away_and_come_once(worker_of, client, retrying_client, transport, outside):
    publish(client, retrying_client, [1, 2])
    worker, spool = worker_of()
    membership = worker._session
    report = membership.report

    def lost(results):
        transport.loses_answers = True
        try:
            return report(results)
        finally:
            transport.loses_answers = False

    membership.report = lost
    worker.run()
    played = worker.matches
    assert len(matches_of(client)) == played > 0
    assert spool.undelivered_bytes() > 0
    again, spool = worker_of(rounds=1)
    outside.time_s += 100.0
    again._session.register()
    spool.deliver(again._session.report)
    assert spool.undelivered_bytes() == 0
    assert spool.outcomes == {"duplicate": played}
    assert len(matches_of(client)) == played


def test_lost_calls_do_not_lengthen_the_rest(worker_of, client, retrying_client, outside, transport):
    """Waiting for the network takes no share of a core: the rest follows from the time of playing alone."""
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=10**6, duty=0.25)
    request, play, ends = transport.request, worker._play, []

    def swallowed(*arguments, **options):
        if str(arguments[1]).endswith("/results"):
            outside.time_s += 5.0
            raise httpx2.ReadTimeout("no answer")
        return request(*arguments, **options)

    def watched(*batch):
        play(*batch)
        ends.append(outside.time_s)
        outside.asked = len(ends) == 20

    transport.request, worker._play = swallowed, watched
    began = outside.time_s
    worker.run()
    assert outside.time_s - began < 20 * 10.0


def test_a_lease_call_that_failed_is_made_again_soon(worker_of, client, retrying_client, outside):
    """Not at the time at which the league asked to be asked again."""
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=10**6)
    worker._session.register()
    worker._session.next_poll_s = 1000.0
    call, play, failures = client.lease, worker._play, itertools.count()

    def unreachable_three_times(request):
        if next(failures) < 3:
            raise LeagueUnreachable("here", "no answer", "start it")
        return call(request)

    def watched(*batch):
        play(*batch)
        outside.asked = True

    client.lease, worker._play = unreachable_three_times, watched
    began = outside.time_s
    worker.run()
    assert worker.matches == 12
    assert outside.time_s - began < 0.25 + 0.5 + 1.0 + 1.0


@pytest.mark.parametrize("call", ["heartbeat", "report"])
def test_a_failed_heartbeat_or_delivery_is_retried_soon(worker_of, client, retrying_client, outside, call):
    """Before the next one is due: a heartbeat after 30 s, a delivery after 2 s."""
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=10**6)
    made, times = getattr(client, call), []
    if call == "heartbeat":
        worker._play = lambda *_: outside.pause(0.1)  # real matches take long, and results do not matter here
    worker._session.register()

    def unreachable_three_times(*arguments):
        times.append(outside.time_s)
        if len(times) <= 3:
            raise LeagueUnreachable("here", "no answer", "start it")
        outside.asked = True
        return made(*arguments)

    setattr(client, call, unreachable_three_times)
    worker.run()
    assert times[3] - times[0] < 0.25 + 0.5 + 1.0 + 0.5


def test_round_waits_for_checkpoints_delayed_by_the_network(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2, 3])
    worker, _ = worker_of(rounds=10**6)
    download, play, failures = worker._pools["rps"]._download, worker._play, itertools.count()
    batches = []

    def unreachable_six_times(sha256):
        return None if next(failures) < 6 else download(sha256)

    def watched(environment, tables):
        batches.append(len(tables))
        play(environment, tables)
        outside.asked = True

    worker._pools["rps"]._download, worker._play = unreachable_six_times, watched
    worker.run()
    assert batches == [4], "a round of a few matches takes as long as one of many"


def test_unplayed_leases_are_released_at_the_end(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=3)
    granted, lease = [], worker._session.lease

    def watched(*arguments):
        leases = lease(*arguments)
        granted.extend(leases or [])
        return leases

    worker._session.lease = watched
    worker.run()
    assert len(granted) * 3 > worker.matches
    played = {match.lease_id for match in matches_of(client)}
    unplayed = [each for each in granted if each.lease_id not in played]
    assert unplayed
    for each in unplayed[:20]:
        assert client.explain_lease(each.lease_id).released_at is not None


def test_evaluator_prints_at_its_end_how_many_results_wait(worker_of, client, retrying_client, transport):
    publish(client, retrying_client, [1, 2])
    output = io.StringIO()
    worker, _ = worker_of(rounds=1, console=Console(file=output, width=500))
    play = worker._play

    def gone_meanwhile(*batch):
        play(*batch)
        transport.down = True

    worker._play = gone_meanwhile
    worker.run()
    waits = "played 12 rating matches; delivered 0 results before exit, 12 wait in the spool"
    assert waits in output.getvalue()
    transport.down = False
    output = io.StringIO()
    worker, _ = worker_of(rounds=1, console=Console(file=output, width=500))
    worker._play_round = lambda: False
    worker.run()
    assert "all results are delivered" in output.getvalue()
    assert len(matches_of(client)) == 12


@pytest.fixture
def full_disk(monkeypatch):
    """Let writes that grow a file fail until `full` is false."""

    class DiskRetry:
        full = True

    append = AppendFile._write_all

    def appended(self, data):
        if DiskRetry.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(self, data)

    monkeypatch.setattr(AppendFile, "_write_all", appended)
    return DiskRetry


def test_a_full_disk_stops_no_matches_and_results_are_reported_once_there_is_room(
    worker_of, client, retrying_client, outside, full_disk
):
    publish(client, retrying_client, [1, 2])
    worker, spool = worker_of(rounds=3)
    pause, output = outside.pauses.append, []
    worker._disk._log = output.append

    def room_after_two_rounds(seconds):
        outside.asked = len(outside.pauses) == 3
        full_disk.full = len(outside.pauses) < 2
        pause(seconds)

    worker._run_context = replace(worker._run_context, pause=room_after_two_rounds)
    worker.run()
    assert len(matches_of(client)) == worker.matches > 12
    assert spool.undelivered_bytes() == 0
    assert len([line for line in output if line.startswith("cannot write results (No space left")]) == 1
    assert output.count("results can be written again") == 1


def test_evaluator_ending_on_a_full_disk_reports_lost_results(worker_of, client, retrying_client, full_disk, tmp_path):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=1)
    with refused("unsaved-run", f"{tmp_path}/spool"):
        worker.run()


def test_evaluator_obeys_the_stop_command(worker_of, client, retrying_client, outside):
    publish(client, retrying_client, [1, 2])
    worker, _ = worker_of(rounds=1000)
    worker._session.register()
    evaluator = next(each for each in client.workers().items if each.kind == "evaluator")
    client.command_worker(evaluator.id, "stop")
    worker.run()
    assert not outside.asked


def test_quarantine_is_printed_once_with_reason_and_remedy(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2])
    output = io.StringIO()
    worker, _ = worker_of(rounds=60, console=Console(file=output, width=500))
    worker._session.register()
    own = worker._session.worker_id
    client.quarantine_worker(own, datetime.now(UTC), "broken build")
    worker.run()
    assert output.getvalue().count("(broken build)") == 1
    assert f"`league worker reinstate {own}`" in output.getvalue()
    assert worker.matches == 0


def test_pairs_that_cannot_be_played_are_given_back(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2])
    output = io.StringIO()
    worker, _ = worker_of(rounds=600, console=Console(file=output, width=500))
    released = []
    membership = worker._session
    release = membership.release
    membership.release = lambda lease_ids, named: (released.extend(lease_ids), release(lease_ids, named))
    pool = worker._pools["rps"]
    pool._download = lambda sha256: None
    worker.run()
    assert released
    for lease_id in released[:20]:
        assert client.explain_lease(lease_id).released_at is not None
    printed = [
        line
        for line in output.getvalue().splitlines()
        if "cannot play rating matches" in line and ": checkpoint" in line
    ]
    assert len(released) > len(printed) == len(set(printed)) > 0, "each is printed once"


def test_damaged_player_is_reported_and_no_longer_paired(worker_of, client, retrying_client):
    publish(client, retrying_client, [1, 2])
    damaged = next(player for player in client.players("rps").items if player.kind == "snapshot")
    worker, _ = worker_of()
    pool = worker._pools["rps"]
    resolve, met = pool.resolve, []

    def fail(checkpoint, name):
        if checkpoint == damaged.checkpoint:
            met.append(name)
            raise UnusableOpponentError("its weights are not finite")
        return resolve(checkpoint, name)

    pool.resolve = fail
    worker._session.register()
    while not met:  # a round of two pairs may leave somebody out
        worker._sync_with_league(0.0)
        worker._play_round()
    leases = worker._session.lease("rps", 8, 1)
    assert leases
    for lease in leases:
        assert damaged.id not in (lease.home.player_id, lease.away.player_id)


def test_a_live_learner_is_not_rated_as_if_frozen(worker_of):
    worker, _ = worker_of()
    with refused("unusable-opponent", "main"):
        _load_player(worker._pools["rps"], wire.Seat(player_id=1, checkpoint=None, name="main"))


@pytest.mark.integration
def test_processes_are_reused_between_rounds_and_play_the_same_matches():
    game, grounds = "zoo_games:relay", EnvironmentCache(2)
    players = [RandomPolicy(declare(game).heads) for _ in range(2)]
    rounds = [([1, 2, 3], 0), ([4, 5, 6], 1), ([7, 8], 2)]
    opened = []
    for seeds, chance in rounds:
        pairs = [tuple(players)] * len(seeds)
        opened.append(grounds.open(game, len(seeds)))
        rngs = [torch.Generator().manual_seed(chance) for _ in range(2)]
        assert play_pairs_in(opened[-1], pairs, seeds, rngs[0]) == play_pairs(game, pairs, seeds, rngs[1])
    first, second, third = opened
    assert first is second
    assert third is not second
    assert [len(env._workers.each) for env in (second, third)] == [2, 2]


def test_only_games_that_play_one_match_at_a_time_are_played_in_processes():
    several, alone = EnvironmentCache(2), EnvironmentCache(0)
    assert several.uses_processes("zoo_games:relay:rounds=2")
    assert not several.uses_processes("rps")
    assert not alone.uses_processes("zoo_games:relay")
    assert several.open("rps", 3).num_envs == 3
    assert not plays_single_matches(several.open("rps", 3))
    assert not isinstance(alone.open("zoo_games:relay", 2), SubprocessBatch)
