"""Lookup of `MODULE:ATTRIBUTE` and of plug-in names."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from arena.errors import GameError, MissingPackageError, UnknownEnvironmentError
from arena.extras import named_extra
from arena.user_code import import_user_module

GROUP = "echelon_league.environments"
"""Entry point group of games: a name without a colon, and `module:attribute`."""


@lru_cache(maxsize=1)
def plugins() -> dict[str, EntryPoint]:
    """Return all registered games by name."""
    return {point.name: point for point in entry_points(group=GROUP) if ":" not in point.name}


def find(name: str) -> Any:  # noqa: ANN401  any object
    """Return the object of a name; modules are also searched in the working directory, as `python` does.

    Raises:
        UnknownEnvironmentError: There is no such module or attribute.
        ArenaError: The module does not load.
    """
    point = plugins().get(name)
    path, _, attribute = (point.value if point else name).partition(":")
    module = _import(name, path)
    if not hasattr(module, attribute):
        raise UnknownEnvironmentError(f"unknown environment {name!r}: module {path} has no {attribute!r}")
    return getattr(module, attribute)


def batch_factory(found: Any) -> Callable[..., Any] | None:  # noqa: ANN401
    """Return a factory with the built-in environments' parameters `name` and `num_envs`; None for other objects."""
    return found if callable(found) and {"name", "num_envs"} <= inspect.signature(found).parameters.keys() else None


def _import(name: str, path: str) -> ModuleType:
    try:
        return import_user_module(path)
    except SystemExit as error:
        raise GameError(
            f"{name} does not load: module {path} ends the program as it is imported (exit code {error.code}): put "
            "its program code under `if __name__ == '__main__':`"
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{path}.".startswith(f"{error.name}."):
            unknown = MissingPackageError(f"{name} does not load ({error}): install its dependencies")
            raise (named_extra(error, name) or unknown) from error
        raise UnknownEnvironmentError(
            f"unknown environment {name!r}: there is no module {path!r} here; write MODULE:CALLABLE of an "
            "importable game, or a name that `arena environments` lists"
        ) from error
