"""What sides gave is an estimate: ratings are as unsure as that is, where it does not cancel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from arena.glicko2 import SCALE, Results
from arena.offsets import Leads
from arena.refit import NO_PARENT, Fit, RefitConfig, fit

LOOSE = RefitConfig(prior_deviation=1e7, pair_correlation=False)


def league(seed: int, players: int = 6, rows: int = 14) -> tuple[Results, np.ndarray]:
    """Results of pairs, and by how much home's player had the home side more often in each."""
    rng = np.random.default_rng(seed)
    home = rng.integers(0, players, rows)
    away = (home + rng.integers(1, players, rows)) % players
    share = np.where(rng.random(rows) < 0.3, 0.0, rng.uniform(-1.0, 1.0, rows))
    return Results(home, away, rng.uniform(0.2, 0.8, rows), rng.integers(1, 40, rows), np.zeros(rows)), share


def fitted(results: Results, leads: Leads | None, players: int) -> Fit:
    anchor = np.arange(players) == 0
    parent = np.full(players, NO_PARENT)
    config = RefitConfig(pair_correlation=False)
    return fit(results, np.full(players, 1500.0), anchor=anchor, parent=parent, config=config, leads=leads)


@pytest.mark.parametrize(("share", "added"), [(1.0, 1.0), (-1.0, 1.0), (0.5, 0.25), (0.0, 0.0)])
def test_against_an_anchor_a_player_is_as_unsure_as_both_leads_by_the_share_that_does_not_cancel(
    share: float, added: float
):
    """Who always has the home side shows its strength and both leads together."""
    results = Results([0], [1], [0.75], [400], [0.0])  # type: ignore[arg-type]
    leads = Leads(np.array([share]), np.array([30.0**2, 40.0**2]))
    found = [
        fit(results, [1500.0, 1500.0], anchor=[False, True], parent=[NO_PARENT] * 2, config=LOOSE, leads=each)
        for each in (None, leads)
    ]
    assert found[0].rating.tolist() == found[1].rating.tolist()
    alone, together = (each.covariance[0, 0] for each in found)
    assert alone == pytest.approx(SCALE**2 / (400 * 0.75 * 0.25), rel=1e-6)
    assert together == pytest.approx(alone + added * 50.0**2, rel=1e-6)
    assert (together == alone) == (share == 0.0)
    assert found[1].deviation[1] == 0.0, "an anchor is certain"


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 2**16))
def test_what_is_added_is_what_small_errors_of_leads_do_to_the_ratings(seed: int):
    """Ratings with a lead a point off, for one player after another, tell the same by differences."""
    players = 6
    results, share = league(seed)
    variance = np.linspace(10.0, 60.0, players) ** 2
    plain = fitted(results, None, players)
    lead = (plain.rating[results.home] - plain.rating[results.away]) / SCALE
    per_point = share * expit(lead) * expit(-lead) / SCALE
    shifts = []
    for player in range(players):
        off = np.where((results.home == player) | (results.away == player), per_point, 0.0)
        moved = [
            fitted(Results(results.home, results.away, results.score, results.games, sign * off), None, players).rating
            for sign in (1.0, -1.0)
        ]
        shifts.append(0.5 * (moved[0] - moved[1]))
    errors = np.array(shifts).T
    told = fitted(results, Leads(share, variance), players).covariance - plain.covariance
    np.testing.assert_allclose(told, (errors * variance) @ errors.T, rtol=2e-3, atol=1e-3 * variance.max())


def test_where_sides_were_swapped_evenly_or_leads_are_certain_nothing_changes():
    results, share = league(3)
    plain = fitted(results, None, 6)
    for leads in (Leads(np.zeros_like(share), np.full(6, 900.0)), Leads(share, np.zeros(6))):
        same = fitted(results, leads, 6)
        assert same.covariance.tobytes() == plain.covariance.tobytes()
        assert same.rating.tobytes() == plain.rating.tobytes()


def test_a_widened_covariance_is_one_to_the_last_bit():
    """Exactly symmetric, as whoever draws from it asks."""
    results, share = league(5, rows=60)
    covariance = fitted(results, Leads(share, np.full(6, 2500.0)), 6).covariance
    assert np.array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() > -1e-6
