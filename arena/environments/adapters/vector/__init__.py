"""Adapter for vector games: Gymnasium's vector environment interface, with two sides."""

from arena.environments.adapters.sides import HigherReturn, ReturnMargin, Scoring
from arena.environments.adapters.vector.game import Autoreset, TensorGame

__all__ = ["Autoreset", "HigherReturn", "ReturnMargin", "Scoring", "TensorGame"]
