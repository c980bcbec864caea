"""Registry of environments by name. Torch-free: an environment's module is imported only when one is made."""

import importlib
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from arena.environments.adapters.custom.baselines import Scripted, scripted_players
from arena.environments.adapters.custom.lookup import plugins
from arena.environments.spec import RoundsSpec
from arena.errors import ArenaError, InputError, UnknownEnvironmentError, UnknownPolicyError
from arena.extras import named_extra

if TYPE_CHECKING:
    from arena.environments.base import Environment
    from arena.environments.spec import EnvironmentSpec
    from arena.policies.protocol import Policy


@dataclass(frozen=True)
class Baseline:
    """A scripted baseline with a fixed rating, which anchors the environment's rating scale."""

    name: str
    rating: float


@dataclass(frozen=True)
class Entry:
    """Import paths of an environment's factory, spec and scripted players, each as `module:callable`.

    Attributes:
        hosted: Whether its games play one match at a time, so that worker processes can step them; `factory` then takes
            their number and time limit.
    """

    factory: str
    spec: str
    policies: str
    baselines: tuple[Baseline, ...]
    hosted: bool


# Over 2,000 side-swapped matches (seed 1) lieutenant scores against mech-duel mech-pack mech-company lieutenant-half
# 0.9940 0.9565 0.9550 random 0.9938 1.0000 1.0000 turret 1.0000 1.0000 1.0000 and lieutenant-half scores 0.99 or more
# against random and turret. By 1500 - 400 log10(s / (1 - s)) lieutenant-half would be rated 612, 963 and 969, random at
# 619 in duels, and the others far below. They are anchored at 1000 and 800 instead, where the scale still separates
# weak players.
_MECH_BASELINES = (
    Baseline("random", 800.0),
    Baseline("lieutenant", 1500.0),
    Baseline("lieutenant-half", 1000.0),
    Baseline("turret", 800.0),
)

# In mech-duel-2 the build counts as much as the rate of fire: over 1,000 side-swapped matches lieutenant scores 0.7535
# against lieutenant-half, 0.998 against random and 1.000 against turret.
_LONG_DUEL_BASELINES = (
    Baseline("random", 800.0),
    Baseline("lieutenant", 1500.0),
    Baseline("lieutenant-half", 1300.0),
    Baseline("turret", 800.0),
)

ANY_ENVIRONMENT = (Baseline("random", 1500.0),)
"""Baselines of an environment whose rules are not installed; random play needs no rules."""


def _entry_with_random(factory: str, spec: str, *, hosted: bool) -> Entry:
    """Return the entry of a game whose only baseline is random play."""
    return Entry(factory, spec, "arena.policies.scripted:make_baseline", ANY_ENVIRONMENT, hosted=hosted)


ENVIRONMENTS: dict[str, Entry] = {
    "rps": _entry_with_random(
        "arena.environments.classic.matrix_game:make_rps",
        "arena.environments.classic.matrix_game:declare_rps",
        hosted=False,
    ),
    "recall": _entry_with_random(
        "arena.environments.classic.memory_probe:make_recall",
        "arena.environments.classic.memory_probe:declare_recall",
        hosted=False,
    ),
    **{
        name: Entry(
            "arena.environments.mech.env:make_mech",
            "arena.environments.mech.observation_spec:declare_preset",
            "arena.policies.mech.lieutenant:make_baseline",
            _LONG_DUEL_BASELINES if name == "mech-duel-2" else _MECH_BASELINES,
            hosted=False,
        )
        for name in ("mech-duel", "mech-duel-2", "mech-pack", "mech-company")
    },
}
"""Built-in environments."""


@dataclass(frozen=True)
class Family:
    """Environments of another package: all names `FAMILY:GAME`.

    Attributes:
        entry: Import paths of its games.
        packages: Packages that must be installed.
        listed: Games listed by `names` if they are.
    """

    entry: Entry
    packages: tuple[str, ...]
    listed: tuple[str, ...]


