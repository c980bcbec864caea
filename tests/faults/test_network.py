"""Results over a network that is cut, slow, silent, or loses answers: each counts once."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from distant_league import League, until
from kills.processes import Command
from kills.witness import Witness
from refused import refused
from small_runs import logged, spooled, waiting

from league.client import LeagueClient

BREAKS = ("cut", "hold", "deafen")


def goes_on(witness: Witness, answers: int = 20) -> None:
    before = witness.memory.answers
    until(lambda: witness.memory.answers >= before + answers or not witness.at_work)
    assert witness.at_work, witness.memory.broken


@pytest.mark.parametrize("how", BREAKS)
def test_a_broken_network_delays_results_and_each_counts_once(
    serve: Callable[..., League], watch: Callable[..., Witness], how: str
) -> None:
    league = serve()
    witness = watch(league, timeout_s=1.0)
    for _ in range(2):
        goes_on(witness)
        failures = witness.failures
        getattr(league.network, how)()
        until(lambda failures=failures: witness.failures > failures + 1)
        league.network.fair()
    goes_on(witness)
    witness.stop()
    assert witness.memory.gaps_s
    assert league.wrong(witness.memory) == []


def test_answers_that_come_late_come_all_the_same(serve: Callable[..., League], watch: Callable[..., Witness]) -> None:
    league = serve()
    league.network.delay(0.05)
    witnesses = [watch(league), watch(league)]
    for witness in witnesses:
        goes_on(witness)
        witness.stop()
    assert league.wrong(*(witness.memory for witness in witnesses)) == []
    assert not any(witness.memory.gaps_s for witness in witnesses)


def test_broken_network_is_a_one_line_error(serve: Callable[..., League]) -> None:
    league = serve()
    with LeagueClient(league.url) as patient, LeagueClient(league.url, timeout_s=0.2) as hasty:
        assert patient.learners("rps").items == []
        for how in BREAKS:
            getattr(league.network, how)()
            with refused("league-unreachable"):
                hasty.learners("rps")
            league.network.fair()
        assert patient.learners("rps").items == []


@pytest.mark.timeout(300)
def test_a_signal_over_a_network_that_works_again_leaves_no_result_behind(
    serve: Callable[..., League], tmp_path: Path
) -> None:
    """Whatever back-off the outage has left."""
    league, run = serve(), tmp_path / "run"
    settings = ("environment.num_envs=8", "rollout.num_steps=8", "rollout.bptt_horizon=8", "league.lease_budget=4")
    words = [word for each in settings for word in ("--set", each)]
    where = ("--url", league.url, "--run", str(run), "--environment", "rps")
    trainer = Command("trainer", ["trainer", "run", *where, *words], {}, run.with_suffix(".log"))
    with LeagueClient(league.url) as client:
        trainer.start()
        try:
            until(lambda: client.learners("rps").items and logged(client))
            league.network.cut()
            until(lambda: waiting(run) and "trying again until it answers" in trainer.said())
            league.network.fair()
            assert trainer.pid is not None
            os.kill(trainer.pid, signal.SIGINT)
            until(lambda: trainer.pid is None)
        finally:
            trainer.end()
        counted = {(each.lease_id, each.sequence) for each in logged(client)}
    last_line = trainer.said().rstrip().splitlines()[-1]
    assert last_line.startswith("saved at step")
    assert "all results are delivered" in last_line
    assert waiting(run) == set()
    assert {(each["lease_id"], each["sequence"]) for each in spooled(tmp_path)} == counted
