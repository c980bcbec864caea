"""Import of users' modules, and of what they define; they may be in the working directory."""

import importlib
import sys
from pathlib import Path
from types import ModuleType


def import_user_module(name: str) -> ModuleType:
    """Import a module by its dotted name; like `python`, search the working directory too.

    Raises:
        Exception: Anything that the module raises while it loads, SystemExit included.
    """
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    return importlib.import_module(name)


def find_in_user_module(path: str) -> object:
    """Return what `MODULE:NAME` names; None if the module has no such name, or the path has another form.

    Raises:
        Exception: Anything that the module raises while it loads, SystemExit included.
    """
    module, _, name = path.partition(":")
    found: object = getattr(import_user_module(module), name, None) if module and name else None
    return found
