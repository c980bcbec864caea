"""Environment spec of a PettingZoo game, derived from an instance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import spaces

from arena.environments.adapters.calls import RESET, game_errors, unpack
from arena.environments.adapters.sides import DEFAULT_DECISIONS, REASONS, TwoSided, assign_sides, prefix
from arena.environments.adapters.spaces.actions import ActionDecoder, bounds_of, factors_of, heads_for
from arena.environments.adapters.spaces.flatten import ACTION_MASK, MEMBERS, flatten_space, lay_out
from arena.environments.adapters.spaces.observations import ObservationEncoder
from arena.environments.spec import ActionHead, Channels, EnvironmentSpec, HeadKind, MemberMask, ObservationBlock
from arena.errors import GameError


@dataclass(frozen=True)
class Agents:
    """Agents of a game, home first.

    Attributes:
        keys: The game's name of each agent.
        eyes: Observation encoder of each agent.
        hands: Action decoder of each agent.
        home: Number of home agents.
    """

    keys: tuple[Any, ...]
    encoders: tuple[ObservationEncoder, ...]
    decoders: tuple[ActionDecoder, ...]
    home: int


@dataclass(frozen=True)
class Declared:
    """A game with its environment spec.

    Attributes:
        game: The game.
        spec: Its environment spec.
        agents: Its agents.
        sequential: Whether agents act one at a time (AEC).
    """

    game: TwoSided
    spec: EnvironmentSpec
    agents: Agents
    sequential: bool


def inspect_game(name: str, game: TwoSided) -> Declared:
    """Open a game and derive its environment spec.

    Raises:
        ArenaError: The game does not have the PettingZoo interface, has no two sides, or has spaces without a fixed
            size.
    """
    with game_errors(name, "be made"):
        env = game.make()
    sequential = _is_sequential(name, env)
    if not isinstance(env.possible_agents, list | tuple):
        raise GameError(f"{name} has a {type(env.possible_agents).__name__} for possible_agents: list all its agents")
    known = {str(key): key for key in env.possible_agents}
    home, away = assign_sides(name, list(known), game)
    agent_names = [*home, *away]
    with game_errors(name, "say its spaces"):
        seen = {each: env.observation_space(known[each]) for each in agent_names}
        done = {each: env.action_space(known[each]) for each in agent_names}
    alike = _alike_sides(
        name, game, *([_spaces(each, seen, done) for each in side] for side in (home, away)), sequential=sequential
    )
    roles = _roles(agent_names, seen, done)
    channels = _channels(name, game)
    blocks, placed = lay_out({role: flatten_space(seen[each], each, channels) for each, role in roles.items()})
    heads = heads_for(
        {each: factors_of(done[each], each) for each in agent_names}, masked=_masks_actions(name, env, seen.values())
    )
    agents = Agents(
        keys=tuple(known[each] for each in agent_names),
        encoders=tuple(ObservationEncoder(placed[roles[each]], away=each in away) for each in agent_names),
        decoders=tuple(ActionDecoder(number, done[each], heads) for number, each in enumerate(agent_names)),
        home=len(home),
    )
    spec = EnvironmentSpec(
        name=name,
        agents_per_side=(len(home), len(away)),
        roles=tuple(roles[each] for each in agent_names),
        observation=_with_choices_of_sets(name, game, blocks, heads),
        heads=heads,
        max_decisions=_longest(name, game, env, len(agent_names) if sequential else 1),
        turn_based=sequential,
        reproducible=game.reproducible,
        limit_decides=False,
        reasons=REASONS,
        rules={
            "agents": agent_names,
            "scoring": dict(game.scoring.rule),
            "actions": [bounds_of(done[each]) for each in agent_names],
        },
        alike_sides=alike,
        zero_sum=game.zero_sum,
        chance=game.chance,
    )
    env.close()
    return Declared(game, spec, agents, sequential)


def _channels(name: str, game: TwoSided) -> dict[str, Channels]:
    """Return the channel axis of each block that the game declares as an image."""
    try:
        return {block: Channels(where) for block, where in game.images.items()}
    except ValueError as error:
        raise GameError(
            f"{name} was given images={dict(game.images)}: map each block to 'first' or 'last', "
            "the axis of its channels"
        ) from error


def _with_choices_of_sets(
    name: str, game: TwoSided, blocks: Sequence[ObservationBlock], heads: Sequence[ActionHead]
) -> tuple[ObservationBlock, ...]:
    """Return the blocks with the action heads that choose among the members of each set."""
    sets = {block.name.removesuffix(MEMBERS): block for block in blocks if isinstance(block, MemberMask)}
    sizes = {head.name: head.size for head in heads if head.kind is HeadKind.CATEGORICAL}
    for head, chosen in game.chosen_from.items():
        if head not in sizes or chosen not in sets or sizes[head] < sets[chosen].size:
            there = {key: each.size for key, each in sets.items()}
            raise GameError(
                f"{name} was given chosen_from={dict(game.chosen_from)}: name choices ({_listed(sizes)}), and sets "
                f"with no more members than the choice has options ({_listed(there)})"
            )
    choosing = {
        each.name: tuple(head for head, chosen in game.chosen_from.items() if chosen == key)
        for key, each in sets.items()
    }
    return tuple(
        replace(block, chosen_by=choosing[block.name]) if isinstance(block, MemberMask) else block for block in blocks
    )


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} of {size}" for name, size in sizes.items()) or "there are none"


def _is_sequential(name: str, env: Any) -> bool:  # noqa: ANN401  any game object
    """Return whether the environment is AEC rather than parallel."""
    common = ("possible_agents", "observation_space", "action_space", "reset", "step")
    if missing := [each for each in common if not hasattr(env, each)]:
        raise GameError(
            f"{name} makes a {type(env).__name__}, which is not a PettingZoo environment (it has no "
            f"{', '.join(missing)}): make an AECEnv or a ParallelEnv"
        )
    return hasattr(env, "last") and hasattr(env, "observe")


def _roles(
    agent_names: Sequence[str], seen: Mapping[str, spaces.Space[Any]], done: Mapping[str, spaces.Space[Any]]
) -> dict[str, str]:
    """Return each agent's role: its name without number, or the full name if agents of that name differ."""
    kinds = {
        prefix(each): {_spaces(other, seen, done) for other in agent_names if prefix(other) == prefix(each)}
        for each in agent_names
    }
    return {each: prefix(each) if len(kinds[prefix(each)]) == 1 else each for each in agent_names}


