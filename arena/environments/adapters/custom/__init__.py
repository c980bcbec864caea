"""Games of the reader's own: `mypackage.mygame:make`, and plug-ins. Importing this package loads no torch."""

from arena.environments.adapters.custom.baselines import Scripted

__all__ = ["Scripted"]
