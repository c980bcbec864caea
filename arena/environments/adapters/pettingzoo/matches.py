"""Matches of PettingZoo games: AEC (agents act one at a time) and parallel (all act at once)."""

import statistics
from collections.abc import Mapping
from operator import add
from typing import Any

from arena.environments.adapters.calls import RESET, STEP, unpack
from arena.environments.adapters.match import BoolArray, MatchEnd, ObservationBuffer, Row
from arena.environments.adapters.pettingzoo.declare import Declared
from arena.environments.adapters.pettingzoo.diagnostics import (
    DATA_ERRORS,
    explain,
    reset_faults,
    state_faults,
    step_faults,
)
from arena.environments.adapters.sides import END, LIMIT
from arena.environments.adapters.spaces.flatten import ACTION_MASK
from arena.errors import ArenaError, GameError

LARGEST_SEED = 2**31 - 1
"""Largest seed; games that seed C code accept no larger ones."""

DEAD_STEP_ADVICE = (
    "begin step with `if self.terminations[agent] or self.truncations[agent]: return self._was_dead_step(action)`"
)
"""Advice for an AEC environment that does not accept `step(None)` for a finished agent."""


def open_match(declared: Declared) -> "SequentialMatch | ParallelMatch":
    """Create a game and return its match runner."""
    return SequentialMatch(declared) if declared.sequential else ParallelMatch(declared)


class _Match:
    """Common part of both kinds: observations, action masks and returns."""

    def __init__(self, declared: Declared) -> None:
        agents = declared.agents
        self._name, self._scoring, self._home = declared.spec.name, declared.game.scoring, agents.home
        self._env = declared.game.make()
        self._keys, self._encoders, self._decoders = agents.keys, agents.encoders, agents.decoders
        self._number: dict[Any, int] = {key: number for number, key in enumerate(agents.keys)}
        self._masked = [head.name for head in declared.spec.heads if head.masked]
        self._nothing = [0.0] * len(agents.keys)
        self._returns = list(self._nothing)

    def _show(self, agent: int, observation: Any, info: Any, buffer: ObservationBuffer, *, acts: bool) -> None:  # noqa: ANN401
        """Write an agent's observation, and its action mask if it acts."""
        try:
            self._encoders[agent].write(observation, buffer.values[agent])
        except ArenaError as error:
            raise GameError(f"{self._name}, agent {self._keys[agent]}: {error}") from error
        buffer.active[agent] = acts
        if not acts:
            for name in self._masked:
                buffer.masks[name][agent] = False
        elif self._masked:
            for name, mask in self._legal(agent, observation, info).items():
                buffer.masks[name][agent] = mask
        elif ACTION_MASK in info:
            raise GameError(
                f"{self._name} masks actions of agent {self._keys[agent]} but masked none at reset: give "
                f"every info an {ACTION_MASK} from reset on (with a Box alone there is nothing to mask)"
            )

    def _legal(self, agent: int, observation: Any, info: Any) -> Mapping[str, BoolArray]:  # noqa: ANN401
        """Return the agent's action mask per masked head; all options if the game provides no mask."""
        decoder = self._decoders[agent]
        result = observation.get(ACTION_MASK) if isinstance(observation, dict) else None
        result = info.get(ACTION_MASK) if result is None else result
        if result is None:
            return decoder.options
        try:
            return decoder.legal(result)
        except ArenaError as error:
            raise GameError(f"{self._name} shows agent {self._keys[agent]} {error}") from error

    def _end(self, *, truncated: bool) -> MatchEnd:
        home, away = statistics.fmean(self._returns[: self._home]), statistics.fmean(self._returns[self._home :])
        score = self._scoring.score(home, away)
        return MatchEnd(truncated, score, LIMIT if truncated else END)

    def _over_at_once(self, seed: int) -> ArenaError:
        return GameError(f"{self._name} was over before an agent acted (seed {_crop_seed(seed)}): correct its reset")


