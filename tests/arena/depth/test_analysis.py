import pytest

from arena.depth.analysis import DepthAnalysis
from arena.depth.double_oracle import Budget
from arena.depth.matches import Ledger, NamedPolicy, TacticMatches
from arena.environments import make_baseline
from arena.environments.mech.config.scenario import PRESETS
from arena.policies.mech.tactics import PLAIN, Tactic, ablations, parameters_of

LIEUTENANT = NamedPolicy("lieutenant", make_baseline("mech-duel", "lieutenant"))
TURRET = NamedPolicy("turret", make_baseline("mech-duel", "turret"))


def analysis() -> DepthAnalysis:
    return DepthAnalysis("mech-duel", [LIEUTENANT], Budget(matches=4, rounds=1, candidates=4, screening=2), seed=5)


def test_scores_are_those_of_the_first_player_on_both_sides():
    matches = TacticMatches("mech-duel")
    pairs = [(PLAIN, TURRET)] * 4 + [(TURRET, PLAIN)] * 4
    assert matches.scores(pairs, seed=1).tolist() == [1.0] * 4 + [0.0] * 4


def test_a_ledger_counts_each_match_once():
    ledger = Ledger()
    matches = TacticMatches("mech-duel")
    matches.scores([(PLAIN, Tactic(primary=False))] * 4, 2, ledger)
    alive = sum(2 * result.decisions for result in ledger.results)

    assert len(ledger.results) == 4
    assert 0.9 * alive <= ledger.alive <= alive
    assert sum(ledger.damage_shares.values()) == pytest.approx(1.0)
    assert set(ledger.damage_shares) == {"laser", "autocannon"}
    assert sum(ledger.reasons.values()) == 4


def test_scores_do_not_depend_on_the_other_matches():
    matches = TacticMatches("mech-duel")
    pairs = [(PLAIN, LIEUTENANT), (PLAIN, LIEUTENANT), (Tactic(distance=0.0, hunts=True), TURRET)]
    assert matches.scores(pairs, 7)[:2].tolist() == matches.scores(pairs[:2], 7).tolist()


@pytest.mark.integration
def test_an_analysis_repeats_with_its_seed_and_resumes():
    saved: list[dict[str, object]] = []
    steps: list[int] = []
    one = analysis().run(None, lambda pool: saved.append(pool.to_dict()), steps.append)
    other = analysis().run(saved[0], lambda pool: None, lambda step: None)

    assert one.to_dict() == other.to_dict()
    assert len(saved) == 1 + len(one.pool.rounds)
    assert sum(steps) == analysis().steps
    assert one.nash.sum() == pytest.approx(1.0)
    assert one.lieutenant_play.matches == one.mixture_play.matches == 32


@pytest.mark.integration
def test_a_mechanic_that_the_mixture_does_not_use_is_worth_nothing():
    found = analysis().run(None, lambda pool: None, lambda step: None)
    for each in found.ablations:
        assert each.used > 0.0 or each.score == 0.5
        assert each.low <= each.score <= each.high
    assert {each.mechanic for each in found.ablations} == set(ablations(PRESETS["mech-duel"]))


def test_parameters_without_equipment_are_left_out():
    duel, pack = (set(parameters_of(PRESETS[name])) for name in ("mech-duel", "mech-pack"))
    assert pack - duel == {"secondary", "jams"}
    assert {"laser", "autocannon, painter"} < ablations(PRESETS["mech-duel"]).keys()
    assert "ECM and ECCM" in ablations(PRESETS["mech-pack"])
