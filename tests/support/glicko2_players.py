"""Populations and periods of a few players, written as tuples."""

import numpy as np

from arena.ratings.glicko2 import Kind, Ratings, Results, rate_period


def population(*players):
    rating, deviation, volatility = np.array(players, dtype=float).T
    return Ratings(rating, deviation, volatility)


def rows(*games):
    home, away, score, count = (np.array(column) for column in zip(*games, strict=True))
    return Results(home, away, score.astype(float), count)


def no_games():
    return Results(np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros(0, int))


def one_player_period(player, games, **options):
    """Rate player 0 against observed opponents: (rating, deviation, score, games) each."""
    opponents = [(rating, deviation, 0.06) for rating, deviation, _, _ in games]
    results = rows(*((0, i + 1, score, n) for i, (_, _, score, n) in enumerate(games))) if games else no_games()
    kinds = [Kind.LEARNER] + [Kind.OBSERVED] * len(games)
    after = rate_period(population(player, *opponents), results, kinds=kinds, **options)
    return after.rating[0], after.deviation[0], after.volatility[0]
