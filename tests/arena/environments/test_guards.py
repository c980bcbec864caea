"""What games are held to while they are played: numbers that are finite, and that they do not end the program."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from refused import refused

from arena.cli import main
from arena.environments import make
from arena.environments.guards import forbid_exit, require_finite
from arena.play.series import play_series, resolve_policy


@pytest.mark.parametrize(
    ("game", "values"),
    [
        (
            "blind",
            (2, "away", "scout", "nan", "dice"),
        ),
        (
            "dimming",
            (0, "home", "scout", "-inf", 1, "dice", "decision 2"),
        ),
        ("priceless", (1, "home", "tank", "inf", "decision 1")),
    ],
)
def test_numbers_that_are_not_finite_end_a_match_with_agent_entry_and_decision(game: str, values: tuple):
    player = resolve_policy("broken_games:honest", "random")
    with refused("invalid-game", f"broken_games:{game}", *values):
        play_series(f"broken_games:{game}", player, player, matches=4, seed=0)


def test_non_finite_first_observation_names_the_new_match():
    """In a decision that ends matches, what is shown is the next one's, and what is paid is theirs."""
    env = make("broken_games:honest", num_envs=2, seed=1)
    env.reset(torch.tensor([2, 4]))
    nothing = {
        "option": torch.zeros(2, 4, dtype=torch.int64),
        "switch": torch.zeros(2, 4, 2, dtype=torch.bool),
        "push": torch.zeros(2, 4, 1),
    }
    env.next_seeds.copy_(torch.tensor([11, 13]))
    step = [env.step(nothing) for _ in range(3)][-1]
    assert step.over.all()
    step.observation.values[1, 0, 0] = torch.nan
    with refused("invalid-game", 8, 13):
        require_finite(env, step.observation, step, first=7)
    step.observation.values[1, 0, 0] = 0.0
    step.reward[1, 0] = torch.inf
    with refused("invalid-game", 0, "inf", 8, 3):
        require_finite(env, step.observation, step, first=7)


def test_finite_values_with_an_infinite_sum_are_accepted():
    env = make("broken_games:honest", num_envs=2)
    seen = env.reset()
    huge = replace(seen, values=torch.full_like(seen.values, 3e38))
    assert huge.values.sum().isinf()
    require_finite(env, huge)


@pytest.mark.parametrize("game", ["broken_games:leaving", "zoo_games:fragile"])
def test_a_game_that_ends_the_program_ends_a_match_with_the_place(
    game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FRAGILE", str(tmp_path / "trap"))
    (tmp_path / "trap").write_text("left")
    with pytest.raises(SystemExit) as left:
        main(("match", "random", "random", "--environment", game, "--matches", "8"))
    assert left.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"arena: {game} raises SystemExit(")
    assert "_games.py, line " in line
    assert ("in decision 3 of match 0 of zoo_games:fragile" in line) is (game == "zoo_games:fragile")


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_interrupts_and_game_errors_propagate_unchanged(error: type[BaseException]):
    with pytest.raises(error), forbid_exit("game"):
        raise error


def test_a_module_that_ends_the_program_as_it_is_imported_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "game_that_runs.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with refused("invalid-game", "game_that_runs", 3, "__main__"):
        make("game_that_runs:Game", num_envs=1)


def test_a_maker_that_ends_the_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "game_that_leaves.py").write_text("def make():\n    raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with refused("invalid-game", "game_that_leaves:make", "SystemExit", 3, 2):
        make("game_that_leaves:make", num_envs=1)
