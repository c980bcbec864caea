"""Games of the reader's own: `mypackage.mygame:make`, and plug-ins. Importing this package loads no torch."""
