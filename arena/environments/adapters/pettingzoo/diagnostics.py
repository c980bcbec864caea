"""Diagnosis of invalid data from a PettingZoo game, run only after an error."""

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.errors import ArenaError, GameError

STUMBLES = (AttributeError, LookupError, TypeError, ValueError)
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
    place = traceback.extract_tb(error.__traceback__)[-1].filename
    if isinstance(error, ArenaError) or Path(place).parent != Path(__file__).parent:
        return
    fault = next(faults, None)
    if fault is not None:
        raise GameError(fault) from error


def opened_wrongly(name: str, env: Any, told: Sequence[Any], keys: Collection[Any]) -> Iterator[str]:  # noqa: ANN401
    """Find faults in the reset of a parallel environment.

    Args:
        name: Name of the game.
        env: The environment.
        told: Observations and infos.
        keys: Its possible agents.
    """
    yield from _no_tables(name, "reset", ("observations", "infos"), told)
    if not isinstance(getattr(env, "agents", None), list | tuple):
        yield f"{name} has no list of agents after reset: set self.agents to those that play"
        return
    yield from _strangers(name, "agents has", env.agents, keys)
    yield from _unseen(name, env.agents, told[0])
    yield from _uninformed(name, told[1])


def stepped_wrongly(
    name: str,
    living: Sequence[Any],
    told: Sequence[Any],
    keys: Collection[Any],
) -> Iterator[str]:
    """Find faults in the result of a parallel environment's step.

    Args:
        name: Name of the game.
        living: Agents that acted.
        told: Observations, rewards, terminations, truncations and infos.
        keys: Its possible agents.
    """
    parts = ("observations", "rewards", "terminations", "truncations", "infos")
    yield from _no_tables(name, "step", parts, told)
    for part, table in zip(parts[:2], told[:2], strict=True):
        yield from _strangers(name, f"{part} of step have", table, keys)
    yield from (f"{name} returns no reward for agent {key} in step: include every agent that acted, even with 0.0"
                for key in living if key not in told[1])  # fmt: skip
    yield from _unpayable(name, told[1])
    yield from _uninformed(name, told[4])


def kept_wrongly(name: str, env: Any, keys: Collection[Any]) -> Iterator[str]:  # noqa: ANN401
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
    yield from _strangers(name, "agents has", env.agents, keys)
    yield from _strangers(name, "agent_selection is", [env.agent_selection], keys)
    for each in TABLES:
        table = getattr(env, each)
        if not isinstance(table, Mapping):
            yield f"{name} has a {type(table).__name__} for {each}: make it a dictionary by agent"
            return
        yield from (f"{name} has no entry of agent {key} in {each}: add one for every agent in agents"
                    for key in env.agents if key not in table)  # fmt: skip
    yield from _unpayable(name, env._cumulative_rewards)
    yield from _uninformed(name, env.infos)


def _no_tables(name: str, call: str, parts: Sequence[str], told: Sequence[Any]) -> Iterator[str]:
    for part, table in zip(parts, told, strict=True):
        if not isinstance(table, Mapping):
            yield f"{name} returns {part} from {call} as a {type(table).__name__}: return a dictionary by agent"


def _strangers(name: str, where: str, found: Collection[Any], keys: Collection[Any]) -> Iterator[str]:
    known = ", ".join(map(str, keys))
    yield from (f"{name}: {where} {key!r}, which is not in its possible_agents ({known}): agents keep their names"
                for key in found if key not in keys)  # fmt: skip


def _unseen(name: str, agents: Sequence[Any], observations: Mapping[Any, Any]) -> Iterator[str]:
    yield from (f"{name} has no observation of agent {key} at reset: include every agent in agents"
                for key in agents if key not in observations)  # fmt: skip


def _unpayable(name: str, rewards: Mapping[Any, Any]) -> Iterator[str]:
    for key, reward in rewards.items():
        try:
            float(reward)
        except (TypeError, ValueError):
            yield f"{name} pays agent {key} {reward!r}: a reward is a number"


def _uninformed(name: str, infos: Mapping[Any, Any]) -> Iterator[str]:
    for key, info in infos.items():
        if not isinstance(info, Mapping):
            shown = type(info).__name__
            yield f"{name} has a {shown} for the info of agent {key}: give a dictionary, also an empty one"
