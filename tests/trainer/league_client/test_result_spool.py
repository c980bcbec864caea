import errno
import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from league.client import result_spool as spools
from league.client.result_spool import ResultSpool
from league.errors import InvalidRequestError, TooLargeError
from league.wire import Result, ResultAnswer, ResultBatchAnswer


def result(lease="a", sequence=0, score=1.0):
    return Result(lease_id=lease, sequence=sequence, score=score, decisions=3, reason="over", seed=7, learner_step=5)


class Server:
    """Accept every result once, unless `away`."""

    def __init__(self):
        self.taken: dict[tuple[str, int], Result] = {}
        self.calls: list[int] = []
        self.away = False
        self.status = {}

    def report(self, results):
        if self.away:
            return None
        self.calls.append(len(results))
        return ResultBatchAnswer(items=[self._take(each) for each in results], next_poll_s=1.0)

    def _take(self, each):
        key = each.lease_id, each.sequence
        status = self.status.get(key, "duplicate" if key in self.taken else "accepted")
        self.taken.setdefault(key, each)
        return ResultAnswer(lease_id=key[0], sequence=key[1], status=status, match_id=1, detail="why")


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def opened(tmp_path):
    """Opens spools in one folder, as one process after another."""
    spools = []

    def open_spool(**options):
        spools.append(ResultSpool(tmp_path, **options))
        return spools[-1]

    yield open_spool
    for spool in spools:
        spool._file.close()


def fill(spool, count, start=0):
    for sequence in range(start, start + count):
        spool.append(result(sequence=sequence))
    spool.sync()


def test_results_are_delivered_once_and_in_order(opened, server):
    spool = opened()
    fill(spool, 3)
    spool.deliver(server.report)
    spool.deliver(server.report)
    assert [key[1] for key in server.taken] == [0, 1, 2]
    assert server.calls == [3]
    assert spool.undelivered_bytes() == 0


def test_results_that_are_not_synced_are_not_delivered(opened, server):
    spool = opened()
    spool.append(result())
    spool.deliver(server.report)
    assert server.calls == []
    spool.sync()
    spool.deliver(server.report)
    assert server.calls == [1]


def test_results_wait_while_the_league_is_away_and_through_a_restart(opened, server):
    spool = opened()
    server.away = True
    fill(spool, 5)
    spool.deliver(server.report)
    assert spool.undelivered_bytes() > 0
    spool.close()
    server.away = False
    opened().deliver(server.report)
    assert len(server.taken) == 5


