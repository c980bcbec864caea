"""Import of user modules and their attributes; modules may be in the working directory."""

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
    """Return the object `MODULE:NAME`; None if the path has no module, or the module no such name.

    Raises:
        Exception: Anything that the module raises while it loads, SystemExit included.
    """
    module, _, name = path.partition(":")
    found: object = getattr(import_user_module(module), name, None) if module else None
    return found
