"""Games of the PettingZoo interface, a match each. Importing this package loads neither torch nor PettingZoo."""

from arena.environments.adapters.sides import HigherReturn, ReturnMargin, Scoring, TwoSided

__all__ = ["HigherReturn", "ReturnMargin", "Scoring", "TwoSided"]
