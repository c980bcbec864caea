"""Adapters for games of other libraries: PettingZoo, OpenSpiel, JAX, vector games and user-defined games."""
