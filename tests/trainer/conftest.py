"""Learners and rollouts small enough to check by hand, and a league in this process."""

import io
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
import served_app
import torch
from fake_games import FakeGame, ScriptedDealer, never, tagged
from fastapi.testclient import TestClient
from rich.console import Console

from arena.policies import NetworkPolicy
from league.client import LeagueClient
from league.db import schema
from league.db.engine import Database
from league.settings import Settings
from trainer.checkpointing.run_directory import RunDirectory
from trainer.config.loading import validate
from trainer.config.schema import TrainerConfig
from trainer.league_client.retrying_client import RetryingClient
from trainer.monitoring.console import RunConsole
from trainer.monitoring.loggers import TensorBoard
from trainer.opponents.pool import SELF, Opponent
from trainer.ppo.learner import Learner
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.collector import CollectedMatch, RolloutCollector
from trainer.runtime.session import TrainingSession
from trainer.runtime.train import Trainer
from trainer.shutdown import RunContext


@dataclass
class Played:
    """A learner in front of a fake game, with one rollout."""

    game: FakeGame
    learner: Learner
    dealer: ScriptedDealer
    collector: RolloutCollector
    rollout: RolloutBuffer
    episodes: list[CollectedMatch]

    def collect(self) -> RolloutBuffer:
        assert self.collector.collect(self.rollout, never)
        return self.rollout


def small_config(**sections: dict[str, object]) -> TrainerConfig:
    base: dict[str, dict[str, object]] = {
        "environment": {"name": "fake", "num_envs": 3, "self_play": 0.0},
        "network": {"encoder_sizes": [8], "recurrent_size": 6},
        "rollout": {"num_steps": 12, "bptt_horizon": 4},
        "ppo": {"num_minibatches": 2},
    }
    return validate({name: {**base.get(name, {}), **sections.get(name, {})} for name in {*base, *sections}})


@pytest.fixture
def config() -> Callable[..., TrainerConfig]:
    return small_config


@pytest.fixture(params=[{}, {"encoder_sizes": [16], "recurrent_size": 16}], ids=["torch", "native"])
def either_way(request: pytest.FixtureRequest) -> dict[str, object]:
    """Settings of a network that acts in torch, and of one that acts in native code where that runs."""
    return request.param


@pytest.fixture
def play() -> Callable[..., Played]:
    """Seat a learner at a fake game; by default against itself and two tagged players, on both sides."""

    def start(
        agents_per_side: tuple[int, int] = (1, 1),
        *,
        turn_based: bool = False,
        opponents: list[Opponent] | None = None,
        game: FakeGame | None = None,
        sides: int = 2,
        **sections: dict[str, object],
    ) -> Played:
        settings = small_config(**sections)
        game = game or FakeGame(settings.environment.num_envs, agents_per_side, turn_based=turn_based)
        learner = Learner(settings, game.spec)
        live = Opponent(SELF, "self", NetworkPolicy(learner.network, "fake", game.spec.signature))
        dealer = ScriptedDealer(opponents or [live, tagged(1.0), tagged(2.0)], sides=sides)
        episodes: list[CollectedMatch] = []
        collector = RolloutCollector(
            [game],
            learner.network,
            dealer,
            episodes.append,
            learner.rng,
            self_play=settings.environment.self_play_rows,
            device_cache_bytes=2**20,
        )
        return Played(game, learner, dealer, collector, learner.allocate(), episodes)

    return start


@pytest.fixture(autouse=True)
def _fixed_chance() -> None:
    torch.manual_seed(0)


@pytest.fixture(name="never")
def _never() -> Callable[[], bool]:
    return never


# --- a league in this process ----------------------------------------------------------------------------------------


class FlakyTransport(TestClient):
    """A league in this process that can be out of reach, or lose its answers after it has done the work."""

    down = False
    loses_answers = False

    def request(self, *arguments: object, **options: object) -> httpx2.Response:
        if self.down:
            raise httpx2.ConnectError("connection refused")
        answer = super().request(*arguments, **options)
        if self.loses_answers:
            raise httpx2.ReadTimeout("no answer")
        return answer


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("league") / "league.db"
    database = Database(f"sqlite:///{path}")
    schema.upgrade(database)
    database.close()
    return path


@pytest.fixture
def serve(_migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., FlakyTransport]]:
    """Start a league with its own database in this process; settings as the server takes them."""
    for name in [name for name in os.environ if name.startswith("LEAGUE_")]:
        monkeypatch.delenv(name)
    with ExitStack() as started:

        def start(**settings: object) -> FlakyTransport:
            home = tmp_path / "league"
            home.mkdir()
            shutil.copy(_migrated, home / "league.db")
            loaded = Settings.load(home=home, **settings)
            return started.enter_context(FlakyTransport(served_app.make(loaded, {})))

        yield start


@pytest.fixture
def transport(serve: Callable[..., FlakyTransport]) -> FlakyTransport:
    return serve()


@pytest.fixture
def client(transport: FlakyTransport) -> LeagueClient:
    return LeagueClient(http=transport)


@dataclass
class Outside:
    """Time that the test moves, and a signal that it gives."""

    time_s: float = 0.0
    asked: bool = False
    past_grace: bool = False

    def run_context(self) -> RunContext:
        return RunContext(
            now=lambda: datetime.now(UTC),
            clock=self.clock,
            stopping=lambda: self.asked,
            past_grace=lambda: self.past_grace,
            pause=self.pause,
            sleep=self.pause,
        )

    def clock(self) -> float:
        self.time_s += 0.001
        return self.time_s

    def pause(self, seconds: float) -> None:
        self.time_s += seconds


@pytest.fixture
def outside() -> Outside:
    return Outside()


@pytest.fixture
def worker_of(tmp_path: Path, outside: Outside) -> Iterator[Callable[..., Trainer]]:
    """Start a trainer in a run folder, on a connection."""
    workers = []

    def start(
        client: LeagueClient, config: TrainerConfig, run: str = "run", lines: list[str] | None = None, **ranks: object
    ):
        folder = RunDirectory(tmp_path / run)
        folder.path.mkdir(exist_ok=True)
        link = RetryingClient(client, clock=outside.clock, rng=random.Random(0), backoff_max_s=1.0)
        console = RunConsole(Console(file=_Lines(lines if lines is not None else []), width=500))
        session = TrainingSession(
            config, folder, link, version="0", console=console, run_context=outside.run_context(), **ranks
        )
        worker = Trainer(session, lambda from_step: [TensorBoard(folder.path / "tensorboard", from_step)])
        workers.append(worker)
        return worker

    yield start
    for worker in workers:
        worker.spool._file.close()


class _Lines(io.StringIO):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def write(self, text: str) -> int:
        self._lines.extend(line for line in text.splitlines() if line.strip())
        return len(text)
