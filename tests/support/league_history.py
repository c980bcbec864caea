"""A league with a past: several periods of both kinds of match, and a snapshot that came later."""

from typing import Any

import numpy as np
from league_scene import Scene
from recorded_match import play_recorded
from recordings import make_steps

from league import wire
from league.db.engine import Database
from league.services.environments import lookup as environments
from league.services.rating_periods.rebuild import Rebuilt, inspect


def play_periods(scene: Scene, time: Any, number: int = 6) -> list[wire.Player]:
    """Play and close periods, a minute apart; return the snapshots, oldest first."""
    rng = np.random.default_rng(7)
    players = [scene.publish(step) for step in range(3)]
    for period in range(number):
        scene.train(int(rng.integers(5, 15)), learner_score=float(rng.random()))
        scene.evaluate(8, winner=players[period % 3].id)
        time.advance(60)
        scene.client.close_period(scene.environment)
        if period == number // 2 - 1:
            players.append(scene.publish(10))
    return players


def put_to_work(scene: Scene, time: Any) -> None:
    """Play periods, make a commander, and play matches of no period yet, one of them recorded."""
    play_periods(scene, time)
    scene.client.promote(scene.client.players(scene.environment, standing="candidate").items[0].id)
    scene.train(3)
    play_recorded(scene, make_steps())


def recomputed(database: Database) -> list[Rebuilt]:
    """Compute every period of every environment again, and say what differs."""
    with database.read() as session:
        return [inspect(session, environment) for environment in environments.names(session)]
