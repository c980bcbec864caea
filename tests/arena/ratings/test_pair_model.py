"""The pair model: cyclic components where results go in cycles, plain Bradley-Terry where they do not."""

import numpy as np
import pytest
from scipy.special import expit

from arena.ratings import bradley_terry, pair_model
from arena.ratings.bradley_terry import NO_PARENT
from arena.ratings.glicko2 import SCALE, Results
from arena.ratings.pair_model import Priors

PLAYERS = 40


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def priors(players: int) -> Priors:
    anchor = np.zeros(players, dtype=np.bool_)
    anchor[0] = True
    return Priors(np.full(players, 1500.0), anchor, np.full(players, NO_PARENT))


class League:
    """A simulated league with known ratings, positions, and effects of single pairs."""

    def __init__(
        self, rng: np.random.Generator, spread: float, games: int = 20, opponents: int = 8, effect: float = 0.0
    ) -> None:
        self.rating = np.concatenate(([0.0], rng.normal(0.0, 1.0, PLAYERS - 1)))
        self.u, self.v = rng.normal(0.0, spread, (2, PLAYERS))
        own = np.triu(rng.normal(0.0, effect, (PLAYERS, PLAYERS)), 1)
        self.effect = own - own.T
        home = np.repeat(np.arange(PLAYERS), opponents)
        away = (home + rng.integers(1, PLAYERS, home.size)) % PLAYERS
        score = rng.binomial(games, self.chance(home, away)) / games
        self.results = Results(home, away, score, np.full(home.size, games))

    def chance(self, home: np.ndarray, away: np.ndarray) -> np.ndarray:
        area = self.u[home] * self.v[away] - self.v[home] * self.u[away]
        return expit(self.rating[home] - self.rating[away] + area + self.effect[home, away])


def all_pairs() -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(PLAYERS, 1)


def test_transitive_results_get_no_component(rng: np.random.Generator) -> None:
    league = League(rng, spread=0.0)
    model = pair_model.fit(league.results, priors(PLAYERS))
    assert model.components.shape == (0, PLAYERS, 2)
    assert [each.components for each in model.held_out] == [0, 1]
    error = model.expected(*all_pairs()) - league.chance(*all_pairs())
    assert np.sqrt(np.square(error).mean()) < 0.07


def test_cyclic_results_get_a_component_that_predicts_better(rng: np.random.Generator) -> None:
    league = League(rng, spread=1.2)
    model = pair_model.fit(league.results, priors(PLAYERS))
    plain = pair_model.fit(league.results, priors(PLAYERS), components=0)
    assert model.components.shape[0] >= 1
    assert model.held_out[1].log_loss < model.held_out[0].log_loss
    truth = league.chance(*all_pairs())
    errors = [np.square(each.expected(*all_pairs()) - truth).mean() for each in (model, plain)]
    assert errors[0] < 0.6 * errors[1]


def lineage(rng: np.random.Generator, inheritance: float) -> tuple[Results, Priors, np.ndarray]:
    """Return results of a lineage whose positions inherit, its priors, and the true log-odds of all pairs."""
    positions = rng.normal(0.0, 1.0, (PLAYERS, 2))
    for child in range(2, PLAYERS):
        positions[child] *= np.sqrt(1.0 - inheritance**2)
        positions[child] += inheritance * positions[child - 1]
    u, v = 1.2 * positions.T
    truth = np.outer(u, v) - np.outer(v, u)
    home = np.repeat(np.arange(PLAYERS), 6)
    away = (home + rng.integers(1, PLAYERS, home.size)) % PLAYERS
    results = Results(home, away, rng.binomial(8, expit(truth[home, away])) / 8, np.full(home.size, 8))
    parent = np.arange(PLAYERS) - 1
    parent[1] = NO_PARENT
    return results, Priors(np.full(PLAYERS, 1500.0), np.arange(PLAYERS) == 0, parent), truth


