"""Shapes in annotations, checked while tests run.

Every function of the named packages that says a shape is checked: at its first calls in a test, and at some of those
that follow, for a long test would else spend most of its time on looking at the same shapes again. What has no shape
is left to mypy. A function is made ready at its first call: most are never called by the process that imports them.
"""

import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import isclass
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from jaxtyping import AbstractArray, install_import_hook

FIRST_CALLS, LATER_CALLS = 32, 16
"""All of so many calls in a test are checked, then one of so many."""

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""Checks types; an int may stand where a float is asked for, as PEP 484 says."""

_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_WARP_MODULES = tuple(
    module.removesuffix(".*")
    for override in tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["tool"]["mypy"]["overrides"]
    if override.get("ignore_errors")
    for module in override["module"]
)
"""Warp compiles the source of their functions, so that nothing may wrap them; Warp checks their types itself."""

_check_each_call = jaxtyping.jaxtyped
_calls: Counter[Callable[..., Any]] = Counter()


def install(packages: Sequence[str]) -> None:
    """Have what is imported from now on checked."""
    jaxtyping.jaxtyped = checked  # where what the hook writes into modules looks for it
    install_import_hook(packages, "shape_check.check")


def begin() -> None:
    """Count calls anew, for another test."""
    _calls.clear()


def checked(function: Any = None, *, typechecker: Any) -> Any:
    """Check a function, or what a dataclass is made of."""
    if function is None:
        return partial(checked, typechecker=typechecker)
    if isclass(function):
        if {"__init__", "__dataclass_fields__"} <= vars(function).keys():
            function.__init__ = checked(function.__init__, typechecker=typechecker)
        return function
    if not isinstance(function, FunctionType) or function.__module__.startswith(_WARP_MODULES):
        return function
    ready: list[Callable[..., Any]] = []

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not ready:
            ready.append(_check_each_call(function, typechecker=typechecker) if _has_shapes(function) else function)
        _calls[function] += 1
        if (calls := _calls[function]) > FIRST_CALLS and calls % LATER_CALLS:
            return function(*arguments, **named)
        return ready[0](*arguments, **named)

    return call


def _has_shapes(function: Callable[..., Any]) -> bool:
    try:
        annotations = get_type_hints(function)
    except (NameError, AttributeError):  # what one names is there for mypy alone
        annotations = function.__annotations__
    return any(map(_is_shape, annotations.values()))


def _is_shape(annotation: Any) -> bool:
    return (isclass(annotation) and issubclass(annotation, AbstractArray)) or any(map(_is_shape, get_args(annotation)))
