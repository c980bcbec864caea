"""The last games of learners, remembered: the same as read anew, whatever happened meanwhile."""

from datetime import timedelta
from typing import Any

import pytest
from league_scene import Scene

from league.db.engine import Database
from league.services.matches import log as match_log
from league.services.matches.log import MatchArrays
from league.services.population.learner_games import LearnerGamesCache

COUNT = 10


def columns(games: MatchArrays) -> list[list[Any]]:
    return [column.tolist() for column in (games.home, games.away, games.score, games.training)]


def test_games_are_remembered_as_they_would_be_read_and_only_new_ones_are_read(
    scene: Scene, database: Database, time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_of, recollection, learner = match_log.last_of, LearnerGamesCache(), scene.learner.player_id
    read: list[int] = []

    def counted(*arguments: Any, **options: Any) -> MatchArrays:
        games = last_of(*arguments, **options)
        read.append(len(games))
        return games

    monkeypatch.setattr(match_log, "last_of", counted)

    def remembered() -> int:
        with database.read() as session:
            through = match_log.end(session, scene.environment)
            games = recollection.last_of(session, scene.environment, learner, through, COUNT)
            assert columns(games) == columns(last_of(session, learner, through, COUNT))
        return len(games)

    assert remembered() == 0
    for place, (score, known) in enumerate([(1.0, 4), (0.0, 8), (1.0, 10), (0.0, 10)], start=1):
        scene.train(4, score)
        assert remembered() == known
        assert read[place] == 4
    assert remembered() == COUNT
    scene.client.quarantine_worker(scene.trainer.id, time.now - timedelta(days=1), "broken")
    assert remembered() == 0
    scene.client.reinstate_worker(scene.trainer.id, "mended", restore=True)
    assert remembered() == COUNT