_PETTINGZOO = _entry_with_random(
    "arena.environments.adapters.pettingzoo.game:make_pettingzoo",
    "arena.environments.adapters.pettingzoo.game:declare_pettingzoo",
    hosted=True,
)

_JAX = _entry_with_random(
    "arena.environments.adapters.jax.factory:make_jax",
    "arena.environments.adapters.jax.factory:declare_jax",
    hosted=False,
)

FAMILIES: dict[str, Family] = {
    "openspiel": Family(
        _entry_with_random(
            "arena.environments.adapters.openspiel.factory:make_openspiel",
            "arena.environments.adapters.openspiel.declare:declare_openspiel",
            hosted=True,
        ),
        ("pyspiel",),
        ("openspiel:kuhn_poker", "openspiel:leduc_poker"),
    ),
    "pettingzoo": Family(
        _PETTINGZOO, ("pettingzoo", "pygame"), ("pettingzoo:connect_four_v3", "pettingzoo:tictactoe_v3")
    ),
    "mpe2": Family(_PETTINGZOO, ("mpe2",), ("mpe2:simple_tag_v3",)),
    "magent2": Family(_PETTINGZOO, ("magent2",), ()),
    "pgx": Family(_JAX, ("jax", "pgx"), ()),  # none is listed, because a list with one would import JAX
    "gymnax": Family(_JAX, ("jax", "gymnax"), ()),
    "jaxmarl": Family(_JAX, ("jax", "jaxmarl"), ()),
}
"""Families of environments, by the prefix before the colon."""

OWN = _entry_with_random(
    "arena.environments.adapters.custom.factory:make_own",
    "arena.environments.adapters.custom.game:spec_of_custom",
    hosted=True,
)
"""User-defined games: `MODULE:CALLABLE`, and plug-ins."""

ROUNDS = ":rounds="
"""Separator between a game's name and the number of rounds per match: `openspiel:kuhn_poker:rounds=20`."""

STEP_LIMIT_S = 120.0
"""Default time limit of a worker process for one decision of its matches."""

MAX_ROUNDS = 1000
"""Most rounds of a match."""


def names() -> tuple[str, ...]:
    """Return registered environments and plug-ins in alphabetical order, with a few of each installed family."""
    installed = [family for family in FAMILIES.values() if all(map(importlib.util.find_spec, family.packages))]
    return tuple(sorted({*ENVIRONMENTS, *plugins(), *(name for family in installed for name in family.listed)}))


def declare_all(leave_out: Callable[[str], None]) -> "Iterator[EnvironmentSpec]":
    """Yield the specs of all `names()`; `leave_out` receives the reason for each that does not load.

    A broken plug-in does not affect the others.
    """
    for name in names():
        try:
            yield declare(name)
        except ArenaError as error:
            leave_out(f"{name} is left out: {error}")


def baselines(environment: str) -> tuple[Baseline, ...]:
    """Return the baselines that are known without loading the environment, with their fixed ratings."""
    entry = _find(environment.partition(ROUNDS)[0])
    return ANY_ENVIRONMENT if entry is None else entry.baselines


def plugin_baselines(environment: str) -> tuple[Baseline, ...]:
    """Return the additional baselines of a user-defined game; this imports the game's module.

    Raises:
        UnknownEnvironmentError: There is no such game.
        ArenaError: Its baselines are invalid.
    """
    return tuple(Baseline(each.name, each.rating) for each in _scripted(environment))


def is_known(environment: str) -> bool:
    """Return whether the baselines are known without the game: it is built in or belongs to a family."""
    return _find(environment.partition(ROUNDS)[0]) not in (None, OWN)


