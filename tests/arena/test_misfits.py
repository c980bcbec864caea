"""Where a reader's game is not as the interface has it, one line says what it did and what was due."""

import re

import pytest
import torch

from arena.environments import make
from arena.errors import ArenaError

STEP = "return observations, rewards, terminations, truncations, infos"

MISFITS = {
    "Long": "Long, agent red: block observation shows a ndarray of shape (3,): its space says numbers of shape (2,)",
    "Wordy": "Wordy, agent red: block observation shows a str of shape (): its space says numbers of shape (2,)",
    "Old": f"Old returns 4 things from step: {STEP}",
    "Uninformed": "Uninformed returns a dict from reset: return observations, infos",
    "Seedless": "Seedless cannot be reset: TypeError: Seedless.reset() got an unexpected keyword argument 'seed' (",
    "Demanding": "Demanding cannot be made: TypeError: Demanding.__init__() missing 1 required positional argument",
    "Spaceless": "Spaceless cannot say its spaces: KeyError: 'blue' (",
    "FourTensors": f"FourTensors returns 4 things from step: {STEP}",
    "NoTensors": "NoTensors returns observation as a NoneType that is no tensor (",
    "DemandingTensors": "DemandingTensors cannot be made: TypeError: DemandingTensors.__init__() missing 1 required",
    "SeedlessTensors": "SeedlessTensors cannot be reset: TypeError: SeedlessTensors.reset() got an unexpected",
}


def play(game):
    env = make(f"misfit_games:{game}", num_envs=2, seed=1)
    env.reset()
    return env.step({"action": torch.zeros(2, 2, dtype=torch.int64)})


@pytest.mark.parametrize("game", ["Fitting", "Tensors"])
def test_what_fits_is_played(game):
    assert bool(play(game).terminated.all())


@pytest.mark.parametrize(("game", "told"), MISFITS.items())
def test_what_does_not_fit_is_told_in_a_line(game, told):
    with pytest.raises(ArenaError, match=re.escape(f"misfit_games:{told}")):
        play(game)


def test_a_mistake_outside_of_matches_is_located():
    with pytest.raises(ArenaError, match=r"misfit_games\.py, line \d+\): mend it"):
        play("Spaceless")
