"""Good workers are left in peace, bad ones are found: the arithmetic, on simulated leagues."""

import numpy as np
import pytest
from simulated_workers import LEVEL, WORKERS, League, Lie, always_wins, shorter, swaps

from league.services.trust import statistics as worker_statistics


def p_values(league: League, seeds: range, lie: Lie | None = None) -> dict[str, np.ndarray]:
    """What each check says of each worker, one row per simulated league."""
    found: dict[str, list[list[float]]] = {"score": [], "length": []}
    for seed in seeds:
        reports = league.play(np.random.default_rng(seed), lie)
        for measure, check in (("score", worker_statistics.scores), ("length", worker_statistics.lengths)):
            fits = worker_statistics.check_sequentially(check, reports, WORKERS, LEVEL)
            found[measure].append([1.0 if fit is None else fit.p_value for fit in fits])
    return {measure: np.array(rows) for measure, rows in found.items()}


@pytest.mark.parametrize("league", [League(), League(draws=0.0), League(alone=True), League(pairings=30)])
def test_good_workers_are_left_in_peace(league: League) -> None:
    found = p_values(league, range(20))
    assert all((values > LEVEL).all() for values in found.values())


@pytest.mark.parametrize(("lie", "measure"), [(always_wins, "score"), (swaps(0.3), "score"), (shorter(0.8), "length")])
def test_only_the_faulty_worker_is_flagged(lie: Lie, measure: str) -> None:
    found = p_values(League(), range(5), lie)[measure]
    assert (found[:, 0] < LEVEL).all()
    assert (found[:, 1:] > LEVEL).all()


def test_workers_without_comparable_peers_are_not_judged() -> None:
    found = p_values(League(alone=True), range(5), swaps(0.5))
    assert all((values == 1.0).all() for values in found.values())


def test_two_workers_that_contradict_each_other_are_both_suspect() -> None:
    rng = np.random.default_rng(1)
    worker, pairing = np.tile([0, 1], 500), np.repeat(np.arange(20), 50)
    score = np.where(worker == 0, 1.0, rng.random(worker.size) < 0.5)
    reports = worker_statistics.Reports(worker, pairing, pairing, score, np.ones(worker.size, dtype=np.int64))
    fits = worker_statistics.check_sequentially(worker_statistics.scores, reports, 3, LEVEL)
    assert [fit is not None and fit.p_value < LEVEL for fit in fits] == [True, True, False]


def test_training_learners_are_not_compared_with_each_other() -> None:
    rng = np.random.default_rng(1)
    worker = np.repeat([0, 1], [4000, 2000])  # the second begins when the first is half through
    period = np.sort(rng.integers(0, 20, worker.size))
    period[worker == 1] = rng.integers(10, 20, 2000)
    means = np.where(worker == 0, 6.0 - 0.1 * period, 4.5)
    decisions = np.exp(rng.normal(means, 0.3)).astype(np.int64) + 1
    stratum = worker * 20 + period
    reports = worker_statistics.Reports(worker, worker, stratum, np.ones(worker.size), decisions)
    assert worker_statistics.lengths(reports, 2) == [None, None]


def test_lengths_are_compared_with_those_of_others_on_the_same_occasions_alone() -> None:
    rng = np.random.default_rng(1)
    worker = np.tile([0, 1], 500)
    stratum = np.repeat([0, 1], 500)
    decisions = np.exp(rng.normal(5.0 + stratum, 0.3) + 0.2 * worker).astype(np.int64) + 1
    worker, stratum = (np.append(each, np.full(100, 3)) for each in (worker, stratum))  # who plays there alone
    decisions, score = np.append(decisions, np.full(100, 9)), np.ones(worker.size)
    reports = worker_statistics.Reports(worker, stratum, stratum, score, decisions)
    _, fit, *nobody = worker_statistics.lengths(reports, 4)
    assert fit is not None
    assert (fit.results, nobody) == (500, [None, None])
    assert fit.expected == pytest.approx(fit.observed / np.exp(0.2), rel=0.05)
    excess = np.log(fit.observed / fit.expected)
    assert fit.chi_square == pytest.approx(((excess - 0.05) / 0.3) ** 2 * 250, rel=0.1)


def test_one_sided_pairings_flag_no_worker() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        worker, pairing = rng.integers(0, 10, 5_000), rng.integers(0, 50, 5_000)
        score = (rng.random(worker.size) < 0.998).astype(float)
        reports = worker_statistics.Reports(worker, pairing, pairing, score, np.ones(worker.size, dtype=np.int64))
        fits = worker_statistics.scores(reports, 10)
        assert all(fit is not None and fit.p_value > LEVEL for fit in fits)


@pytest.mark.parametrize(
    ("refused", "reported", "suspect"), [(0, 100, False), (3, 100, False), (30, 100, True), (4, 4, False)]
)
def test_rejection_rate_above_the_tolerance_is_flagged(refused: int, reported: int, suspect: bool) -> None:
    fit = worker_statistics.refusals(refused, reported)
    assert (fit is not None and fit.p_value < LEVEL) == suspect


def test_of_one_pairing_chi_square_is_that_of_a_permutation() -> None:
    """One feature tells: nobody draws, and home is the favourite."""
    games, wins, others, others_wins = 10, 9, 12, 5
    score = np.array([1.0] * wins + [0.0] * (games - wins) + [1.0] * others_wins + [0.0] * (others - others_wins))
    zeros = np.zeros(score.size, dtype=np.int64)
    worker = np.array([0] * games + [1] * others)
    reports = worker_statistics.Reports(worker, zeros, zeros, score, np.ones(score.size, dtype=np.int64))
    fit = worker_statistics.scores(reports, 2)[0]
    size = games + others
    mean = (wins + others_wins) / size
    variance = games * others / (size - 1) * mean * (1.0 - mean)
    assert fit is not None
    assert fit.chi_square == pytest.approx((wins - games * mean) ** 2 / variance)
    assert (fit.results, fit.observed, fit.expected) == (games, wins / games, pytest.approx(others_wins / others))
