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
    "Scalar": "Scalar, agent red: block observation shows a float32 of shape (): its space says numbers of shape (2,)",
    "Turned": "Turned, agent red: block observation shows a ndarray of shape (3, 2): its space says numbers of",
    "Halved": "Halved, agent red: block suit shows a float of shape (): its space says whole numbers of shape ()",
    "Unchosen": "Unchosen, agent red: block suit shows a NoneType of shape (): its space says whole numbers",
    "Suitless": "Suitless, agent red: block suit is not in the dict that it observes: its space says whole numbers",
    "Nameless": "Nameless has a NoneType for possible_agents: list all its agents",
    "Informal": "Informal returns infos from reset as a NoneType: return a dictionary by agent",
    "InformingNobody": "InformingNobody has a NoneType for the info of agent red: give a dictionary, also an empty one",
    "Agentless": "Agentless has no list of agents after reset: set self.agents to those that play",
    "Renaming": "Renaming: agents has 'green', which is none of its possible_agents (red, blue): agents keep",
    "HalfBlind": "HalfBlind shows agent blue nothing at reset: observations have everybody in agents",
    "Unpaid": "Unpaid returns rewards from step as a NoneType: return a dictionary by agent",
    "PaidAtOnce": "PaidAtOnce returns rewards from step as a float: return a dictionary by agent",
    "PaidNone": "PaidNone pays agent red None: a reward is a number",
    "PaidInWords": "PaidInWords pays agent blue 'won': a reward is a number",
    "PaidTwice": "PaidTwice pays agent red array([1., 1.]): a reward is a number",
    "PaidHalf": "PaidHalf pays agent blue nothing in step: rewards have everybody who acted, also with 0.0",
    "PaidToNobody": "PaidToNobody: rewards of step have 'green', which is none of its possible_agents (red, blue): ",
    "EndedAtOnce": "EndedAtOnce returns terminations from step as a bool: return a dictionary by agent",
    "Deserted": "Deserted has no agents left after a step that ended the match for nobody: say in terminations or",
    "MaskedLate": "MaskedLate masks the actions of agent red, and masked nobody's at reset: give every info an",
    "Unkept": "Unkept has no _cumulative_rewards after reset: an AEC environment sets self._cumulative_rewards there",
    "UninformedTurns": "UninformedTurns has no infos after reset: an AEC environment sets self.infos there",
    "InformedOfNobody": "InformedOfNobody has no entry of agent red in infos: give everybody in agents one",
    "EndedAtOnceInTurns": "EndedAtOnceInTurns has a bool for terminations: make it a dictionary by agent",
    "Selecting": "Selecting: agent_selection is 'green', which is none of its possible_agents (red, blue): ",
    "PaidNoneInTurns": "PaidNoneInTurns pays agent blue None: a reward is a number",
    "Staying": "Staying keeps agent red after step(None), and it is out of the game: begin step with `if self.termin",
    "Spaceless": "Spaceless cannot say its spaces: KeyError: 'blue' (",
    "FourTensors": f"FourTensors returns 4 things from step: {STEP}",
    "NoTensors": "NoTensors returns observation as a NoneType that is no tensor (",
    "DemandingTensors": "DemandingTensors cannot be made: TypeError: DemandingTensors.__init__() missing 1 required",
    "SeedlessTensors": "SeedlessTensors cannot be reset: TypeError: SeedlessTensors.reset() got an unexpected",
}


def play(game):
    env = make(f"misfit_games:{game}", num_envs=2, seed=1)
    env.reset()
    nothing = {"action": torch.zeros(2, 2, dtype=torch.int64)}
    return [env.step(nothing) for _ in range(2 if env.spec.turn_based else 1)][-1]


@pytest.mark.parametrize("game", ["Fitting", "Upright", "Choosing", "Turns", "Tensors"])
def test_what_fits_is_played(game):
    assert bool(play(game).terminated.all())


def test_a_game_that_goes_on_is_played():
    assert not play("Unending").over.any()


def test_mistakes_in_a_games_own_lines_are_its_traceback():
    with pytest.raises(KeyError, match="a line of the game"):
        play("Broken")


def test_who_cannot_be_given_none_is_told_why_it_was():
    with pytest.raises(TypeError) as told:
        play("Adding")
    assert told.value.__notes__[0].startswith("step(None) was called for agent red, which is out of the game: begin")


@pytest.mark.parametrize(("game", "told"), MISFITS.items())
def test_what_does_not_fit_is_told_in_a_line(game, told):
    with pytest.raises(ArenaError, match=re.escape(f"misfit_games:{told}")):
        play(game)


def test_a_mistake_outside_of_matches_is_located():
    with pytest.raises(ArenaError, match=r"misfit_games\.py, line \d+\): mend it"):
        play("Spaceless")
