"""Checks of the spec: it is consistent, the same in every process, and can be played in another one."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

from arena.conformance.check import NotApplicableError, ViolationError, check
from arena.conformance.transitions import play
from arena.conformance.trial import Trial
from arena.environments.adapters.subprocess.factory import plays_single_matches
from arena.environments.spec import EnvironmentSpec, HeadKind, MemberMask, ObservationBlock
from arena.errors import ArenaError

FRESH_LIMIT_S = 600.0
"""Time limit of a process that declares the environment; a busy machine loads large libraries slowly."""

HASH_SEEDS = ("1", "2")
"""PYTHONHASHSEED of the processes that declare the environment, so that the order of sets differs between them."""

DECLARE = (
    "import os, sys; from arena.environments import declare; "
    "print(file=sys.stdout); print('signature', declare(sys.argv[1]).signature, flush=True); os._exit(0)"
)
"""Program of such a process. It exits at once, without waiting for threads of the game."""


@check("specification", stops=True)
def specification(*specs: EnvironmentSpec) -> str:
    """The spec of an environment is complete, consistent, and the same each time it is created.

    Remedy: correct the spec: arena/environments/spec.py describes each field.
    """
    spec = specs[0]
    if faults := faults_of(spec):
        more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise ViolationError(f"{faults[0]}{more}")
    for one, other in pairwise(specs):
        if one != other:
            fields = ", ".join(name for name in vars(one) if vars(one)[name] != vars(other).get(name)) or "its type"
            raise ViolationError(f"its spec differs when it is created again: {fields}")
    home, away = spec.agents_per_side
    heads = ", ".join(f"{head.name} {head.kind} {head.size}" for head in spec.heads)
    roles = spec.unlike_sides
    sides = "sides alike" if roles is None else f"sides rated separately ({' and '.join(roles)})"
    return f"{home} v {away} agents, {sides}, observation of {spec.observation_size:,} floats, {heads}"


@check("signature", stops=True)
def signature(trial: Trial) -> str:
    """Two processes that create the environment get the same spec, because only its signature decides which players can
    meet.

    Remedy: declare nothing that depends on the process, such as the order of a set, a path, the time or a counter.
    """
    with trial.progress("new processes", 1) as advance, ThreadPoolExecutor() as pool:
        for other in pool.map(partial(_declare_in_new_process, trial.spec.name), HASH_SEEDS):
            if other != trial.spec.signature:
                raise ViolationError(f"it is {trial.spec.signature} here and {other} in a new process")
        advance(1)
    return f"{trial.spec.signature}, in {len(HASH_SEEDS)} new processes too"


@check("responds", stops=True)
def responds(trial: Trial) -> str:
    """Another process can open matches and play decisions, each within the time limit.

    Remedy: fix the error in the traceback, and make everything that the game needs available where it is created.

    It is played in another process first, because a crash or a hang there does not harm this one.
    """
    if not plays_single_matches(trial.env):
        raise NotApplicableError("it steps a whole batch itself, in this process")
    rows = 2
    with trial.progress("another process", trial.most_decisions) as advance:
        try:
            hosted = trial.open(rows=rows, processes=1)
            for _ in play(hosted, hosted.reset(), trial.rng(), trial.most_decisions):
                advance(1)
        except ArenaError as error:
            line, *traceback_lines = str(error).splitlines()
            locations = [each.strip() for each in traceback_lines if each.startswith("  File ")]
            raise ViolationError(f"{line} ({locations[-1]})" if locations else line) from error
    return f"{trial.most_decisions:,} decisions of {rows} matches in another process"


CHECKS = (specification, signature, responds)


def faults_of(spec: EnvironmentSpec) -> list[str]:
    """Return the contradictions and gaps in a spec, one text each; empty for a valid spec."""
    return [*_faults_of_agents(spec), *_faults_of_blocks(spec), *_faults_of_heads(spec), *_faults_of_ends(spec)]


def _declare_in_new_process(name: str, hash_seed: str) -> str:
    """Return the signature of an environment in a new process."""
    path = os.pathsep.join(filter(None, sys.path))
    try:
        process = subprocess.run(  # noqa: S603  this interpreter, and a line of this module
            [sys.executable, "-c", DECLARE, name],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
            timeout=FRESH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ViolationError(f"a new process did not declare it within {FRESH_LIMIT_S:g} s") from None
    if process.returncode != 0:
        cause = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise ViolationError(f"a new process cannot declare it: {cause}")
    return process.stdout.split()[-1]


def _faults_of_agents(spec: EnvironmentSpec) -> Iterator[str]:
    if not isinstance(spec.name, str) or not spec.name:
        yield f"its name is {spec.name!r}: it must be a non-empty text"
    if len(spec.agents_per_side) != spec.sides or not all(_counts(agents) for agents in spec.agents_per_side):
        yield f"agents_per_side is {spec.agents_per_side!r}: it must be two integers of at least 1"
    elif len(spec.roles) != spec.num_agents:
        yield f"it has {spec.num_agents} agents and {len(spec.roles)} roles: each agent needs one"
    for role in spec.roles:
        if not isinstance(role, str) or not role:
            yield f"a role is {role!r}: it must be a non-empty text"


def _faults_of_blocks(spec: EnvironmentSpec) -> Iterator[str]:
    if not spec.observation:
        yield "its observation has no block: it needs at least one"
    yield from _twice("block", [block.name for block in spec.observation])
    for block in spec.observation:
        if not block.shape or not all(_counts(size) for size in block.shape):
            yield f"block {block.name!r} has shape {block.shape!r}: axes must be at least 1"
        if math.isnan(block.low) or math.isnan(block.high) or block.low > block.high:
            yield f"block {block.name!r} is in [{block.low}, {block.high}]: low must not be above high"
        if isinstance(block, MemberMask):
            yield from _faults_of_members(spec, block)


def _faults_of_members(spec: EnvironmentSpec, mask: MemberMask) -> Iterator[str]:
    blocks: dict[str, ObservationBlock] = {block.name: block for block in spec.observation}
    heads = {head.name: head for head in spec.heads}
    for name in mask.describes:
        if name not in blocks or blocks[name].shape[:1] != mask.shape[:1]:
            yield f"set {mask.name!r} describes {name!r}: a block with as many rows ({mask.size}) is needed"
    for name in mask.chosen_by:
        if name not in heads or heads[name].kind is not HeadKind.CATEGORICAL or heads[name].size < mask.size:
            yield f"set {mask.name!r} is chosen from by {name!r}: a categorical head of {mask.size} options is needed"


def _faults_of_heads(spec: EnvironmentSpec) -> Iterator[str]:
    if not spec.heads:
        yield "it has no action head: it needs at least one"
    yield from _twice("head", [head.name for head in spec.heads])
    for head in spec.heads:
        if head.kind not in set(HeadKind):
            yield f"head {head.name!r} is of kind {head.kind!r}: it must be gaussian, bernoulli or categorical"
        if not _counts(head.size):
            yield f"head {head.name!r} has size {head.size!r}: at least 1 is needed"


def _faults_of_ends(spec: EnvironmentSpec) -> Iterator[str]:
    if not _counts(spec.max_decisions):
        yield f"max_decisions is {spec.max_decisions!r}: it must be an integer of at least 1"
    if not spec.reasons:
        yield "it has no reasons: a match needs at least one to end"
    yield from _twice("reason", spec.reasons)
    try:
        json.dumps(dict(spec.rules), allow_nan=False)
    except (TypeError, ValueError) as error:
        yield f"its rules cannot be written as JSON ({error}): use text, numbers, lists and mappings"


def _twice(what: str, names: Sequence[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{what} {name!r} is declared {names.count(name)} times: names must differ"


def _counts(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 1
