"""Whether the long duel has a circle of builds, and how long, how even and how varied its matches are."""

import numpy as np

from arena.depth.matches import Ledger, NamedPolicy, Player, TacticMatches
from arena.environments import make_baseline
from arena.policies.mech.tactics import PLAIN, STRAFER, Tactic

MATCHES = 96
LONG = "mech-duel-2"
CIRCLE = {
    "sniper": Tactic(distance=9.5, strafe=0.5, hunts=True, vent_above=0.4, build=2),
    "brawler": Tactic(distance=0.0, strafe=0.5, hunts=True, vent_above=0.4, build=0),
    "skirmisher": Tactic(distance=0.0, strafe=0.5, hunts=True, vent_above=0.4, build=1),
}
"""Each beats the next one, and the last one the first."""


def score(one: Player, other: Player, ledger: Ledger | None = None) -> float:
    return float(TacticMatches(LONG).scores([(one, other)] * MATCHES, 11, ledger).mean())


def test_three_builds_beat_each_other_in_the_long_duel() -> None:
    tactics = list(CIRCLE.values())
    assert min(score(tactics[k], tactics[(k + 1) % 3]) for k in range(3)) > 0.6


def test_the_lieutenant_of_the_long_duel_is_an_anchor() -> None:
    ledger = Ledger()
    lieutenant = NamedPolicy("lieutenant", make_baseline(LONG, "lieutenant"))
    score(lieutenant, lieutenant, ledger)
    assert 60 <= np.median([result.decisions for result in ledger.results]) <= 120
    assert np.mean([result.score == 0.5 for result in ledger.results]) < 0.2
    assert max(ledger.damage_shares.values()) < 0.5
    for tactic in (PLAIN, Tactic(strafe=1.0), STRAFER):
        assert score(tactic, lieutenant) < 0.65
