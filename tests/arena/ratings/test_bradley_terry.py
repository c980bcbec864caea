"""The fit to the whole history: known cases, a plain solver to compare with, and whether its bands hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from refused import refused
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from arena.ratings import covariance, history_posterior
from arena.ratings import expected_score as round_robin
from arena.ratings.bradley_terry import NO_PARENT, Fit, RefitConfig, fit, standard_errors
from arena.ratings.glicko2 import SCALE, Ratings, Results, rate_period
from benchmarks.ratings import history

ALONE = [NO_PARENT, NO_PARENT]


def rows(*games: tuple[int, int, float, int]) -> Results:
    home, away, score, count = zip(*games, strict=True) if games else ((), (), (), ())
    return Results(np.array(home, int), np.array(away, int), np.array(score, float), np.array(count, int))


def ladder(rng: np.random.Generator, players: int, games: int) -> tuple[np.ndarray, Results]:
    """Play a lineage of snapshots of growing strength, each against some of the five before it."""
    truth = 1500.0 + np.concatenate(([0.0], np.cumsum(rng.normal(60.0, 60.0, players - 1))))
    home = np.repeat(np.arange(1, players), games)
    away = rng.integers(np.maximum(home - 5, 0), home)
    wins = rng.random(home.size) < 1.0 / (1.0 + 10.0 ** ((truth[away] - truth[home]) / 400.0))
    return truth, Results(home, away, wins.astype(float), np.ones(home.size, int))


def fit_ladder(results: Results, players: int, config: RefitConfig = RefitConfig()) -> Fit:  # noqa: B008
    return fit(
        results,
        np.full(players, 1500.0),
        anchor=np.arange(players) == 0,
        parent=np.arange(-1, players - 1),
        config=config,
    )


def test_rating_gap_of_two_players_follows_their_score() -> None:
    """With an anchor and next to no prior the maximum is the log-odds and the variance that of a binomial."""
    found = fit(
        rows((0, 1, 0.75, 400)), [1500.0, 1500.0], anchor=[False, True], parent=ALONE, config=RefitConfig(
            prior_deviation=1e7
        )
    )  # fmt: skip
    assert found.rating == pytest.approx([1500.0 + SCALE * np.log(3.0), 1500.0])
    assert found.deviation == pytest.approx([SCALE / np.sqrt(400 * 0.75 * 0.25), 0.0])


def test_standard_error_leaves_out_the_distance_to_the_anchor() -> None:
    """In a chain of even pairs, deviations add up to the end, while each player's own games stay as informative."""
    count = 12
    results = rows(*((player, player + 1, 0.5, 400) for player in range(count - 1)))
    rating = np.full(count + 1, 1500.0)
    of_pair = SCALE / np.sqrt(400 * 0.25)

    found = standard_errors(results, rating)

    assert found[[0, count - 1]] == pytest.approx(of_pair)
    assert found[1 : count - 1] == pytest.approx(of_pair / np.sqrt(2.0))
    assert found[count] == np.inf


def test_standard_error_of_one_pair_is_that_of_a_binomial_score() -> None:
    found = standard_errors(rows((0, 1, 0.75, 400)), np.array([1500.0 + SCALE * np.log(3.0), 1500.0]))
    assert found == pytest.approx(SCALE / np.sqrt(400 * 0.75 * 0.25))


def test_anchors_stay_and_carry_the_scale() -> None:
    found = fit(rows((0, 1, 0.5, 10**6)), [1500.0, 812.5], anchor=[False, True], parent=ALONE)
    assert found.rating[1] == 812.5
    assert found.rating[0] == pytest.approx(812.5, abs=0.01)


def test_a_player_without_games_has_its_parent_s_rating_or_the_prior() -> None:
    """As long as there is no other step to learn from, a step is what three draws say it is."""
    found = fit(
        rows((0, 1, 0.75, 1000)),
        [1500.0, 1500.0, 0.0, 0.0],
        anchor=[False, True, False, False],
        parent=[NO_PARENT, NO_PARENT, 0, NO_PARENT],
    )
    assert found.rating[2] == pytest.approx(found.rating[0])
    assert found.deviation[2] == pytest.approx(np.hypot(found.deviation[0], SCALE / np.sqrt(3 / 4)), rel=1e-3)
    assert (found.rating[3], found.deviation[3]) == pytest.approx((1500.0, 2000.0))