@pytest.mark.parametrize(("inheritance", "low", "high"), [(0.0, 0.0, 0.35), (0.9, 0.75, 0.98)])
def test_inheritance_of_positions_is_learned(
    rng: np.random.Generator, inheritance: float, low: float, high: float
) -> None:
    found = []
    for _ in range(3):
        results, prior, _ = lineage(rng, inheritance)
        model = pair_model.fit(results, prior, components=1)
        found.append(float(model._learned.posterior.prior.inheritance[0]))
    assert low <= np.mean(found) <= high


def test_lineages_that_drift_are_predicted_better_with_their_parents(rng: np.random.Generator) -> None:
    losses = []
    for _ in range(3):
        results, prior, truth = lineage(rng, 0.95)
        strangers = Priors(prior.start, prior.anchor, np.full(PLAYERS, NO_PARENT))
        chance = expit(truth[all_pairs()])
        for known in (prior, strangers):
            expected = pair_model.fit(results, known, components=1).expected(*all_pairs())
            losses.append(-(chance * np.log(expected) + (1.0 - chance) * np.log(1.0 - expected)).mean())
    assert np.mean(losses[::2]) < np.mean(losses[1::2]) - 0.01


def test_effects_of_single_pairs_get_no_component(rng: np.random.Generator) -> None:
    league = League(rng, spread=0.0, effect=1.5)
    model = pair_model.fit(league.results, priors(PLAYERS))
    assert len(model.components) == 0
    assert model.effect_variance == pytest.approx(1.5**2, rel=0.3)


def test_pairs_without_effects_get_none(rng: np.random.Generator) -> None:
    assert pair_model.fit(League(rng, spread=0.0).results, priors(PLAYERS)).effect_variance < 0.05


def test_a_pair_is_predicted_by_its_own_record(rng: np.random.Generator) -> None:
    league = League(rng, spread=0.0, games=200, effect=1.5)
    model = pair_model.fit(league.results, priors(PLAYERS), components=0)
    met = model.played.low, model.played.high
    np.testing.assert_allclose(model.expected(*met), league.chance(*met), atol=0.12)
    np.testing.assert_allclose(model.expected(*met[::-1]), 1.0 - model.expected(*met))


@pytest.mark.parametrize(("spread", "effect"), [(1.0, 0.0), (0.0, 0.8)])
def test_intervals_cover_the_true_win_rates(rng: np.random.Generator, spread: float, effect: float) -> None:
    inside = []
    for _ in range(4):
        league = League(rng, spread=spread, effect=effect)
        model = pair_model.fit(league.results, priors(PLAYERS), components=int(spread > 0.0))
        low, high = model.interval(*all_pairs())
        truth = league.chance(*all_pairs())
        assert ((low >= 0.0) & (low <= high) & (high <= 1.0)).all()
        inside.append(((low <= truth) & (truth <= high)).mean())
    assert 0.9 < np.mean(inside) < 0.99


def test_a_single_pair_is_fitted() -> None:
    results = Results(np.array([2]), np.array([4]), np.array([0.5]), np.array([4]))
    for count in (1, 2):
        assert pair_model.fit(results, priors(6), components=count).components.shape == (count, 6, 2)


def test_rock_paper_scissors_is_predicted() -> None:
    home, away = np.array([0, 1, 2]), np.array([1, 2, 0])
    results = Results(home, away, np.full(3, 0.9), np.full(3, 200))
    model = pair_model.fit(results, priors(3), components=1)
    np.testing.assert_allclose(model.expected(home, away), 0.9, atol=0.03)
    np.testing.assert_allclose(model.rating, 1500.0, atol=20.0)


