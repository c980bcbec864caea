"""The reader's own game: what docs/tutorial/your-game.md says is so."""

import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from refused import refused
from small_runs import logged

from arena.cli import main
from arena.environments import baselines, declare, make, names, plugin_baselines
from arena.environments.adapters.custom import lookup
from trainer.config.loading import resolve

ROOT = Path(__file__).parents[3]
CODE = re.search(
    r"```python\n(.+?)```", (ROOT / "docs/tutorial" / "your-game.md").read_text(encoding="utf-8"), re.DOTALL
)


def run_arena(*arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert not left.value.code


@pytest.fixture
def game(tmp_path, monkeypatch):
    """The page's game in a folder of its own, in which the reader works."""
    assert CODE is not None
    (tmp_path / "readers_race.py").write_text(CODE[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "readers_race:Race"
    sys.modules.pop("readers_race", None)


def test_the_page_has_the_example_and_it_is_short():
    assert CODE is not None
    assert CODE[1] == (ROOT / "examples" / "race.py").read_text(encoding="utf-8")
    assert len([line for line in CODE[1].splitlines() if line.strip()]) < 30


@pytest.mark.integration
def test_it_is_played_and_trained_by_name_from_the_readers_folder(game, capsys, worker_of, client, tmp_path):
    run_arena("match", "random", "random", "--environment", game, "--matches", "20", "--json")
    played = json.loads(capsys.readouterr().out)
    assert (played["environment"], played["matches"], played["reasons"]) == (game, 20, {"end": 20})
    small = ["environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=8", "network.recurrent_size=16"]
    worker_of(client, resolve(game, None, [*small, "environment.processes=2", "run.total_timesteps=512"])).run()
    assert len(logged(client, game)) > 10
    assert game not in names()


@pytest.mark.integration
def test_all_chance_follows_from_the_seed(game):
    walks = {"action": torch.full((2, 2), 2)}
    for env in (make(game, num_envs=2), make(game, num_envs=2, processes=1)):
        env.reset(torch.tensor([7, 7]))
        for _ in range(5):
            seen = env.step(walks).observation.values
            assert torch.equal(seen[0], seen[1])


@pytest.fixture
def installed(monkeypatch):
    """Install plug-ins: names, and what they stand for."""

    def install(**plugins):
        points = [EntryPoint(name, value, lookup.GROUP) for name, value in plugins.items()]
        monkeypatch.setattr(lookup, "entry_points", lambda group: points if group == lookup.GROUP else [])
        lookup.plugins.cache_clear()

    yield install
    monkeypatch.undo()
    lookup.plugins.cache_clear()


def test_plugins_have_names_of_their_own(installed, game):
    installed(race=game)
    assert "race" in names()
    assert declare("race").name == "race"
    assert [each.name for each in baselines("race")] == ["random"]
    assert declare("race").signature != declare(game).signature


def test_a_plugin_with_a_mistake_is_left_out_of_the_list_and_named(installed, capsys, monkeypatch):
    installed(broken="nopackage.nogame:make")
    monkeypatch.setattr("arena.environments.registry.names", lambda: ("broken", "rps"))
    run_arena("environments", "--json")
    printed = capsys.readouterr()
    assert [item["name"] for item in json.loads(printed.out)["items"]] == ["rps"]
    assert printed.err.startswith(
        "broken is left out: unknown environment 'broken': there is no module 'nopackage.nogame'"
    )


def test_a_game_may_step_a_whole_batch_by_itself(tmp_path, monkeypatch):
    code = (
        "from dataclasses import replace\n"
        "from arena.environments.classic.memory_probe import Recall, declare_recall\n\n\n"
        "def make(name, *, num_envs, device, seed):\n"
        "    return Recall(declare_recall(name), num_envs=num_envs, device=device, seed=seed)\n\n\n"
        "def misnamed(name, *, num_envs, device, seed):\n"
        "    return make('other', num_envs=num_envs, device=device, seed=seed)\n"
    )
    (tmp_path / "readers_batch.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    env = make("readers_batch:make", num_envs=3)
    assert (env.num_envs, env.spec.name) == (3, "readers_batch:make")
    assert declare("readers_batch:make:rounds=2").rounds == 2
    with refused("invalid-input", 2):
        make("readers_batch:make", num_envs=3, processes=2)
    with refused("invalid-game", "readers_batch:misnamed", "other"):
        declare("readers_batch:misnamed")


def test_the_server_runs_no_code_for_a_name(monkeypatch):
    """A name comes with a request: baselines are told without a look at what it stands for."""
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imported {name}"))
    assert [each.name for each in baselines("readers_module:make")] == ["random"]


@pytest.fixture
def sprinters_game(game, tmp_path):
    """The page's game with the page's scripted player."""
    blocks = re.findall(
        r"```python\n(.+?)```", (ROOT / "docs/guides/games" / "pettingzoo.md").read_text(encoding="utf-8"), re.DOTALL
    )
    scripted = next(block for block in blocks if "Scripted(" in block)
    file = tmp_path / "readers_race.py"
    file.write_text(f"{file.read_text(encoding='utf-8')}\n\n{scripted}", encoding="utf-8")
    return game


def test_its_scripted_player_plays_by_name(sprinters_game, capsys):
    run_arena("match", "sprinter", "random", "--environment", sprinters_game, "--matches", "60", "--json")
    assert json.loads(capsys.readouterr().out)["score"] > 0.6
    assert [each.name for each in plugin_baselines(f"{sprinters_game}:rounds=3")] == ["sprinter"]
    assert [each.name for each in baselines(sprinters_game)] == ["random"], "known without the game"


def test_its_scripted_player_is_registered_with_the_league_and_dealt(sprinters_game, worker_of, client):
    small = ["environment.num_envs=8", "rollout.num_steps=16", "rollout.bptt_horizon=8", "network.recurrent_size=16"]
    worker_of(client, resolve(sprinters_game, None, [*small, "run.total_timesteps=256"])).run()
    (sprinter,) = [each for each in client.players(kind="baseline").items if each.name == "sprinter"]
    assert (sprinter.checkpoint, sprinter.rating) == ("baseline:sprinter", 1600.0)
    learner = client.learners(sprinters_game).items[0]
    chances = {item.player_id: item.propensity for item in client.preview(learner.player_id).items}
    assert chances[sprinter.id] > 0.0


@pytest.mark.parametrize(
    ("told", "values"),
    [
        ("'sprinter'", ("readers_race:Race", "sprinter")),
        ("[Scripted('a', 1.0, Race)] * 2", ("readers_race:Race",)),
        ("[Scripted('random', 1.0, Race)]", ("random", 64)),
        ("[Scripted('a b', 1.0, Race)]", ("a b", 64)),
        ("[Scripted('a', float('nan'), Race)]", ("a", "nan", 0, 5000)),
    ],
)
def test_scripted_players_that_make_no_sense_are_refused(game, tmp_path, told, values):
    with (tmp_path / "readers_race.py").open("a", encoding="utf-8") as file:
        file.write(f"\n\nfrom arena.environments.adapters.custom import Scripted\n\nRace.baselines = {told}\n")
    with refused("invalid-game", *values):
        plugin_baselines(game)
