"""An object store that is away for a while: matches go on, and snapshots are taken in once it is back."""

import os
from collections.abc import Callable, Iterator

import pytest
import s3_server
from distant_league import League, address
from fault_proxy import Proxy, passing_on
from league_scene import Scene, safetensors, sha256

from league.client import LeagueClient
from league.errors import LeagueError

AWAY = ("cut", "deafen")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Proxy, dict[str, str]]]:
    """The network to an object store, and the settings of a league that keeps its checkpoints there."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.SECRET)
    with s3_server.running() as service, passing_on(lambda: [address(service.url)]) as network:
        yield network, {"store_url": f"s3://{service.bucket()}/runs", "store_endpoint_url": network.url}


@pytest.mark.parametrize("how", AWAY)
def test_while_the_store_is_away_matches_count_and_snapshots_wait(
    serve: Callable[..., League], bucket: tuple[Proxy, dict[str, str]], how: str
) -> None:
    network, settings = bucket
    league = serve(**settings)
    scene = Scene(LeagueClient(http=league.http))
    first = scene.publish(step=1)
    getattr(network, how)()
    data = safetensors(2, signature=scene.signature)
    with pytest.raises(LeagueError) as refused:
        scene.client.upload(data, sha256(data))
    assert refused.value.status >= 500, "which workers wait out"
    assert scene.client.health().checks["store"] != "ok"
    scene.train(3)
    network.fair()
    assert scene.client.health().status == "ok"
    second = scene.publish(step=2)
    assert [scene.client.download(str(one.checkpoint)) for one in (first, second)] == [
        safetensors(step, signature=scene.signature) for step in (1, 2)
    ]
    assert league.wrong() == []
    assert scene.client.player(scene.learner.player_id).games == 3
