"""Names stand for ids in every call, and iterators read all pages."""

import asyncio

import pytest
from league_scene import ENVIRONMENT, Scene
from live_server import listening
from refused import refused
from starlette.testclient import TestClient

from league import wire
from league.client import AsyncLeagueClient, LeagueClient
from league.client.operation import iterator_of

OTHER = wire.LearnerCreate(name="main", role="main", environment="other", signature="other-1")


@pytest.fixture
def snapshot(scene: Scene) -> wire.Player:
    return scene.publish(64)


def test_snapshot_is_promoted_by_its_name_and_retired_by_its_call_sign(scene: Scene, snapshot: wire.Player) -> None:
    promoted = scene.client.promote(snapshot.name)
    assert (promoted.id, promoted.standing) == (snapshot.id, "commander")
    assert promoted.call_sign is not None
    assert scene.client.retire(promoted.call_sign).standing == "retired"
    assert [event.kind for event in scene.client.events(player=snapshot.name).items][:2] == ["retire", "promote"]


def test_digits_are_an_id_and_not_a_part_of_a_name(scene: Scene, snapshot: wire.Player) -> None:
    assert scene.client.player(str(snapshot.id)) == scene.client.player(snapshot.id)
    with refused("unknown-player", "main@6"):
        scene.client.player("main@6")


def test_name_has_to_match_in_case_and_length(scene: Scene, snapshot: wire.Player) -> None:
    for name in ("MAIN", "mai", "", "%", "main@64 "):
        with refused("unknown-player"):
            scene.client.ratings(name)


def test_name_of_two_environments_needs_the_environment(scene: Scene) -> None:
    other = scene.client.register_learner(OTHER)
    with refused("ambiguous-name", ENVIRONMENT, "other"):
        scene.client.preview("main")
    with refused("ambiguous-name", "main"):
        scene.client.metrics("main")
    assert scene.client.learner("main", "other") == other
    assert scene.client.player("main", ENVIRONMENT).id == scene.learner.player_id


def test_learner_is_found_by_its_name_and_never_by_that_of_a_snapshot(scene: Scene, snapshot: wire.Player) -> None:
    assert scene.client.metrics("main").learner_id == scene.learner.id
    with refused("unknown-learner", snapshot.name):
        scene.client.metrics(snapshot.name)


def test_worker_is_found_by_its_name_or_id(scene: Scene) -> None:
    assert scene.client.worker("trainer-1").id == scene.trainer.id
    assert scene.client.command_worker("trainer-1", "drain").id == scene.trainer.id
    assert scene.client.worker(scene.trainer.id).name == "trainer-1"
    with refused("unknown-worker", "trainer-9"):
        scene.client.worker("trainer-9")


def test_matches_of_a_pair_are_listed_by_their_names(scene: Scene, snapshot: wire.Player) -> None:
    scene.train(6)
    (baseline,) = {scene.baseline().name}
    among = [scene.client.matches("main", name).items for name in (baseline, snapshot.name)]
    assert sum(map(len, among)) == len(scene.client.matches("main").items) == 6


def test_champion_is_replaced_by_name(scene: Scene, snapshot: wire.Player) -> None:
    scene.client.set_champion(snapshot.name, expected=None)
    later = scene.publish(128)
    assert scene.client.set_champion(later.name, expected=snapshot.name).player.id == later.id


def test_iterator_reads_every_page_once(scene: Scene) -> None:
    scene.train(5)
    listed = scene.client.matches(limit=1000).items
    assert list(scene.client.iter_matches("main", limit=2)) == listed
    assert len(listed) == 5
    start = str(listed[1].id)
    assert list(scene.client.iter_matches(limit=2, cursor=start)) == listed[2:]


def test_async_iterator_reads_every_page_once(scene: Scene, http: TestClient) -> None:
    scene.train(3)

    async def read(url: str) -> list[wire.Match]:
        async with AsyncLeagueClient(url) as client:
            return [match async for match in client.iter_matches("main", limit=2)]

    with listening(http.app) as url:
        assert asyncio.run(read(url)) == scene.client.matches().items


def test_iterators_of_all_lists_return_the_items_of_their_pages(scene: Scene) -> None:
    kinds = [vars(kind) for kind in LeagueClient.__mro__]
    iterators = [name for attributes in kinds for name, value in attributes.items() if isinstance(value, iterator_of)]
    assert len(iterators) > 10
    for name in iterators:
        if name not in ("iter_ratings", "iter_lineage", "iter_reports"):  # these take a player
            pages = getattr(scene.client, name.removeprefix("iter_"))
            assert list(getattr(scene.client, name)()) == pages().items
