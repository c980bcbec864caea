"""Where a reader's game is not as the interface has it, one line says what it did and what was due."""

import pytest
import torch
from refused import assert_names, refused

from arena.environments import make

STEP = "return observations, rewards, terminations, truncations, infos"

MISFITS = {
    "Long": ("red", "observation", "(3,)", "(2,)"),
    "Wordy": ("red", "observation", "(2,)"),
    "Old": (4, "step", "observations"),
    "Uninformed": ("dict", "reset"),
    "Seedless": ("TypeError", "seed"),
    "Demanding": ("TypeError",),
    "Scalar": ("red", "observation", "float32", "(2,)"),
    "Turned": ("red", "observation", "(3, 2)"),
    "Halved": ("red", "suit", "float"),
    "Unchosen": ("red", "suit", "NoneType"),
    "Suitless": ("red", "suit", "dict"),
    "Nameless": ("NoneType", "possible_agents", "list", "agents"),
    "Informal": ("infos", "reset", "NoneType"),
    "InformingNobody": ("NoneType", "red"),
    "Agentless": ("list", "agents", "reset"),
    "Renaming": ("agents", "green", "possible_agents", "red", "blue"),
    "HalfBlind": ("blue", "reset", "agents"),
    "Unpaid": ("rewards", "step", "NoneType"),
    "PaidAtOnce": ("rewards", "step", "float"),
    "PaidNone": ("red",),
    "PaidInWords": ("blue", "won"),
    "PaidTwice": ("red", "[1., 1.]"),
    "PaidHalf": ("blue", "step", 0.0),
    "PaidToNobody": ("rewards", "step", "green", "possible_agents", "red", "blue"),
    "EndedAtOnce": ("terminations", "step", "bool"),
    "Deserted": ("agents", "step"),
    "MaskedLate": ("red", "reset"),
    "Unkept": ("_cumulative_rewards", "reset", "AEC", "self._cumulative_rewards"),
    "UninformedTurns": ("infos", "reset", "AEC", "self.infos"),
    "InformedOfNobody": ("red", "infos"),
    "EndedAtOnceInTurns": ("bool", "terminations"),
    "Selecting": ("agent_selection", "green", "possible_agents", "red", "blue"),
    "PaidNoneInTurns": ("blue",),
    "Staying": ("red", "step(None)", "self.terminations[agent]"),
    "Spaceless": ("KeyError",),
    "FourTensors": (4, "step", "observations"),
    "NoTensors": ("observation", "NoneType"),
    "DemandingTensors": ("TypeError",),
    "SeedlessTensors": ("TypeError",),
}


def play(game):
    env = make(f"misfit_games:{game}", num_envs=2, seed=1)
    env.reset()
    nothing = {"action": torch.zeros(2, 2, dtype=torch.int64)}
    return [env.step(nothing) for _ in range(2 if env.spec.turn_based else 1)][-1]


@pytest.mark.parametrize("game", ["Fitting", "Upright", "Choosing", "Turns", "Tensors"])
def test_valid_game_is_played(game):
    assert bool(play(game).terminated.all())


def test_unfinished_game_continues():
    assert not play("Unending").over.any()


def test_mistakes_in_a_games_own_lines_are_its_traceback():
    with refused(KeyError):
        play("Broken")


def test_step_none_error_explains_the_dead_agent():
    with pytest.raises(TypeError) as told:
        play("Adding")
    assert_names(told.value.__notes__[0], "step(None)", "red")


@pytest.mark.parametrize(("game", "values"), MISFITS.items())
def test_invalid_game_is_a_one_line_error(game, values):
    with refused("invalid-game", f"misfit_games:{game}", *values) as error:
        play(game)
    assert "\n" not in str(error.value)


def test_a_mistake_outside_of_matches_is_located():
    with refused("invalid-game", "misfit_games.py"):
        play("Spaceless")
