"""What draws see of the population is never older than the database, in whatever order transactions commit."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from fastapi.testclient import TestClient
from league_history import play_periods
from league_scene import Scene, safetensors, sha256
from sqlalchemy import update

from league import wire
from league.client import LeagueClient
from league.config import Settings
from league.db.engine import Database
from league.db.models import Rating
from league.services import players
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
