"""A fit of the whole history that somebody looks at is made once, and holds up nobody else."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from league_history import play_periods
from league_scene import ON_SQLITE, Scene

from league.services.ratings import history_fit


class Fits:
    """Counts fits, and holds them up until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made = 0
        self.begun, self.opened = threading.Event(), threading.Event()
        self._fit = history_fit.fit
        monkeypatch.setattr(history_fit, "fit", self._counted)

    def _counted(self, *arguments: Any) -> Any:
        self.made += 1
        self.begun.set()
        assert self.opened.wait(60)
        return self._fit(*arguments)


@pytest.fixture
def fits(scene: Scene, time: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fits]:
    play_periods(scene, time, number=2)
    found = Fits(monkeypatch)
    yield found
    found.opened.set()


def test_a_comparison_is_made_once_until_the_population_changes(scene: Scene, fits: Fits) -> None:
    fits.opened.set()
    first = scene.client.superiority()
    assert scene.client.superiority() == first
    assert scene.client.superiority(limit=1).players == first.players[:1]
    assert fits.made == 1
    scene.client.retire(first.players[0].player_id)
    assert scene.client.superiority().players == first.players[1:]
    assert fits.made == 2


@ON_SQLITE
def test_concurrent_superiority_requests_share_one_fit(scene: Scene, fits: Fits) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(scene.client.superiority) for _ in range(8)]
        assert fits.begun.wait(60)
        for _ in range(8):
            assert scene.client.standings().items
        assert scene.client.heartbeat(scene.trainer.id).command == "continue"
        fits.opened.set()
        answers = [answer.result() for answer in asked]
    assert all(answer == answers[0] for answer in answers)
    assert fits.made == 1
