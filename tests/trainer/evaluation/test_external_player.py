"""`trainer enter`: a policy from outside plays rating matches in a league, and fails as it says it does."""

import random
import sys
from pathlib import Path

import pytest
import torch
from live_server import listening
from refused import assert_names
from sqlalchemy import select

from arena.environments import declare
from arena.play.runner import FORFEIT
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import encode
from league.db.models import Lease, Match
from league.errors import LeagueUnreachable
from trainer import cli
from trainer.config.schema import LeagueSettings
from trainer.evaluation.external_player import Entry, ExternalPlayerSession
from trainer.league_client.retrying_client import RetryingClient
from trainer.league_client.session import LeagueSession

SPEC = declare("rps")
EXAMPLES = Path(__file__).parents[3] / "examples" / "external"

BOTS = """
import numpy as np


def stone(batch):
    return {"choice": np.zeros(len(batch), int)}


def cheating(batch):
    return {"choice": np.full(len(batch), 7)}


class Sometimes:
    '''Plays on until so many batches are answered, and then does what is not allowed in half of its matches.'''

    identity = "sometimes 1"
    batches = 0

    def __init__(self, game):
        pass

    def __call__(self, batch):
        self.batches += 1
        wrong = (np.arange(len(batch)) % 2 == 0) & (self.batches > 2)
        return {"choice": np.where(wrong, 7, 0)}


class Failing(Sometimes):
    def __call__(self, batch):
        self.batches += 1
        if self.batches > 4:
            raise RuntimeError("out of\\nideas")
        return {"choice": np.zeros(len(batch), int)}


class Renamed(Sometimes):
    identity = "sometimes 2"
"""


@pytest.fixture
def league(transport, client, outside):
    """A league that listens, with a learner and three snapshots."""
    retrying_client = RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)
    member = LeagueSession(retrying_client, LeagueSettings(), SPEC, "0")
    member.register()
    for step in (1, 2, 3):
        torch.manual_seed(step)
        network = ActorCritic(Architecture.of(SPEC, encoder_sizes=(4,), recurrent_size=4))
        assert member.publish(encode(network, SPEC), step, None) is not None
    with listening(transport.app) as address:
        yield address