def test_step_size_prior_is_learned_from_the_data() -> None:
    """A newcomer without games stands a usual step above its parent, as unsure as steps differ."""
    rng = np.random.default_rng(6)
    truth, results = ladder(rng, 60, 400)
    parent = np.arange(-1, 60)
    found = fit(results, np.full(61, 1500.0), anchor=np.arange(61) == 0, parent=parent)
    steps = np.diff(truth)
    assert found.rating[60] - found.rating[59] == pytest.approx(steps.mean(), abs=15.0)
    spread = np.sqrt(found.covariance[60, 60] - found.covariance[59, 59])
    assert spread == pytest.approx(steps.std(), rel=0.35)


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_a_player_that_never_or_always_wins_stays_finite(score: float) -> None:
    found = fit(rows((1, 0, score, 10**7)), [1500.0, 9e9], anchor=[True, False], parent=[NO_PARENT, 0])
    assert np.isfinite(found.rating).all()
    assert 1000.0 < abs(found.rating[1] - 1500.0) < 4000.0
    assert 0.0 < found.deviation[1] < 2000.0


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_fit_is_the_maximum_that_a_plain_minimiser_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, results = ladder(rng, 8, 6)
    config = RefitConfig(prior_deviation=500.0, parent_draws=2.0, parent_weight=1e12, pair_correlation=False)
    parent = np.array([NO_PARENT, 0, 1, NO_PARENT, 3, 3, NO_PARENT, 6])
    found = fit(results, np.full(8, 1500.0), anchor=np.arange(8) == 0, parent=parent, config=config)

    def loss(apart: np.ndarray) -> float:
        theta = 1500.0 / SCALE + np.concatenate(([0.0], apart))
        lead = theta[results.home] - theta[results.away]
        total = np.sum(results.score * np.logaddexp(0, -lead) + (1 - results.score) * np.logaddexp(0, lead))
        for child, origin in enumerate(parent):
            if origin != NO_PARENT:
                total += 0.5 * (theta[child] - theta[origin]) ** 2 / (4.0 / 2.0)
            elif child:
                total += 0.5 * ((theta[child] * SCALE - 1500.0) / 500.0) ** 2
        return float(total)

    plain = minimize(loss, np.zeros(7))
    assert loss((found.rating[1:] - 1500.0) / SCALE) <= plain.fun + 1e-9
    assert found.rating[1:] == pytest.approx(1500.0 + SCALE * plain.x, abs=0.5)


def test_where_the_search_begins_does_not_matter() -> None:
    truth, results = ladder(np.random.default_rng(1), 30, 50)
    near, far = (
        fit(results, start, anchor=np.arange(30) == 0, parent=np.arange(-1, 29))
        for start in (truth, np.concatenate(([1500.0], np.linspace(-1e7, 1e7, 29))))
    )
    assert near.rating == pytest.approx(far.rating, abs=1e-5)
    assert near.covariance == pytest.approx(far.covariance, abs=1e-4)


def test_large_leagues_are_solved_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    _, results = ladder(np.random.default_rng(8), 40, 60)
    dense = fit_ladder(results, 40)
    by_matrix(monkeypatch, size=0)
    sparse = fit_ladder(results, 40)
    assert sparse.rating == pytest.approx(dense.rating, abs=1e-3)
    assert sparse.covariance == pytest.approx(dense.covariance, rel=1e-4, abs=1.0)
    assert sparse.superiority(np.array([39, 38])) == pytest.approx(dense.superiority()[[39, 38]][:, [39, 38]], abs=1e-4)


def test_large_league_without_parents_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    _, results = ladder(np.random.default_rng(8), 40, 60)
    known = {"start": np.full(40, 1500.0), "anchor": np.arange(40) == 0, "parent": np.full(40, NO_PARENT)}
    dense = fit(results, **known)
    by_matrix(monkeypatch, size=0)
    sparse = fit(results, **known)
    assert sparse.rating == pytest.approx(dense.rating, abs=1e-3)
    assert sparse.deviation == pytest.approx(dense.deviation, rel=0.1)  # estimated from probes