def _spaces(agent: str, seen: Mapping[str, spaces.Space[Any]], done: Mapping[str, spaces.Space[Any]]) -> str:
    """Return a comparable description of an agent's observation and action spaces."""
    return str((seen[agent], done[agent]))


def _alike_sides(
    name: str, game: TwoSided, home: Sequence[str], away: Sequence[str], *, sequential: bool
) -> bool | None:
    """Return whether the sides are symmetric, as declared or judged by the agents' spaces; None if turn order decides.

    Agent names do not matter: `red` and `blue` with the same spaces are symmetric.

    Raises:
        ArenaError: The sides are declared symmetric, but their spaces or sizes differ.
    """
    same = Counter(home) == Counter(away)
    if game.alike_sides and not same:
        raise GameError(
            f"{name} has alike_sides=True, but home's agents ({len(home)}) and away's ({len(away)}) differ "
            "in spaces or number: omit alike_sides"
        )
    if game.alike_sides is not None:
        return game.alike_sides
    return True if same and not sequential else None


def _masks_actions(name: str, env: Any, seen: Any) -> bool:  # noqa: ANN401
    """Return whether the game provides an action mask, in observations or infos."""
    if any(isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces for space in seen):
        return True
    with game_errors(name, "be reset"):
        opened = env.reset(seed=0)
    infos = getattr(env, "infos", None) if opened is None else unpack(name, "reset", opened, RESET)[1]
    return isinstance(infos, Mapping) and any(info and ACTION_MASK in info for info in infos.values())


def _longest(name: str, game: TwoSided, env: Any, decisions_per_cycle: int) -> int:  # noqa: ANN401
    """Return the longest match, in decisions."""
    limit = game.max_decisions
    if limit is None:
        cycles = getattr(env.unwrapped, "max_cycles", None) if hasattr(env, "unwrapped") else None
        if not isinstance(cycles, int) or cycles < 1:  # some games use 0 or -1 for no limit
            cycles = DEFAULT_DECISIONS
        return cycles * decisions_per_cycle
    if limit < 1:
        raise GameError(f"{name} was given max_decisions={limit}: a match has at least 1 decision")
    return limit
