"""Results over a network that is cut, slow, silent, or loses answers: each counts once."""

from collections.abc import Callable

import pytest
from distant_league import League, until

from benchmarks.kills.witness import Witness
from league.client import LeagueClient
from league.errors import LeagueUnreachable

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


def test_whoever_calls_over_a_broken_network_is_told_in_one_line(serve: Callable[..., League]) -> None:
    league = serve()
    with LeagueClient(league.url) as patient, LeagueClient(league.url, timeout_s=0.2) as hasty:
        assert patient.learners("rps").items == []
        for how in BREAKS:
            getattr(league.network, how)()
            with pytest.raises(LeagueUnreachable, match=r"no answer .*check the address and the network"):
                hasty.learners("rps")
            league.network.fair()
        assert patient.learners("rps").items == []
