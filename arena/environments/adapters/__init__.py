"""Adapters for games of other libraries: PettingZoo, OpenSpiel, vectorised tensor games and a user's own."""
