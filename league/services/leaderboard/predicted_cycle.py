"""Strongest cycle of three active frozen players by the pair model's predictions, with the results of its pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from arena.evaluation.deviations import RELEVANT
from arena.evaluation.strongest_cycle import strongest_cycle
from arena.ratings.glicko2 import conservative, expected_score
from league import wire
from league.player_names import display_name
from league.services.matches import pair_records
from league.services.population.cache import Population, PopulationCache
from league.services.ratings import rated_players

PLAYERS_MAX = 300
"""Number of players that are searched, strongest first."""


@dataclass(frozen=True)
class CycleWin:
    """A win of the cycle.

    Attributes:
        player_id: Id of the winner.
        name: Its call-sign or name.
        opponent_id: Id of the next player, which it beats.
        opponent: Its call-sign or name.
        by_ratings: Score that ratings alone predict, in [0, 1].
        predicted: Predicted score, in (0.5, 1].
        observed: Mean score in their matches, in [0, 1]; None without any.
        matches: Number of matches.
    """

    player_id: int
    name: str
    opponent_id: int
    opponent: str
    by_ratings: float
    predicted: float
    observed: float | None
    matches: int


def get_predicted_cycle(session: Session, cache: PopulationCache, environment: str) -> Sequence[CycleWin]:
    """Return the three wins of an environment's strongest cycle, cached with its population.

    Empty if no cycle has three predicted wins of at least 55 %.
    """
    population = cache.get(session, environment)
    return population.cached("predicted cycle", lambda: _find(session, population))


def to_wire(cycle: Sequence[CycleWin]) -> list[wire.PairScore]:
    """Return the wins as response bodies."""
    return [
        wire.PairScore(
            player=wire.PlayerName(player_id=win.player_id, name=win.name),
            opponent=wire.PlayerName(player_id=win.opponent_id, name=win.opponent),
            by_ratings=win.by_ratings,
            predicted=win.predicted,
            observed=win.observed,
            matches=win.matches,
        )
        for win in cycle
    ]


def _find(session: Session, population: Population) -> Sequence[CycleWin]:
    bound = conservative(population.ratings)
    active = [
        index
        for index, member in enumerate(population.members)
        if member.kind != "learner" and member.standing not in rated_players.OUT_OF_PLAY
    ]
    shown = np.array(sorted(active, key=lambda index: (-bound[index], index))[:PLAYERS_MAX], dtype=np.int64)
    cycle = strongest_cycle(population.expected_matrix(shown))
    # Smaller leads are within the error of the model.
    if cycle is None or min(cycle.win_rates) < 0.5 + RELEVANT:
        return ()
    players = [population.members[shown[index]] for index in cycle.players]
    ids = [player.id for player in players]
    chosen = shown[list(cycle.players)]
    by_ratings = expected_score(population.ratings, chosen, np.roll(chosen, -1))
    wins = []
    for position, predicted in enumerate(cycle.win_rates):
        player, opponent = players[position], players[(position + 1) % len(players)]
        counts, matches = pair_records.against(pair_records.of_player(session, player.id), player.id, ids)
        other = ids.index(opponent.id)
        wins.append(
            CycleWin(
                player_id=player.id,
                name=display_name(player),
                opponent_id=opponent.id,
                opponent=display_name(opponent),
                by_ratings=float(by_ratings[position]),
                predicted=predicted,
                observed=float(counts.points[other] / counts.games[other]) if matches[other] else None,
                matches=int(matches[other]),
            )
        )
    return wins
