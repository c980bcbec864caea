"""Gymnasium environment over the matches of a session, for libraries that train one agent."""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from arena.environments.adapters.sides import HigherReturn, Scoring
from league import wire
from league.client.session.match import Match
from league.client.session.session import OPPONENTS_CACHED, Session
from league.errors import LeagueError

LARGEST_SEED = 2**31 - 1  # games that seed C code accept no larger ones
BASELINE, RANDOM = "baseline:", "baseline:random"
HIGHER_RETURN = HigherReturn()

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32]
Mask = NDArray[np.int8]
Policy = Callable[[Vector, Mask], int]
"""Maps an observation and its mask of legal actions to an action."""


class OpponentEnv(gymnasium.Env[Vector, np.int64]):
    """Matches of a session as a Gymnasium environment: an episode is a match against a leased opponent.

    The game is a turn-based PettingZoo game of two agents with one observation space and one discrete action space.
    Observations are flat, and `info["action_mask"]` has the legal actions. An illegal action, of either player, is
    replaced by a random legal one. The reward is the game's since the learner's last action. The environment reports
    the result when the match ends; a match that you reset before its end is not reported.

    Once the league stops or drains the worker, the learner plays itself without reports, because most libraries cannot
    end in the middle of a rollout. End the training when `session.should_stop` is true.

    Args:
        session: Session of the learner. Several environments may share it.
        game: The game, such as `pettingzoo.make("aec", "classic/connect_four-v3")`. Only this environment may use it.
        load: Creates an opponent's policy from its checkpoint, or the learner's as it is now from None.
        scoring: Derives the score from the sums of rewards.
    """

    def __init__(
        self,
        session: Session,
        game: Any,  # noqa: ANN401  an AECEnv; PettingZoo is untyped
        load: Callable[[bytes | None], Policy],
        scoring: Scoring = HIGHER_RETURN,
    ) -> None:
        self._session, self._scoring = session, scoring
        self._load, self._load_cached = load, lru_cache(OPPONENTS_CACHED)(load)
        self._game = game
        self._home, self._away = self._game.possible_agents
        self._space = _without_mask(self._game.observation_space(self._home))
        flat = spaces.flatten_space(self._space)
        if not isinstance(flat, spaces.Box):
            raise TypeError(f"{self._space} has no fixed length: wrap the game so that it has")
        self.observation_space = spaces.Box(flat.low.astype(np.float32), flat.high.astype(np.float32))
        action_space = self._game.action_space(self._home)
        if not isinstance(action_space, spaces.Discrete):
            raise TypeError(f"{action_space} is not Discrete: wrap the game so that its actions are")
        self.action_space = action_space
        self._options = int(action_space.n)
        self._match: Match | None = None
        self._stopped = False
        self._rng = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Vector, dict[str, Any]]:
        """Start the next match; its seed comes from the league.

        Raises:
            LeagueError: The league stopped the worker before its first match, or rejects the request for leases.
        """
        while True:
            match = self._session.next_match()
            if match is None:
                self._warn_of_stop()
            elif _is_unknown(match.opponent):
                self._session.reject(match, f"the environment of this worker has no {match.opponent.checkpoint}")
                continue
            if self._start(match):
                return self._seen()

    def step(self, action: np.int64) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Play the learner's action and the opponent's next ones."""
        before = self._returns[self._learner]
        self._play(int(action))
        ended = not self._play_opponent()
        truncated = ended and not all(self._game.terminations.values())
        observation, info = self._seen()
        return observation, self._returns[self._learner] - before, ended and not truncated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Return the learner's legal actions, as `MaskablePPO` of sb3-contrib asks for them."""
        return self._view[1].astype(bool)

    def close(self) -> None:
        """Close the game; the session stays open."""
        self._game.close()

    def _start(self, match: Match | None) -> bool:
        """Start a match, or one without a report; play until the learner's first turn; false if it ends before."""
        seed = int(self._rng.integers(LARGEST_SEED)) if match is None else match.seed
        self._match, self._decisions = match, 0
        self._learner = self._home if match is None or match.side == "home" else self._away
        self._returns = dict.fromkeys((self._home, self._away), 0.0)
        self._opponent = self._load(None) if match is None else self._policy_of(match.opponent)
        self._rng = np.random.default_rng(seed)
        self._game.reset(seed=seed & LARGEST_SEED)
        return self._play_opponent()

    def _warn_of_stop(self) -> None:
        """Log that the league stopped the worker; raise if the environment has not played yet."""
        worker, rule = self._session.worker.name, "this worker gets no more matches"
        remedy = "end the training once `session.should_stop` is true"
        if self._match is None and not self._stopped:
            raise LeagueError(worker, rule, remedy)
        if not self._stopped:
            logger.warning("%s: %s; the learner plays itself without reports; %s", worker, rule, remedy)
        self._stopped = True

    def _policy_of(self, opponent: wire.Seat) -> Policy:
        if opponent.checkpoint == RANDOM:
            return lambda _, mask: int(self._rng.choice(np.flatnonzero(mask)))
        weights = self._session.weights(opponent)
        # The learner itself is not cached, because its weights change.
        return self._load(None) if weights is None else self._load_cached(weights)

    def _play_opponent(self) -> bool:
        """Play until the learner's turn; false if the match has ended, which is then reported."""
        game = self._game
        while not (any(game.terminations.values()) or any(game.truncations.values())):
            self._view = self._look(game.agent_selection)
            if game.agent_selection == self._learner:
                return True
            self._play(self._opponent(*self._view))
        self._view = self._look(self._learner)
        if self._match is not None:
            score = self._scoring.score(self._returns[self._home], self._returns[self._away])
            self._session.report(self._match, score if self._match.side == "home" else 1.0 - score, self._decisions)
        return False

    def _play(self, action: int) -> None:
        """Play an action of the agent whose turn it is."""
        mask = self._view[1]
        self._game.step(action if mask[action] else self._rng.choice(np.flatnonzero(mask)))
        self._decisions += 1
        for agent, reward in self._game.rewards.items():
            self._returns[agent] += float(reward)

    def _look(self, agent: str) -> tuple[Vector, Mask]:
        """Return an agent's observation and its mask of legal actions."""
        seen, mask = self._game.observe(agent), self._game.infos[agent].get("action_mask")
        if isinstance(seen, dict) and "action_mask" in seen:
            seen, mask = seen["observation"], seen["action_mask"]
        observation = np.asarray(spaces.flatten(self._space, seen), np.float32)
        return observation, np.ones(self._options, np.int8) if mask is None else np.asarray(mask, np.int8)

    def _seen(self) -> tuple[Vector, dict[str, Any]]:
        """Return the view of the agent whose turn it is, or the learner's after the end, with its mask as info."""
        observation, mask = self._view
        return observation, {"action_mask": mask}


def _is_unknown(opponent: wire.Seat) -> bool:
    """Return whether the opponent is a baseline that this environment cannot play."""
    checkpoint = opponent.checkpoint or ""
    return checkpoint.startswith(BASELINE) and checkpoint != RANDOM


def _without_mask(space: spaces.Space[Any]) -> spaces.Space[Any]:
    return space["observation"] if isinstance(space, spaces.Dict) and "action_mask" in space.spaces else space
