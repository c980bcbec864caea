"""How long, how even and how varied duels are."""

import numpy as np
import pytest

from arena.depth.matches import Ledger, NamedPolicy, Player, TacticMatches
from arena.environments import make_baseline
from arena.policies.mech.tactics import PLAIN, WEAVER, Tactic

MATCHES = 96
LONG = "mech-duel-2"
TACTICS = {
    "weaver": WEAVER,
    "laser strafer": Tactic(strafe=0.5, vent_above=0.4, leads=True, tertiary=False),
    "zone strafer": Tactic(strafe=0.5, vent_above=0.4),
}


def score(one: Player, other: Player, ledger: Ledger | None = None) -> float:
    return float(TacticMatches(LONG).scores([(one, other)] * MATCHES, 11, ledger).mean())


def lieutenant() -> NamedPolicy:
    return NamedPolicy("lieutenant", make_baseline(LONG, "lieutenant"))


def draws(ledger: Ledger) -> float:
    return float(np.mean([result.score == 0.5 for result in ledger.results]))


@pytest.mark.parametrize("tactic", TACTICS.values(), ids=TACTICS)
def test_equal_tactics_of_the_long_duel_fight_for_long_and_draw_rarely(tactic: Tactic) -> None:
    ledger = Ledger()
    score(tactic, tactic, ledger)
    assert 60 <= np.median([result.decisions for result in ledger.results]) <= 120
    assert draws(ledger) < 0.2


@pytest.mark.parametrize("trigger", ["primary", "secondary"])
def test_laser_and_missile_of_the_long_duel_help(trigger: str) -> None:
    whole = TACTICS["zone strafer"]
    assert score(Tactic(strafe=0.5, vent_above=0.4, **{trigger: False}), whole) < 0.48


def test_the_lieutenant_of_the_long_duel_is_an_anchor() -> None:
    ledger = Ledger()
    score(lieutenant(), lieutenant(), ledger)
    assert draws(ledger) < 0.2
    assert max(ledger.damage_shares.values()) < 0.6
    for tactic in (PLAIN, Tactic(strafe=1.0), Tactic(strafe=1.0, vent_above=0.4)):
        assert score(tactic, lieutenant()) < 0.65