class SequentialMatch(_Match):
    """Plays an AEC environment: the selected agent acts, all others are inactive.

    Rewards earned during other agents' turns are paid when the game assigns them: with the decision before the agent's
    next turn, or with the last decision.
    """

    def reset(self, seed: int, row: Row) -> None:
        """Open a match (see `Match.reset`)."""
        self._env.reset(seed=_crop_seed(seed))
        self._aec_state = _state_holder(self._env)
        self._returns, self._paid = list(self._nothing), list(self._nothing)
        try:
            mover = self._find_mover(row.final)
            if mover is None:
                raise self._over_at_once(seed)
            self._show_mover(mover, row.seen)
        except DATA_ERRORS as error:
            explain(error, state_faults(self._name, self._aec_state, self._number))
            raise

    def step(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Step the acting agent (see `Match.step`)."""
        self._env.step(self._decoders[self._mover].read(row.actions))
        try:
            return self._read(row, last=last)
        except DATA_ERRORS as error:
            explain(error, state_faults(self._name, self._aec_state, self._number))
            raise

    def _read(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Read the result of a step."""
        self._cut, self._paid = last, list(self._nothing)
        mover = self._find_mover(row.final)
        if mover is not None and last:
            self._pay_waiting(mover)
            self._show_last(row.final)
        if any(self._paid):
            row.reward[:] = self._paid
            self._returns = list(map(add, self._returns, self._paid))
        if mover is None or last:
            return self._end(truncated=self._cut)
        self._show_mover(mover, row.seen)
        return None

    def _find_mover(self, final: ObservationBuffer) -> int | None:
        """Remove finished agents until one can act; return it, or None after writing the final observations."""
        state, shown = self._aec_state, False
        while state.agents:
            key = state.agent_selection
            agent = self._number[key]
            self._paid[agent] += state._cumulative_rewards[key]
            if not (state.terminations[key] or state.truncations[key]):
                return agent
            # Before the first removal, because removed agents can no longer be observed.
            if not shown and all(state.terminations[each] or state.truncations[each] for each in state.agents):
                shown = True
                self._cut = any(not state.terminations[each] for each in state.agents)
                self._show_last(final)
            self._remove_finished(key)
        return None

    def _remove_finished(self, key: Any) -> None:  # noqa: ANN401  any agent key
        """Remove a finished agent by `step(None)`."""
        try:
            self._env.step(None)
        except Exception as error:
            error.add_note(f"step(None) was called for agent {key}, which is out of the game: {DEAD_STEP_ADVICE}")
            raise
        if key in self._aec_state.agents:
            raise GameError(
                f"{self._name} keeps agent {key} after step(None), and it is out of the game: {DEAD_STEP_ADVICE}"
            )

    def _pay_waiting(self, mover: int) -> None:
        """Pay the outstanding rewards of agents that wait for their turn; the acting agent already has its own."""
        for key in self._aec_state.agents:
            # Private in PettingZoo: `last` returns these rewards only for the selected agent.
            if self._number[key] != mover:
                self._paid[self._number[key]] += self._aec_state._cumulative_rewards[key]

    def _show_mover(self, mover: int, seen: ObservationBuffer) -> None:
        self._mover, key = mover, self._keys[mover]
        self._show(mover, self._env.observe(key), self._aec_state.infos[key], seen, acts=True)

    def _show_last(self, final: ObservationBuffer) -> None:
        """Write the final observations of all remaining agents; agents that were truncated are active."""
        final.clear()
        for key in self._aec_state.agents:
            observation, info = self._env.observe(key), self._aec_state.infos[key]
            self._show(self._number[key], observation, info, final, acts=not self._aec_state.terminations[key])


class ParallelMatch(_Match):
    """Plays a parallel environment: all remaining agents act at once."""

    def reset(self, seed: int, row: Row) -> None:
        """Open a match (see `Match.reset`)."""
        result = unpack(self._name, "reset", self._env.reset(seed=_crop_seed(seed)), RESET)
        self._returns = list(self._nothing)
        try:
            self._living = list(self._env.agents)
            if not self._living:
                raise self._over_at_once(seed)
            self._show_all(result[0], result[1], row.seen)
        except DATA_ERRORS as error:
            explain(error, reset_faults(self._name, self._env, result, self._number))
            raise

    def step(self, row: Row, *, last: bool) -> MatchEnd | None:
        """Step all remaining agents (see `Match.step`)."""
        number, decoder = self._number, self._decoders
        taken = {key: decoder[number[key]].read(row.actions) for key in self._living}
        result = unpack(self._name, "step", self._env.step(taken), STEP)
        try:
            return self._read(result, row, last=last)
        except DATA_ERRORS as error:
            explain(error, step_faults(self._name, self._living, result, number))
            raise

    def _read(self, result: Any, row: Row, *, last: bool) -> MatchEnd | None:  # noqa: ANN401  any value
        """Read the result of a step."""
        number = self._number
        observations, rewards, terminations, truncations, infos = result
        for key, reward in rewards.items():
            row.reward[number[key]] = reward
            self._returns[number[key]] += float(reward)
        if len(rewards) < len(self._living):
            raise LookupError(rewards)  # the reward of an agent is missing
        observed = [key for key in self._living if key in observations]
        continuing = [key for key in observed if not (terminations.get(key) or truncations.get(key))]
        if last or not continuing:
            truncated_agents = [key for key in observed if not terminations.get(key)]
            self._show_last(observations, infos, truncated_agents, row.final)
            return self._end(truncated=bool(truncated_agents))
        if not self._env.agents:
            raise GameError(
                f"{self._name} has no agents left after a step that ended the match: set terminations or truncations "
                "for the agents that are done"
            )
        for key in self._living:
            if key not in continuing:
                row.seen.hide(number[key])
        self._living = continuing
        self._show_all(observations, infos, row.seen)
        return None

    def _show_all(self, observations: Any, infos: Any, seen: ObservationBuffer) -> None:  # noqa: ANN401  any observation
        for key in self._living:
            self._show(self._number[key], observations[key], infos.get(key, {}), seen, acts=True)

    def _show_last(self, observations: Any, infos: Any, cut: list[Any], final: ObservationBuffer) -> None:  # noqa: ANN401
        """Write the final observations of all agents that acted; agents that were truncated are active."""
        final.clear()
        for key in self._living:
            if key in observations:
                self._show(self._number[key], observations[key], infos.get(key, {}), final, acts=key in cut)


def _crop_seed(seed: int) -> int:
    return seed & LARGEST_SEED


def _state_holder(env: Any) -> Any:  # noqa: ANN401
    """Return the innermost wrapper that provides `agent_selection`; passing through all wrappers is slow."""
    attribute = "agent_selection"
    while attribute not in vars(env) and not hasattr(type(env), attribute) and "env" in vars(env):
        env = env.env
    return env