def split_rounds(name: str) -> tuple[str, int | None]:
    """Return the game's name and the number of rounds; None if a match is one episode.

    Raises:
        UnknownEnvironmentError: The number of rounds is invalid.
    """
    game, separator, count = name.partition(ROUNDS)
    if not separator:
        return name, None
    written = count.isascii() and count.isdecimal() and not count.startswith("0") and len(count) <= len(str(MAX_ROUNDS))
    if not written or int(count) > MAX_ROUNDS:
        raise UnknownEnvironmentError(
            f"{name!r} asks for {count!r} rounds: write a whole number from 1 to {MAX_ROUNDS:,}, such as "
            f"{game}{ROUNDS}20"
        )
    return game, int(count)


def make(
    name: str,
    *,
    num_envs: int,
    device: str = "cpu",
    seed: int = 0,
    processes: int = 0,
    step_limit_s: float = STEP_LIMIT_S,
) -> "Environment":
    """Make a batch of `num_envs` matches of an environment.

    Args:
        name: Registry name.
        num_envs: E.
        device: Device of its tensors.
        seed: Seed from which the seeds of its matches are derived.
        processes: Worker processes for games that play one match at a time; 0 steps in this process.
        step_limit_s: Time limit of a worker for one decision of its matches; a worker that exceeds it is replaced.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        ArenaError: It is not available here, or not with these options.
    """
    game, rounds = split_rounds(name)
    entry = _entry(game)
    if processes and not entry.hosted:
        raise InputError(f"{game} steps a whole batch itself, so it cannot use {processes} processes: omit them")
    factory = cast("Callable[..., Environment]", _resolve(entry.factory, game))
    options = {"processes": processes, "step_limit_s": step_limit_s} if entry.hosted else {}
    env = factory(game, num_envs=num_envs, device=device, seed=seed, **options)
    if rounds is None:
        return env
    wrap = cast("Callable[..., Environment]", _resolve("arena.environments.wrappers.rounds:Rounds", game))
    return wrap(env, RoundsSpec.of(name, env.spec, rounds), seed=seed)


def declare(name: str) -> "EnvironmentSpec":
    """Return the spec of an environment without making one.

    Raises:
        UnknownEnvironmentError: No environment has that name.
    """
    game, rounds = split_rounds(name)
    spec = cast("Callable[[str], EnvironmentSpec]", _resolve(_entry(game).spec, game))(game)
    return spec if rounds is None else RoundsSpec.of(name, spec, rounds)


def make_baseline(environment: str, baseline: str) -> "Policy":
    """Make the scripted player `baseline` of `environment`.

    Raises:
        UnknownEnvironmentError: No environment has that name.
        UnknownPolicyError: The environment has no such baseline.
    """
    game, _ = split_rounds(environment)
    entry = _entry(game)
    brought = {each.name: each for each in _scripted(environment)}
    known = [*(each.name for each in entry.baselines), *brought]
    if baseline in brought:
        return brought[baseline].make(declare(game))
    if baseline not in known:
        raise UnknownPolicyError(f"unknown baseline {baseline!r} of {environment}: choose one of {', '.join(known)}")
    factory = cast("Callable[[str, str], Policy]", _resolve(entry.policies, game))
    return factory(game, baseline)


def _scripted(environment: str) -> tuple[Scripted, ...]:
    """Return the scripted baselines of a user-defined game; empty for other games."""
    game, _ = split_rounds(environment)
    return scripted_players(game) if _find(game) is OWN else ()


def _find(name: str) -> Entry | None:
    prefix, colon, _ = name.partition(":")
    if colon:
        return FAMILIES[prefix].entry if prefix in FAMILIES else OWN
    return ENVIRONMENTS.get(name) or (OWN if name in plugins() else None)


def _entry(name: str) -> Entry:
    entry = _find(name)
    if entry is None:
        raise UnknownEnvironmentError(
            f"unknown environment {name!r}: choose one of {', '.join(names())}, or a game of your own, MODULE:CALLABLE"
        )
    return entry


def _resolve(path: str, game: str) -> Any:  # noqa: ANN401  any factory
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = named_extra(error, game)
        if missing is None:
            raise
        raise missing from error
