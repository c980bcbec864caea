"""Small games of the PettingZoo interface with what adapters stumble over."""

import os
import signal
import sys
from pathlib import Path

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from arena.environments.adapters.pettingzoo import ReturnMargin, TwoSided


class Relay(AECEnv):
    """Four agents in turn, who pay each other; one leaves early, and the mask is told beside the observation.

    The mover's action, plus one, is what every other agent is paid; itself gets a tenth of it. `blue_0` is out of the
    game after its second turn, the others after their fourth: by the game where `seed` is even, else by a limit.
    """

    def __init__(self, turns=4):
        self.possible_agents = ["red_0", "blue_0", "red_1", "blue_1"]
        self._turns_each = turns

    def observation_space(self, agent):
        return spaces.Box(-50.0, 1000.0, (2, 2), np.float64)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: self._info() for agent in self.agents}
        self._taken = dict.fromkeys(self.agents, 0)
        self._limited, self._seed, self._time = bool(seed % 2), seed, 0
        self.agent_selection = self.agents[0]

    def _info(self):
        return {"action_mask": np.array([1, 1, 1], dtype=np.int8)}

    def observe(self, agent):
        return np.array([[self._time, self.possible_agents.index(agent)], [self._seed % 100, -self._time]], dtype=float)

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self._time += 1
        self._taken[agent] += 1
        self._cumulative_rewards[agent] = 0.0
        self.rewards = {each: (action + 1.0) * (0.1 if each == agent else 1.0) for each in self.agents}
        self._accumulate_rewards()
        self.infos[agent]["action_mask"] = np.array([1, self._taken[agent] % 2 == 0, 1], dtype=np.int8)
        place = self.agents.index(agent)
        self.agent_selection = self.agents[(place + 1) % len(self.agents)]
        if agent == "blue_0" and self._taken[agent] == 2:
            self.terminations[agent] = True
        if min(count for each, count in self._taken.items() if each in self.agents) == self._turns_each:
            ended = self.truncations if self._limited else self.terminations
            ended.update(dict.fromkeys(self.agents, True))
        self._deads_step_first()


class Meadow(ParallelEnv):
    """Two wolves and a sheep, who see and do different things at once; wolves may starve.

    A wolf sees a picture and its hunger, a sheep where it is. `wolf_1` leaves after two decisions. It ends after
    `length` decisions, by a limit where `seed` is odd.
    """

    def __init__(self, length=5):
        self.possible_agents = ["wolf_0", "wolf_1", "sheep_0"]
        self._length = length

    def observation_space(self, agent):
        if agent == "sheep_0":
            return spaces.Box(-np.inf, np.inf, (3,), np.float32)
        picture = spaces.Box(0, 255, (2, 2, 1), np.uint8)
        return spaces.Dict({"picture": picture, "hunger": spaces.Discrete(3, start=1)})

    def action_space(self, agent):
        return spaces.Discrete(2 if agent == "sheep_0" else 4)

    def reset(self, seed=None, options=None):
        self.agents, self._time = list(self.possible_agents), 0
        self._seed, self._chance = seed, np.random.default_rng(seed)
        return self._observe(), {agent: {} for agent in self.agents}

    def _observe(self):
        seen = {}
        for agent in self.agents:
            if agent == "sheep_0":
                seen[agent] = self._chance.normal(size=3).astype(np.float32)
            else:
                picture = self._chance.integers(256, size=(2, 2, 1), dtype=np.uint8)
                seen[agent] = {"picture": picture, "hunger": 1 + self._time % 3}
        return seen

    def step(self, actions):
        self._time += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        over, limited = self._time == self._length, bool(self._seed % 2)
        terminations = dict.fromkeys(self.agents, over and not limited)
        truncations = dict.fromkeys(self.agents, over and limited)
        if "wolf_1" in self.agents and self._time == 2:
            terminations["wolf_1"] = True
        seen = self._observe()
        infos = {agent: {} for agent in self.agents}
        self.agents = [each for each in self.agents if not (terminations[each] or truncations[each])]
        return seen, rewards, terminations, truncations, infos


