"""User-defined games: `mypackage.mygame:make`, and plug-ins. Importing this package does not load torch."""

from arena.environments.adapters.custom.baselines import Scripted

__all__ = ["Scripted"]
