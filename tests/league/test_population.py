"""What draws see of the population is never older than the database, in whatever order transactions commit."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from fastapi.testclient import TestClient
from league_history import play_periods
from league_scene import Scene, safetensors, sha256
from sqlalchemy import update

from league import wire
from league.client import LeagueClient
from league.config import Settings
from league.db.engine import Database
from league.db.models import Rating
from league.services import players, population
from league.services.rebuild import rebuild
from league.storage.opening import open_store


def drawn(scene: Scene) -> set[int]:
    """Everybody whom the learner may meet."""
    return {item.player_id for item in scene.client.preview(scene.learner.player_id).items}


def test_a_player_whose_transaction_ends_after_a_later_one_is_drawn_all_the_same(
    scene: Scene, database: Database, configure: Callable[..., Settings], time: Any
) -> None:
    settings, slow = configure(), safetensors(1, signature=scene.signature)
    scene.client.upload(slow, sha256(slow))
    request = wire.PlayerCreate(learner_id=scene.learner.id, checkpoint=sha256(slow), step=1)
    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            first = players.publish(session, settings, open_store(settings), scene.signature, request, time.now)
            later = pool.submit(scene.publish, 2)
            wait([later], timeout=0.3)  # unless it waits for the first one
            drawn(scene)
        second = later.result()
    assert drawn(scene) >= {first.id, second.id}


def test_ratings_that_were_computed_again_are_drawn_by_at_once(
    scene: Scene, serve: Callable[..., TestClient], database: Database, time: Any
) -> None:
    play_periods(scene, time)
    right = scene.client.preview(scene.learner.player_id)
    with database.write() as session:
        session.execute(update(Rating).values(rating=Rating.rating + 100.0 * Rating.player_id))
    other = LeagueClient(http=serve())
    assert other.preview(scene.learner.player_id) != right
    rebuild(database, time.now)
    assert other.preview(scene.learner.player_id) == right


def test_what_many_ask_for_at_once_is_made_once(scene: Scene, database: Database) -> None:
    with database.read() as session:
        everybody = population.load(session, scene.environment)
    made, at_once = [], threading.Barrier(4)

    def make() -> object:
        made.append(object())
        threading.Event().wait(0.05)  # long enough for the others to ask meanwhile
        return made[-1]

    def ask() -> object:
        at_once.wait(10)
        return everybody.once("what", make)

    with ThreadPoolExecutor(4) as pool:
        assert [task.result() for task in [pool.submit(ask) for _ in range(4)]] == 4 * made


def test_what_could_not_be_made_is_made_when_it_is_asked_for_again(scene: Scene, database: Database) -> None:
    with database.read() as session:
        everybody = population.load(session, scene.environment)
    with pytest.raises(ZeroDivisionError):
        everybody.once("what", lambda: 1 // 0)
    assert everybody.once("what", lambda: 1) == everybody.once("what", lambda: 2) == 1
