"""Predictions of open gates by the pair model: score of the candidate, and number of games until the verdict.

They are shown only. The verdict follows from the scores of the gate's own matches (`league.services.gates.sprt`).
"""

from collections.abc import Sequence

import numpy as np
from sqlalchemy.orm import Session

from arena.evaluation import sprt
from arena.evaluation.sprt import SprtState
from league import wire
from league.services.gates.sprt import config
from league.services.population.cache import PopulationCache


def add_predictions(session: Session, cache: PopulationCache, found: Sequence[wire.Gate]) -> list[wire.Gate]:
    """Return the gates with predictions for the open ones."""
    return [_add_prediction(session, cache, gate) if gate.state == "open" else gate for gate in found]


def _add_prediction(session: Session, cache: PopulationCache, gate: wire.Gate) -> wire.Gate:
    population = cache.get(session, gate.environment)
    candidate, champion = (np.array([population.index(player.player_id)]) for player in (gate.candidate, gate.champion))
    predicted = float(population.expected(candidate, champion)[0])
    state = SprtState("continue", gate.games, tuple(gate.counts), gate.llr, gate.lower, gate.upper)
    games = sprt.expected_games(state, predicted, config(gate))
    return gate.model_copy(update={"predicted_score": predicted, "expected_games": games})
