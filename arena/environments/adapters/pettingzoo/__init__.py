"""Adapter for PettingZoo games, one match at a time. Importing this package loads neither torch nor PettingZoo."""

from arena.environments.adapters.sides import HigherReturn, ReturnMargin, Scoring, TwoSided

__all__ = ["HigherReturn", "ReturnMargin", "Scoring", "TwoSided"]