def by_matrix(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Solve by matrices up to so many players."""
    monkeypatch.setattr(history_posterior, "_DENSE_MAX", size)
    monkeypatch.setattr(covariance, "MATRIX_MAX", size)
    monkeypatch.setattr(round_robin, "_DENSE_MAX", size)
    monkeypatch.setattr(round_robin, "_DENSE_PER_POLYNOMIAL", 0)


@pytest.mark.parametrize("spread", [0.0, 1.3], ids=["chance alone", "circles"])
def test_deviations_of_large_leagues_are_estimated_within_a_few_percent(
    monkeypatch: pytest.MonkeyPatch, spread: float
) -> None:
    played = history(900, spread)
    dense = played.fit()
    by_matrix(monkeypatch, size=0)
    sparse = played.fit()
    assert sparse.rating == pytest.approx(dense.rating, abs=0.5)
    error = (sparse.deviation / np.where(dense.deviation > 0.0, dense.deviation, 1.0) - 1.0)[1:]
    assert np.median(np.abs(error)) < 0.015
    assert np.abs(error).max() < 0.1
    some = np.arange(5, 900, 100)
    assert sparse.covariance_of(some) == pytest.approx(dense.covariance_of(some), rel=2e-3, abs=2.0)


@pytest.mark.parametrize("dense_max", [0, 1000])
def test_the_same_results_give_the_same_bits_whatever_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, dense_max: int
) -> None:
    by_matrix(monkeypatch, size=dense_max)
    _, results = ladder(np.random.default_rng(2), 200, 20)
    fits = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="blas"):
            fits.append(fit_ladder(results, 200))
    assert all(np.array_equal(fits[0].deviation, other.deviation) for other in fits)
    assert all(np.array_equal(fits[0].covariance, other.covariance) for other in fits)
    assert all(np.array_equal(fits[0].rating, other.rating) for other in fits)


def test_rows_of_several_games_equal_single_games() -> None:
    single = rows((0, 1, 1.0, 1), (1, 0, 1.0, 1), (0, 1, 0.5, 1), (2, 0, 1.0, 1), (1, 1, 1.0, 1))
    together = rows((0, 1, 0.5, 3), (0, 2, 0.0, 1))
    one, other = (fit(games, [1500.0] * 3, anchor=[True, False, False], parent=[NO_PARENT] * 3) for games in (
        single, together
    ))  # fmt: skip
    assert one.rating == pytest.approx(other.rating)
    assert one.covariance == pytest.approx(other.covariance)


def test_bands_hold_the_truth_and_the_newest_is_not_biased() -> None:
    """95 % bands over 60 leagues of 40 snapshots; the newest snapshot of a ladder is where errors pile up."""
    rng = np.random.default_rng(3)
    inside, errors = [], []
    for _ in range(60):
        truth, results = ladder(rng, 40, 60)
        found = fit_ladder(results, 40)
        inside.append(np.abs(found.rating - truth)[1:] < 1.96 * found.deviation[1:])
        errors.append((found.rating - truth)[-1])
    assert 0.93 <= np.mean(inside) <= 0.98
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(len(errors)) + 20.0


def test_rating_periods_alone_lose_the_ladder_that_the_fit_keeps() -> None:
    """The defect that this module is there for: chained periods promise more than they know."""
    truth, results = ladder(np.random.default_rng(4), 60, 60)
    frozen = Ratings(np.full(60, 1500.0), np.where(np.arange(60) == 0, 30.0, 80.0), np.full(60, 0.06))
    kinds = np.where(np.arange(60) == 0, 2, 1)
    for newest in range(1, 60):
        frozen.rating[newest] = frozen.rating[newest - 1]
        own = results.home == newest
        period = Results(results.home[own], results.away[own], results.score[own], results.games[own])
        frozen = rate_period(frozen, period, kinds=kinds, deviation_floor=30.0)
    found = fit_ladder(results, 60)
    chained = np.mean(np.abs(frozen.rating - truth)[1:] < 1.96 * frozen.deviation[1:])
    fitted = np.mean(np.abs(found.rating - truth)[1:] < 1.96 * found.deviation[1:])
    assert chained < 0.5
    assert fitted > 0.9


def test_superiority_knows_that_players_of_a_ladder_err_together() -> None:
    _, results = ladder(np.random.default_rng(5), 40, 60)
    found = fit_ladder(results, 40)
    odds = found.superiority()
    assert odds + odds.T == pytest.approx(np.ones((40, 40)))
    assert odds.diagonal().tolist() == [0.5] * 40
    variance = found.covariance.diagonal()
    apart = variance[39] + variance[38]
    together = apart - 2 * found.covariance[39, 38]
    assert together < 0.5 * apart


def test_two_anchors_are_compared_without_doubt() -> None:
    found = fit(rows(), [1500.0, 1000.0, 1500.0], anchor=[True] * 3, parent=[NO_PARENT] * 3)
    assert found.superiority().tolist() == [[0.5, 1.0, 0.5], [0.0, 0.5, 0.0], [0.5, 1.0, 0.5]]


def test_invalid_fit_input_is_rejected() -> None:
    nobody = rows()
    with refused(ValueError, "home[0]", 2):
        fit(rows((2, 0, 1.0, 1)), [1.0, 1.0], anchor=[False, False], parent=ALONE)
    with refused(ValueError, "parent[1]", 7):
        fit(nobody, [1.0, 1.0], anchor=[False, False], parent=[NO_PARENT, 7])
    with refused(ValueError, "start[0]", "nan"):
        fit(nobody, [np.nan, 1.0], anchor=[False, False], parent=ALONE)
    with refused(ValueError, "start", "anchor", "parent", "(1,)", "(2,)"):
        fit(nobody, [1.0], anchor=[False, False], parent=ALONE)
    with refused(ValueError, "parent[0]", 1):
        fit(nobody, [1.0, 1.0], anchor=[False, False], parent=[1, 0])


@pytest.mark.parametrize(
    ("field", "value"), [("growth", -0.1), ("prior_deviation", 0.0), ("parent_draws", 0.0), ("parent_draws", np.inf)]
)
def test_a_setting_out_of_range_is_refused_by_name(field: str, value: float) -> None:
    with refused(ValueError, field, value):
        RefitConfig(**{field: value})


def circling(seed: int, spread: float, games: int) -> tuple[Results, NDArray[np.float64]]:
    """Play 160 pairs of 40 players of the same strength, whose log-odds have a part of their own; (40, 40) chances."""
    rng = np.random.default_rng(seed)
    own = np.triu(rng.normal(0.0, spread, (40, 40)), 1)
    chance = 1.0 / (1.0 + np.exp(own.T - own))
    pairs = np.argwhere(np.triu(np.ones_like(own), 1))
    home, away = pairs[rng.choice(len(pairs), 160, replace=False)].T
    return Results(home, away, rng.binomial(games, chance[home, away]) / games, np.full(160, games)), chance


def fit_equals(results: Results, *, pair_correlation: bool) -> Fit:
    config = RefitConfig(pair_correlation=pair_correlation)
    return fit(results, np.full(40, 1500.0), anchor=np.arange(40) == 0, parent=np.full(40, NO_PARENT), config=config)


def inside(found: Fit, chance: NDArray[np.float64]) -> float:
    """Share of 95 % bands that hold the truth: what says best what everybody scores against all others."""
    home, away = np.triu_indices_from(chance, 1)
    everybody = Results(home, away, chance[home, away], np.full(home.size, 10**6))
    truth = fit_equals(everybody, pair_correlation=False).rating
    return float((np.abs(found.rating - truth) < 1.96 * found.deviation)[1:].mean())


def test_many_games_of_few_pairs_are_no_proof_where_results_go_in_circles() -> None:
    leagues = [circling(seed, 1.3, 16) for seed in range(5)]
    assert np.mean([inside(fit_equals(each, pair_correlation=False), chance) for each, chance in leagues]) < 0.75
    assert 0.9 < np.mean([inside(fit_equals(each, pair_correlation=True), chance) for each, chance in leagues]) < 0.99


@pytest.mark.parametrize(("spread", "games"), [(0.0, 16), (1.3, 1)], ids=["chance alone", "no pair met again"])
def test_pair_offsets_without_evidence_change_nothing(spread: float, games: int) -> None:
    results, _ = circling(0, spread, games)
    alike, learned = (fit_equals(results, pair_correlation=learn) for learn in (False, True))
    assert np.array_equal(alike.rating, learned.rating)
    assert np.array_equal(alike.covariance, learned.covariance)


def test_of_pairs_that_never_agree_with_any_strengths_a_round_robin_is_known_and_nothing_else() -> None:
    """Rock, paper and scissors, for ever, and somebody whom only one of them has met."""
    found = fit(
        rows((0, 1, 1.0, 10**6), (1, 2, 1.0, 10**6), (2, 0, 1.0, 10**6), (3, 0, 0.5, 10**6)),
        np.full(4, 1500.0),
        anchor=[True, False, False, False],
        parent=[NO_PARENT] * 4,
    )
    assert found.rating == pytest.approx(1500.0, abs=5.0)
    assert (found.deviation[1:] > 50.0).all()
    assert found.deviation[3] > found.deviation[1]
