"""Small runs on rock-paper-scissors, and what they left in their folder and in the league's log."""

import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from league.client.result_spool import ResultSpool
from league.wire import ResultAnswer, ResultBatch, ResultBatchAnswer
from trainer.checkpointing import format as state
from trainer.config.loading import resolve

RPS = ["environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "league.lease_budget=4"]


def rps(*settings):
    return resolve("rps", None, [*RPS, *settings])


def spooled(tmp_path, run="run"):
    files = sorted((tmp_path / run / "spool").glob("results-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def deliver_rest(run, client):
    """Send what waits, as the next start would."""
    worker = state.load(run / "state.safetensors").counters["attachment"]["worker_id"]
    spool = ResultSpool(run / "spool")
    spool.deliver(lambda results: client.report(ResultBatch(worker_id=worker, results=results)))
    spool.close()
    return spool.outcomes


def waiting(run):
    """Results of which no answer came, or that there was no time to send; the next start sends them."""
    found = []

    def take(results):
        found.extend(results)
        return ResultBatchAnswer(items=[answer_to(each) for each in results], next_poll_s=1.0)

    def answer_to(result):
        return ResultAnswer(
            lease_id=result.lease_id, sequence=result.sequence, status="accepted", match_id=None, detail=None
        )

    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(run / "spool", Path(folder) / "spool")
        spool = ResultSpool(Path(folder) / "spool")
        spool.deliver(take)
        spool.close()
    return {(each.lease_id, each.sequence) for each in found}


def logged(client, environment="rps"):
    """All matches of the league's log, newest first."""
    player = client.learners(environment).items[0].player_id
    matches, cursor = [], None
    while True:
        page = client.matches(player, limit=1000, cursor=cursor)
        matches += page.items
        cursor = page.next_cursor
        if cursor is None:
            return matches


def same_results(spool, matches):
    """Whether every spooled result is one match of the log, and the other way round."""
    written = sorted((each["lease_id"], each["sequence"], each["score"], each["seed"]) for each in spool)
    return written == sorted((each.lease_id, each.sequence, each.score, each.seed) for each in matches)


def without_gaps(matches):
    """Whether the matches of every lease are its first ones: those in between are not lost."""
    of_leases = defaultdict(set)
    for each in matches:
        of_leases[each.lease_id].add(each.sequence)
    return all(sequences == set(range(len(sequences))) for sequences in of_leases.values())
