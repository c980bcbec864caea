"""Games that step all their matches at once, with the interface of Gymnasium's vector environments and two sides."""

from arena.environments.adapters.sides import HigherReturn, ReturnMargin, Scoring
from arena.environments.adapters.vector.game import Autoreset, TensorGame

__all__ = ["Autoreset", "HigherReturn", "ReturnMargin", "Scoring", "TensorGame"]
