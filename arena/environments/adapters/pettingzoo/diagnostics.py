"""Diagnosis of invalid data from a PettingZoo game, run only after an error."""

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.errors import ArenaError, GameError

DATA_ERRORS = (AttributeError, LookupError, TypeError, ValueError)
"""Errors that invalid data causes."""

TABLES = ("rewards", "_cumulative_rewards", "terminations", "truncations", "infos")
"""Per-agent tables of an AEC environment."""


def explain(error: Exception, faults: Iterator[str]) -> None:
    """Replace an error that invalid data caused by a one-line explanation.

    Errors from the game's own code pass through: their traceback points its author to the line.

    Args:
        error: The error.
        faults: Faults found in the game's data, if any.

    Raises:
        ArenaError: There is a fault.
    """
    filename = traceback.extract_tb(error.__traceback__)[-1].filename
    if isinstance(error, ArenaError) or Path(filename).parent != Path(__file__).parent:
        return
    fault = next(faults, None)
    if fault is not None:
        raise GameError(fault) from error


def reset_faults(name: str, env: Any, result: Sequence[Any], keys: Collection[Any]) -> Iterator[str]:  # noqa: ANN401
    """Find faults in the reset of a parallel environment.

    Args:
        name: Name of the game.
        env: The environment.
        result: Observations and infos.
        keys: Its possible agents.
    """
    yield from _not_dictionaries(name, "reset", ("observations", "infos"), result)
    if not isinstance(getattr(env, "agents", None), list | tuple):
        yield f"{name} has no list of agents after reset: set self.agents to those that play"
        return
    yield from _unknown_agents(name, "agents has", env.agents, keys)
    yield from _missing_observations(name, env.agents, result[0])
    yield from _invalid_infos(name, result[1])


def step_faults(
    name: str,
    living: Sequence[Any],
    result: Sequence[Any],
    keys: Collection[Any],
) -> Iterator[str]:
    """Find faults in the result of a parallel environment's step.

    Args:
        name: Name of the game.
        living: Agents that acted.
        result: Observations, rewards, terminations, truncations and infos.
        keys: Its possible agents.
    """
    parts = ("observations", "rewards", "terminations", "truncations", "infos")
    yield from _not_dictionaries(name, "step", parts, result)
    for part, table in zip(parts[:2], result[:2], strict=True):
        yield from _unknown_agents(name, f"{part} of step have", table, keys)
    yield from (f"{name} returns no reward for agent {key} in step: include every agent that acted, even with 0.0"
                for key in living if key not in result[1])  # fmt: skip
    yield from _invalid_rewards(name, result[1])
    yield from _invalid_infos(name, result[4])


def state_faults(name: str, env: Any, keys: Collection[Any]) -> Iterator[str]:  # noqa: ANN401
    """Find faults in the state of an AEC environment.

    Args:
        name: Name of the game.
        env: The environment.
        keys: Its possible agents.
    """
    for each in ("agents", "agent_selection", *TABLES):
        if not hasattr(env, each):
            yield f"{name} has no {each} after reset: an AEC environment sets self.{each} there"
            return
    yield from _unknown_agents(name, "agents has", env.agents, keys)
    yield from _unknown_agents(name, "agent_selection is", [env.agent_selection], keys)
    for each in TABLES:
        table = getattr(env, each)
        if not isinstance(table, Mapping):
            yield f"{name} has a {type(table).__name__} for {each}: make it a dictionary by agent"
            return
        yield from (f"{name} has no entry of agent {key} in {each}: add one for every agent in agents"
                    for key in env.agents if key not in table)  # fmt: skip
    yield from _invalid_rewards(name, env._cumulative_rewards)
    yield from _invalid_infos(name, env.infos)


def _not_dictionaries(name: str, call: str, parts: Sequence[str], result: Sequence[Any]) -> Iterator[str]:
    for part, table in zip(parts, result, strict=True):
        if not isinstance(table, Mapping):
            yield f"{name} returns {part} from {call} as a {type(table).__name__}: return a dictionary by agent"


def _unknown_agents(name: str, where: str, found: Collection[Any], keys: Collection[Any]) -> Iterator[str]:
    known = ", ".join(map(str, keys))
    yield from (f"{name}: {where} {key!r}, which is not in its possible_agents ({known}): agents keep their names"
                for key in found if key not in keys)  # fmt: skip


def _missing_observations(name: str, agents: Sequence[Any], observations: Mapping[Any, Any]) -> Iterator[str]:
    yield from (f"{name} has no observation of agent {key} at reset: include every agent in agents"
                for key in agents if key not in observations)  # fmt: skip


def _invalid_rewards(name: str, rewards: Mapping[Any, Any]) -> Iterator[str]:
    for key, reward in rewards.items():
        try:
            float(reward)
        except (TypeError, ValueError):
            yield f"{name} pays agent {key} {reward!r}: a reward is a number"


def _invalid_infos(name: str, infos: Mapping[Any, Any]) -> Iterator[str]:
    for key, info in infos.items():
        if not isinstance(info, Mapping):
            shown = type(info).__name__
            yield f"{name} has a {shown} for the info of agent {key}: give a dictionary, also an empty one"