@pytest.fixture
def enter(league, tmp_path, monkeypatch, capsys):
    """Run the command in this process, from a folder with bots; return what it printed."""
    (tmp_path / "entered_bots.py").write_text(BOTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(policy, *options, name="stone", expect=0, environment="rps"):
        usual = ["--environment", environment, "--url", league, "--matches", "16", "--num-envs", "8"]
        usual += ["--record-every", "0", "--timeout", "600", "--start-timeout", "600"]
        with pytest.raises(SystemExit) as left:
            cli.main(["enter", "--name", name, "--policy", policy, *usual, *options])
        printed = capsys.readouterr()
        assert left.value.code == expect, printed.err
        return printed.out + printed.err

    yield run
    sys.modules.pop("entered_bots", None)


def external(client, name="stone"):
    return next(player for player in client.players("rps", kind="external").items if player.name == name)


def matches_of(client, player):
    return client.matches(player.id, limit=1000).items


def test_external_player_plays_both_sides_and_resumes_as_the_same_player(enter, client):
    printed = enter("entered_bots:stone")
    stone = external(client)
    assert f"stone is player {stone.id} of rps: rating 1500 ± 700 after 0 games" in printed
    assert "rps: 8 rating matches of" in printed
    assert "played 16 rating matches" in printed
    matches = matches_of(client, stone)
    assert len(matches) == 16
    assert {match.kind for match in matches} == {"rating"}
    assert len({match.seed for match in matches}) == 8
    assert sum(match.home.player_id == stone.id for match in matches) == 8
    client.close_period("rps")
    rated = client.player(stone.id)
    assert rated.games == 16
    assert rated.metadata == {"form": "python", "identity": None}
    assert f"rating {rated.rating:.0f} ± " in enter("entered_bots:stone", "--matches", "2")
    assert len(matches_of(client, stone)) == 18
    (worker,) = client.workers(name="entry-stone").items
    assert (worker.kind, worker.results) == ("entrant", 18)


@pytest.mark.integration
def test_a_process_plays_in_a_league(enter, client, tmp_path):
    text = (EXAMPLES / "bot.py").read_text(encoding="utf-8")
    counting = text.replace('"answer": choices', '"choice": [0] * len(cues)')
    counting = counting.replace("1 + one.index(1.0) if kept is None else kept", "0").replace("one[4] > 0", "True")
    (tmp_path / "stone.py").write_text(counting, encoding="utf-8")
    enter(f"process:{sys.executable} stone.py")
    assert len(matches_of(client, external(client))) == 16
    assert external(client).metadata == {"form": "process", "identity": "recaller 1.0"}


def test_illegal_action_forfeits_its_match_and_others_count(enter, client):
    printed = enter("entered_bots:Sometimes")
    player = external(client)
    matches = matches_of(client, player)
    assert len(matches) == 16
    lost = [match for match in matches if match.reason == FORFEIT]
    assert len(lost) == 8
    for match in lost:
        assert match.score == (0.0 if match.home.player_id == player.id else 1.0)
    forfeits = [line for line in printed.splitlines() if "entered_bots:Sometimes" in line and "forfeit" in line]
    assert len([line for line in forfeits if "choice is 7" in line]) == 3


def test_a_policy_that_shows_its_fault_at_once_is_not_entered(enter, client):
    printed = enter("entered_bots:cheating", expect=1)
    assert "choice is 7, no option" in printed
    assert "a match against random and was not entered" in printed
    assert client.players("rps", kind="external").items == []
    assert client.workers(name="entry-stone").items == []


def test_a_failing_policy_ends_the_entry_and_earlier_matches_count(enter, client):
    printed = enter("entered_bots:Failing", expect=1)
    assert_names(printed, "RuntimeError: out of ideas")
    assert "Traceback" not in printed
    player = external(client)
    assert len(matches_of(client, player)) == 8, "the first of its batches"
    leases = {client.explain_lease(match.lease_id).state for match in matches_of(client, player)}
    assert leases == {"played"}
    (asked,) = client.workers(name="entry-stone").items
    enter("entered_bots:stone", name="stone", expect=0)
    assert len(matches_of(client, player)) == 24
    assert client.workers(name="entry-stone").items[0].id == asked.id, "the same run folder is the same worker"


def test_another_policy_under_the_same_name_is_refused(enter):
    enter("entered_bots:Sometimes", "--matches", "2")
    printed = enter("entered_bots:Renamed", expect=1)
    assert "entered as sometimes 1 but is now sometimes 2" in printed


def test_an_entry_ends_where_its_player_is_out_of_play(enter, client):
    enter("entered_bots:stone", "--matches", "2")
    stone = external(client)
    client.retire(stone.id)
    printed = enter("entered_bots:stone", expect=1)
    assert "stone is no longer active" in printed
    assert f"league reinstate {stone.id}" in printed


@pytest.mark.parametrize(
    ("policy", "options", "code", "problem"),
    [
        ("stone", (), 2, "is not one of MODULE:ATTRIBUTE"),
        ("entered_bots:nobody", (), 1, "has no 'nobody'"),
        ("entered_bots:stone", ("--name", "/etc"), 2, "/etc"),
        ("entered_bots:stone", ("--environment", "recall"), 1, "head 'answer' is answered not"),
    ],
)
def test_invalid_entry_is_rejected_in_one_line(enter, client, policy, options, code, problem):
    printed = " ".join(enter(policy, *options, expect=code).replace("│", " ").split())
    assert problem in printed
    assert "Traceback" not in printed
    assert client.players("rps", kind="external").items == []


def test_the_leases_of_matches_that_were_under_way_are_given_back(enter, transport):
    enter("entered_bots:Failing", expect=1)
    with transport.app.state.league.database.read() as session:
        unplayed = Lease.id.not_in(select(Match.lease_id)), Lease.kind == "rating"
        states = set(session.scalars(select(Lease.state).where(*unplayed)))
    assert states == {"released"}


def test_player_whose_registration_was_lost_is_registered_again(league, client, outside):
    retrying_client = RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)
    lines, failures, enter = [], iter([True]), client.register_external
    session = ExternalPlayerSession(
        retrying_client, SPEC, Entry("stone", "python", None), version="0", instance=None, print_line=lines.append
    )

    def lost_once(request):
        if next(failures, False):
            raise LeagueUnreachable("here", "no answer", "start it")
        return enter(request)

    client.register_external = lost_once
    assert not session.register()
    outside.time_s += 10.0
    assert session.register()
    assert session.player.name == "stone"
    assert len(lines) == 1
    assert session.lease("rps", 2, 1) is not None