def test_expected_scores_of_a_pair_sum_to_one(rng: np.random.Generator) -> None:
    model = pair_model.fit(League(rng, spread=1.0).results, priors(PLAYERS), components=1)
    rates = model.win_rates()
    np.testing.assert_allclose(rates + rates.T, 1.0, atol=1e-12)
    np.testing.assert_allclose(rates.diagonal(), 0.5, atol=1e-12)
    low, high = model.interval(3, 7)
    back_low, back_high = model.interval(7, 3)
    np.testing.assert_allclose([low, high], [1.0 - back_high, 1.0 - back_low], atol=1e-6)


def test_without_components_ratings_are_those_of_bradley_terry(rng: np.random.Generator) -> None:
    league = League(rng, spread=0.0)
    config = bradley_terry.RefitConfig(pair_correlation=False)
    prior = Priors(np.full(PLAYERS, 1500.0), priors(PLAYERS).anchor, np.full(PLAYERS, NO_PARENT), config)
    model = pair_model.fit(league.results, prior, components=0)
    plain = bradley_terry.fit(league.results, prior.start, anchor=prior.anchor, parent=prior.parent, config=config)
    np.testing.assert_allclose(model.rating, plain.rating, atol=0.1)


def test_same_history_gives_the_same_bits(rng: np.random.Generator) -> None:
    league = League(rng, spread=1.0)
    one, other = (pair_model.fit(league.results, priors(PLAYERS)) for _ in range(2))
    assert one.rating.tobytes() == other.rating.tobytes()
    assert one.components.tobytes() == other.components.tobytes()


def test_slope_is_the_derivative_of_the_posterior(rng: np.random.Generator) -> None:
    results = League(rng, spread=1.0, effect=1.0).results
    prior = Priors(np.full(PLAYERS, 1500.0), priors(PLAYERS).anchor, np.arange(PLAYERS) // 2 - 1)
    model = pair_model.fit(results, prior, components=2)
    posterior, values = model._learned.posterior, rng.normal(0.0, 1.0, (PLAYERS, 5))
    assert posterior.prior.effect > 0.0
    slope = posterior.slope(posterior.at(values))
    for player, column in ((1, 0), (5, 1), (9, 2), (13, 3), (17, 4)):
        step = np.zeros_like(values)
        step[player, column] = 1e-5
        rise = posterior.height(posterior.at(values + step)) - posterior.height(posterior.at(values - step))
        assert slope[player, column] == pytest.approx(rise / 2e-5, rel=1e-4, abs=1e-4)


def test_no_games_leave_players_at_their_priors() -> None:
    empty = Results(np.empty(0, int), np.empty(0, int), np.empty(0), np.empty(0, int))
    model = pair_model.fit(empty, priors(3))
    np.testing.assert_allclose(model.rating, 1500.0, atol=1e-6)
    np.testing.assert_allclose(model.expected([0, 1], [1, 2]), 0.5)
    assert model.held_out == ()


def test_a_child_without_games_stands_one_step_from_its_parent() -> None:
    results = Results(np.array([1]), np.array([0]), np.array([0.75]), np.array([400]))
    prior = Priors(np.full(3, 1500.0), np.array([True, False, False]), np.array([NO_PARENT, NO_PARENT, 1]))
    model = pair_model.fit(results, prior, components=0)
    assert model.rating[1] == pytest.approx(1500.0 + SCALE * np.log(3.0), abs=5.0)
    assert model.rating[2] == pytest.approx(model.rating[1], abs=30.0)


@pytest.mark.parametrize(("i", "named"), [(3, "3"), (-1, "-1")])
def test_unknown_player_index_is_named(i: int, named: str) -> None:
    results = Results(np.array([1]), np.array([0]), np.array([0.5]), np.array([2]))
    model = pair_model.fit(results, priors(3))
    with pytest.raises(ValueError, match=f"index {named}:"):
        model.expected(i, 0)


def test_negative_number_of_components_is_an_error() -> None:
    results = Results(np.array([1]), np.array([0]), np.array([0.5]), np.array([2]))
    with pytest.raises(ValueError, match="components is -1"):
        pair_model.fit(results, priors(3), components=-1)
