"""Games that do not do what the interface says that they have."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from pettingzoo import AECEnv, ParallelEnv


class Fitting(ParallelEnv):
    """Nobody earns anything, and it ends at once."""

    possible_agents = ("red", "blue")

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2,), np.float32)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return self.look(), {agent: {} for agent in self.agents}

    def look(self):
        return {agent: np.zeros(2, np.float32) for agent in self.possible_agents}

    def step(self, actions):
        return self.look(), dict.fromkeys(actions, 0.0), dict.fromkeys(actions, True), dict.fromkeys(actions, False), {}


class Long(Fitting):
    def look(self):
        return {agent: np.zeros(3, np.float32) for agent in self.possible_agents}


class Wordy(Fitting):
    def look(self):
        return dict.fromkeys(self.possible_agents, "none")


class Old(Fitting):
    def step(self, actions):
        return super().step(actions)[:4]


class Uninformed(Fitting):
    def reset(self, seed=None, options=None):
        return super().reset()[0]


class Seedless(Fitting):
    def reset(self):
        return super().reset()


class Demanding(Fitting):
    def __init__(self, size):
        self.size = size


class Spaceless(Fitting):
    def action_space(self, agent):
        return {"red": Discrete(2)}[agent]


class Scalar(Fitting):
    def look(self):
        return dict.fromkeys(self.possible_agents, np.float32(1.0))


class Turned(Fitting):
    """As many numbers, in another order."""

    def observation_space(self, agent):
        return Box(0.0, 1.0, (2, 3))

    def look(self):
        return {agent: np.zeros((3, 2)) for agent in self.possible_agents}


class Upright(Turned):
    """The same numbers in the same order: an axis of length 1 moves none."""

    def look(self):
        return {agent: np.zeros((2, 1, 3)) for agent in self.possible_agents}


class Choosing(Fitting):
    suit = 1

    def observation_space(self, agent):
        return Dict({"suit": Discrete(3)})

    def look(self):
        return {agent: {"suit": self.suit} for agent in self.possible_agents}


class Halved(Choosing):
    suit = 1.5


class Unchosen(Choosing):
    suit = None


class Suitless(Choosing):
    def look(self):
        return {agent: {} for agent in self.possible_agents}


class Nameless(Fitting):
    possible_agents = None


class Informal(Fitting):
    def reset(self, seed=None, options=None):
        return super().reset()[0], None


class InformingNobody(Fitting):
    def reset(self, seed=None, options=None):
        return super().reset()[0], dict.fromkeys(self.possible_agents)


class Agentless(Fitting):
    def reset(self, seed=None, options=None):
        told = super().reset()
        del self.agents
        return told


class Renaming(Fitting):
    def reset(self, seed=None, options=None):
        told = super().reset()
        self.agents = ["green", "blue"]
        return told


class HalfBlind(Fitting):
    def look(self):
        return {"red": np.zeros(2, np.float32)}


class Unending(Fitting):
    """Goes on for a decision in which nobody earns anything."""

    def step(self, actions):
        nothing, no = dict.fromkeys(actions, 0.0), dict.fromkeys(actions, False)
        return self.look(), nothing, no, no, {agent: {} for agent in actions}


def paying(rewards):
    """The same with these rewards."""

    class Paying(Unending):
        def step(self, actions):
            told = super().step(actions)
            return told[0], rewards, *told[2:]

    return Paying


Unpaid = paying(None)
PaidAtOnce = paying(1.0)
PaidNone = paying({"red": None, "blue": 0.0})
PaidInWords = paying({"red": 0.0, "blue": "won"})
PaidTwice = paying({"red": np.ones(2), "blue": 0.0})
PaidHalf = paying({"red": 1.0})
PaidToNobody = paying({"red": 1.0, "green": 0.0})


class EndedAtOnce(Unending):
    def step(self, actions):
        seen, rewards, _, not_cut, infos = super().step(actions)
        return seen, rewards, False, not_cut, infos


class Deserted(Unending):
    def step(self, actions):
        self.agents = []
        return super().step(actions)


class MaskedLate(Unending):
    def step(self, actions):
        *told, _ = super().step(actions)
        return *told, {agent: {"action_mask": np.ones(2, np.int8)} for agent in actions}


class Broken(Unending):
    """Fails by itself, in a way that a misfit might."""

    def step(self, actions):
        return {}["a line of the game"]


class Turns(AECEnv):
    """The same in turns: red passes, then blue, then it is over."""

    possible_agents = ("red", "blue")
    observation_space, action_space = Fitting.observation_space, Fitting.action_space

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection = list(self.possible_agents), "red"
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0.0), dict.fromkeys(self.agents, 0.0)
        self.terminations, self.truncations = dict.fromkeys(self.agents, False), dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def observe(self, agent):
        return np.zeros(2, np.float32)

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._accumulate_rewards()
        if self.agent_selection == "blue":
            self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = "blue" if self.agent_selection == "red" else "red"


class Unkept(Turns):
    def reset(self, seed=None, options=None):
        super().reset()
        del self._cumulative_rewards


class UninformedTurns(Turns):
    def reset(self, seed=None, options=None):
        super().reset()
        del self.infos


class InformedOfNobody(Turns):
    def reset(self, seed=None, options=None):
        super().reset()
        self.infos = {}


class EndedAtOnceInTurns(Turns):
    def reset(self, seed=None, options=None):
        super().reset()
        self.terminations = False


class Selecting(Turns):
    def step(self, action):
        self.agent_selection = "green"


class PaidNoneInTurns(Turns):
    def step(self, action):
        super().step(action)
        self._cumulative_rewards["blue"] = None


class Staying(Turns):
    def step(self, action):
        if action is not None:
            super().step(action)


class Adding(Turns):
    """Counts with what it is given, also with None."""

    def step(self, action):
        super().step(action + 0)


class Tensors:
    """The same of tensors."""

    observation_space, action_space = Box(0.0, 1.0, (2,)), Discrete(2)

    def __init__(self, num_envs):
        self.num_envs = num_envs

    def reset(self, seed, options=None):
        return np.zeros((self.num_envs, 2, 2)), {}

    def step(self, actions):
        ended, not_cut = np.ones(self.num_envs, bool), np.zeros(self.num_envs, bool)
        return self.reset(None)[0], np.zeros((self.num_envs, 2)), ended, not_cut, {}


class FourTensors(Tensors):
    def step(self, actions):
        return super().step(actions)[:4]


class NoTensors(Tensors):
    def reset(self, seed, options=None):
        return None


class DemandingTensors(Tensors):
    def __init__(self, num_envs, size):
        self.size = size


class SeedlessTensors(Tensors):
    def reset(self):
        return None