class Duel(ParallelEnv):
    """Two agents with any action space; what they do is what they see next."""

    def __init__(self, space, seen=None, agents=("left", "right")):
        self.possible_agents, self._space = list(agents), space
        self._seen = seen or spaces.Box(-1.0, 1.0, (4,), np.float32)

    def observation_space(self, agent):
        return self._seen

    def action_space(self, agent):
        return self._space

    def reset(self, seed=None, options=None):
        self.agents, self.done = list(self.possible_agents), []
        return self._observe(), {agent: {} for agent in self.agents}

    def _observe(self):
        return {agent: np.zeros(4, dtype=np.float32) for agent in self.agents}

    def step(self, actions):
        assert all(self._space.contains(action) for action in actions.values()), actions
        self.done.append(actions)
        flags = dict.fromkeys(self.agents, False)
        return self._observe(), dict.fromkeys(self.agents, 0.0), flags, dict(flags), {each: {} for each in self.agents}


def way_to_break() -> str:
    """What the file says that `FRAGILE` names; nothing to a process that another one was quicker than."""
    file = Path(os.environ["FRAGILE"])
    try:
        way = file.read_text(encoding="utf-8")
        if "always" not in way:
            file.unlink()
    except FileNotFoundError:
        return ""
    return way


class Fragile(Meadow):
    """Meadow, in which a decision breaks as a file says that an environment variable names: `killed`, `raised`,
    `left` or `stalled`.

    The file is gone after it, so that it breaks once; one that says `killed always` stays.
    """

    def step(self, actions):
        way = way_to_break() if self._time == 2 else ""
        if "raised" in way:
            raise RuntimeError("the fence is broken")
        if "left" in way:
            sys.exit("the sheep sleep")
        if "killed" in way:
            os.kill(os.getpid(), signal.SIGKILL)
        if "stalled" in way:
            self._stall()
        return super().step(actions)

    def _stall(self) -> None:
        while True:
            self._time += 1


class Brittle(Relay):
    """Relay, in which the fourth decision breaks as `Fragile` breaks: everybody has had a turn but the mover."""

    def step(self, action):
        if self._time == 3 and "killed" in way_to_break():
            os.kill(os.getpid(), signal.SIGKILL)
        super().step(action)


class Endless(Meadow):
    """Meadow, in which a decision never ends."""

    def step(self, actions):
        while True:
            self._time += 1


relay = TwoSided(Relay)
fragile = TwoSided(Fragile, home=["wolf_0", "wolf_1"], away=["sheep_0"])
brittle = TwoSided(Brittle)
endless = TwoSided(Endless, home=["wolf_0", "wolf_1"], away=["sheep_0"])
short_relay = TwoSided(Relay, max_decisions=6)
meadow = TwoSided(Meadow, home=["wolf_0", "wolf_1"], away=["sheep_0"], scoring=ReturnMargin(10.0))
short_meadow = TwoSided(Meadow, home=["wolf_0", "wolf_1"], away=["sheep_0"], max_decisions=3)
box = TwoSided(
    lambda: Duel(spaces.Box(np.array([0.0, -2.0]), np.array([10.0, 2.0]), dtype=np.float64)), max_decisions=15
)
number = 3


def three_sides():
    return Duel(spaces.Discrete(2), agents=("a_0", "b_0", "c_0"))


def unbounded():
    return Duel(spaces.Box(-np.inf, np.inf, (2,), np.float32))


def texts():
    return Duel(spaces.Discrete(2), seen=spaces.Text(5))


def whole_numbers():
    return Duel(spaces.Box(0, 5, (2,), np.int64))


def multi_discrete():
    return Duel(spaces.MultiDiscrete([2, 5], start=[0, 1]))


def multi_binary():
    return Duel(spaces.MultiBinary(3))
