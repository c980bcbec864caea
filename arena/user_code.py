"""Import of users' modules, which may lie in the working directory."""

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
