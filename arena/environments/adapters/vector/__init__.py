"""Adapter for vector games: Gymnasium's vector environment interface, with two sides."""

from arena.environments.adapters.sides import HigherReturn, ReturnMargin, Scoring
from arena.environments.adapters.vector.game import Opening, TensorGame

__all__ = ["HigherReturn", "Opening", "ReturnMargin", "Scoring", "TensorGame"]
