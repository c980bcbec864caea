"""Whether duels have a circle of tactics, and how long and how even they are."""

import numpy as np
import pytest

from arena.depth.matches import Ledger, TacticMatches
from arena.policies.mech.tactics import Tactic

MATCHES = 96
LASER_STRAFER = Tactic(strafe=1.0, vent_above=0.4, tertiary=False)
ZONE_STRAFER = Tactic(strafe=1.0, vent_above=0.4)
KITER = Tactic(distance=11.0, strafe=0.5, hunts=True, vent_above=0.4, primary=False)
CIRCLE = {"laser": LASER_STRAFER, "zone": ZONE_STRAFER, "kiter": KITER}
"""Each beats the next one, and the last one the first."""


def score(preset: str, one: Tactic, other: Tactic, ledger: Ledger | None = None) -> float:
    return float(TacticMatches(preset).scores([(one, other)] * MATCHES, 11, ledger).mean())


def lead(preset: str) -> list[float]:
    tactics = list(CIRCLE.values())
    return [score(preset, tactics[k], tactics[(k + 1) % 3]) for k in range(3)]


def test_three_tactics_beat_each_other_in_the_long_duel() -> None:
    assert min(lead("mech-duel-2")) > 0.6


def test_the_short_duel_has_no_such_circle() -> None:
    assert min(lead("mech-duel")) < 0.5


@pytest.mark.parametrize("tactic", CIRCLE.values(), ids=CIRCLE)
def test_equal_tactics_of_the_long_duel_fight_for_long_and_draw_rarely(tactic: Tactic) -> None:
    ledger = Ledger()
    score("mech-duel-2", tactic, tactic, ledger)
    assert 60 <= np.median([result.decisions for result in ledger.results]) <= 140
    assert np.mean([result.score == 0.5 for result in ledger.results]) < 0.2
