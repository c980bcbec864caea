"""Runs as text: flat settings, the git revision, and JSON values."""

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from league import wire

NONE = "\N{EN DASH}"
"""Text of a missing value."""

_REVISION_LENGTH = 10


def flatten(values: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield the values of nested objects with their path, for example `ppo.learning_rate`."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def json_text(value: JsonValue) -> str:
    """Return a JSON value as text: lists of words as a command, other objects as JSON."""
    if value is None:
        return NONE
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return " ".join(str(each) for each in value)
    return value if isinstance(value, str) else json.dumps(value)


def revision(run: wire.Run) -> str:
    """Return the first digits of a run's git revision, with a plus sign if files differed from it."""
    git = run.origin.get("git")
    if not isinstance(git, dict) or not isinstance(git.get("revision"), str):
        return NONE
    return f"{str(git['revision'])[:_REVISION_LENGTH]}{'+' if git.get('changed') else ''}"


def host(run: wire.Run) -> str:
    """Return the name of the machine that a run was started on."""
    machine = run.origin.get("machine")
    return json_text(machine.get("host")) if isinstance(machine, dict) else NONE
