"""Small runs on rock-paper-scissors, and what they left in their folder and in the league's log."""

import json

from trainer.config import resolve
from trainer.spool import Spool

RPS = ["environment.num_envs=8", "rollout.steps=8", "rollout.chunk=8", "league.lease_budget=4"]


def rps(*settings):
    return resolve("rps", None, [*RPS, *settings])


def spooled(tmp_path, run="run"):
    files = sorted((tmp_path / run / "spool").glob("results-*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def waiting(run):
    """Results that there was no time to send, or of which no answer came; the next start sends them."""
    spool, found = Spool(run / "spool"), []
    spool.deliver(lambda results: found.extend(results))
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