def test_a_crash_before_the_position_is_written_sends_again_and_counts_once(opened, server, monkeypatch):
    spool = opened()
    fill(spool, 4)
    monkeypatch.setattr(spool, "_write_delivered", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        spool.deliver(server.report)
    again = opened()
    again.deliver(server.report)
    assert server.calls == [4, 4]
    assert len(server.taken) == 4
    assert again.outcomes == {"duplicate": 4}


def test_batches_are_bounded(opened, server, monkeypatch):
    monkeypatch.setattr(spools, "BATCH_SIZE", 2)
    spool = opened()
    fill(spool, 5)
    spool.deliver(server.report)
    assert server.calls == [2, 2, 1]


def rejected_results(folder):
    return [Result.model_validate_json(line) for line in (folder / "refused.jsonl").read_text().splitlines()]


def test_rejected_results_are_logged_set_aside_and_do_not_block_others(opened, tmp_path, server, caplog):
    server.status = {("a", 1): "rejected", ("a", 2): "conflict"}
    spool = opened()
    fill(spool, 4)
    spool.deliver(server.report)
    assert spool.undelivered_bytes() == 0
    assert spool.outcomes == {"accepted": 2, "rejected": 1, "conflict": 1}
    assert rejected_results(tmp_path) == [result(sequence=1)]
    assert "result a/1 rejected: why" in caplog.text
    assert "result a/2 conflict: why" in caplog.text


def test_a_line_cut_short_by_a_crash_is_dropped(opened, tmp_path, server):
    spool = opened()
    fill(spool, 2)
    spool.close()
    file = tmp_path / "results-00000001.jsonl"
    file.write_bytes(file.read_bytes() + b'{"lease_id": "a", "seq')
    again = opened()
    fill(again, 1, start=2)
    again.deliver(server.report)
    assert sorted(key[1] for key in server.taken) == [0, 1, 2]


def test_damaged_line_is_logged_and_skipped(opened, tmp_path, server, caplog):
    first = opened()
    fill(first, 3)
    first.close()
    file = next(tmp_path.glob("results-*.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + b"\x00 not a result\n" + lines[2])
    second = opened()
    assert second.highest_sequences() == {"a": 2}
    second.deliver(server.report)
    assert sorted(server.taken) == [("a", 0), ("a", 2)]
    assert second.undelivered_bytes() == 0
    assert "not a result" in caplog.text


def test_a_damaged_position_sends_everything_again_and_counts_once(opened, tmp_path, server, caplog):
    first = opened()
    fill(first, 3)
    first.deliver(server.report)
    first.close()
    (tmp_path / "delivered.json").write_bytes(b"")
    opened().deliver(server.report)
    assert server.calls == [3, 3]
    assert len(server.taken) == 3
    assert "is damaged" in caplog.text


def files(folder):
    return [int(file.stem.removeprefix("results-")) for file in sorted(folder.glob("results-*"))]


def test_files_that_are_settled_go_as_soon_as_they_are_delivered(opened, tmp_path, server):
    spool = opened(file_bytes=200)
    for start in range(0, 12, 3):
        fill(spool, 3, start)
        spool.rotate()
    assert files(tmp_path) == [1, 2, 3, 4, 5]
    spool.deliver(server.report)
    assert len(server.taken) == 12
    assert files(tmp_path) == [5]
    assert opened().undelivered_bytes() == 0


@pytest.mark.parametrize(("free", "kept"), [(100_000, [1]), (1_000, [2])])
def test_on_a_small_disk_delivered_results_go_sooner(opened, tmp_path, server, monkeypatch, free, kept):
    monkeypatch.setattr(spools.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    spool = opened()
    fill(spool, 3)
    spool.rotate()
    spool.deliver(server.report)
    assert files(tmp_path) == kept


def test_delivered_sequences_are_remembered_until_the_state_is_saved(opened, tmp_path, server):
    spool = opened(file_bytes=200)
    fill(spool, 3)
    spool.rotate()
    fill(spool, 3, 3)
    spool.deliver(server.report)
    assert files(tmp_path) == [2]
    assert opened().highest_sequences() == {"a": 5}
    spool.rotate()
    spool.deliver(server.report)
    assert files(tmp_path) == [3]


def test_delivered_files_are_removed_on_a_full_disk(opened, tmp_path, server, monkeypatch):
    def full(path, data, *, durably):
        raise OSError(errno.ENOSPC, "No space left on device")

    spool = opened(file_bytes=200)
    fill(spool, 3)
    spool.rotate()
    fill(spool, 1, 3)
    with monkeypatch.context() as refusing:
        refusing.setattr(spools, "write_atomically", full)
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                spool.deliver(server.report)
    assert files(tmp_path) == [2]
    again = opened()
    assert again.undelivered_bytes() > 0
    again.deliver(server.report)
    assert sorted(key[1] for key in server.taken) == [0, 1, 2, 3]


def test_a_result_that_the_league_will_not_have_is_set_aside_and_the_others_are_delivered(
    opened, tmp_path, server, caplog
):
    def picky(results):
        if any(each.sequence in (2, 7) for each in results):
            raise InvalidRequestError("results", "one is not in range", "report the match's own")
        return server.report(results)

    spool = opened()
    fill(spool, 9)
    spool.deliver(picky)
    assert sorted(key[1] for key in server.taken) == [0, 1, 3, 4, 5, 6, 8]
    assert spool.undelivered_bytes() == 0
    assert spool.outcomes == {"accepted": 7, "refused": 2}
    assert rejected_results(tmp_path) == [result(sequence=2), result(sequence=7)]
    assert "result a/2 refused: " in caplog.text
    assert "one is not in range; report the match's own" in caplog.text
    assert "the league rejected 2 results" in caplog.text


def test_rejected_batch_is_kept_if_the_league_becomes_unavailable(opened, tmp_path, server):
    def fickle(results):
        if len(results) > 2:
            raise TooLargeError("body", "it has too many bytes", "send less")
        server.away = gone and len(server.taken) > 0
        return server.report(results)

    gone, server.status = True, {("a", 0): "rejected"}
    spool = opened()
    fill(spool, 4)
    spool.deliver(fickle)
    assert len(server.taken) == 2
    assert spool.undelivered_bytes() > 0
    assert not (tmp_path / "refused.jsonl").exists()
    gone = False
    spool.deliver(fickle)
    assert len(server.taken) == 4
    assert spool.undelivered_bytes() == 0
    assert rejected_results(tmp_path) == [result(sequence=0)]


def test_rejected_result_is_set_aside_once_even_if_a_crash_resends_it(opened, tmp_path, server, monkeypatch):
    server.status = {("a", sequence): "rejected" for sequence in (1, 2, 4)}
    spool = opened()
    fill(spool, 3)
    monkeypatch.setattr(spool, "_write_delivered", lambda: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        spool.deliver(server.report)
    spool.close()
    again = opened()
    fill(again, 2, start=3)
    again.deliver(server.report)
    assert rejected_results(tmp_path) == [result(sequence=sequence) for sequence in (1, 2, 4)]


def test_results_that_a_disk_refused_and_left_in_the_file_are_not_delivered_before_they_are_synced(
    opened, tmp_path, server
):
    spool = opened()
    fill(spool, 2)
    with (tmp_path / "results-00000001.jsonl").open("ab") as file:
        file.write(result(sequence=2).model_dump_json().encode() + b"\n")
    spool.deliver(server.report)
    assert sorted(key[1] for key in server.taken) == [0, 1]
    assert spool.undelivered_bytes() == 0


def test_delivered_position_is_written_without_fsync(opened, server, monkeypatch):
    spool, synced = opened(), []
    fill(spool, 3)
    monkeypatch.setattr(os, "fsync", synced.append)
    spool.deliver(server.report)
    assert server.calls == [3]
    assert not synced


def test_the_highest_sequence_of_every_lease_is_known_after_a_restart(opened):
    spool = opened()
    for lease, sequence in [("a", 0), ("b", 4), ("a", 2), ("a", 1)]:
        spool.append(result(lease, sequence))
    spool.close()
    assert opened().highest_sequences() == {"a": 2, "b": 4}


def test_undelivered_counts_bytes_over_several_files(opened, tmp_path):
    spool = opened(file_bytes=200)
    fill(spool, 3)
    spool.rotate()
    fill(spool, 3, 3)
    spool.rotate()
    spool.append(result(sequence=6))
    spool.sync()
    total = sum(file.stat().st_size for file in tmp_path.glob("results-*"))
    assert spool.undelivered_bytes() == total


WRITER = """
import sys
from pathlib import Path
from league.wire import Result
from league.client.result_spool import ResultSpool
spool = ResultSpool(Path(sys.argv[1]), file_bytes=4000)
sequence = int(sys.argv[2])
while True:
    for _ in range(7):
        spool.append(Result(lease_id="a", sequence=sequence, score=1.0, decisions=1, reason="over", seed=1))
        sequence += 1
    spool.sync()
    print(sequence, flush=True)
    spool.rotate()
"""


@pytest.mark.integration
def test_kill_9_loses_nothing_that_was_synced(opened, tmp_path, server):
    """A writer is killed twice in the middle of its work: every sequence that it called safe is delivered, once."""
    safe = 0
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, str(tmp_path), str(len(server.taken))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
        for _ in range(15):  # more than a file's
            last = process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        printed = [last, *process.stdout.read().splitlines(keepends=True)]
        process.wait()
        process.stdout.close()
        safe = int([line for line in printed if line.endswith("\n")][-1])
        opened().deliver(server.report)
    delivered = sorted(key[1] for key in server.taken)
    assert delivered == list(range(len(delivered)))
    assert len(delivered) >= safe >= 2 * 15 * 7
    assert sum(server.calls) == len(delivered)
    assert json.loads((tmp_path / "delivered.json").read_text())["file"] > 1
