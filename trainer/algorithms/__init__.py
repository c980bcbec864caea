"""Learning algorithms: the `Algorithm` protocol, which `algorithm.name` chooses by, and V-trace.

PPO, the default, is in `trainer.ppo`.
"""

from trainer.algorithms.protocol import Algorithm, make_algorithm

__all__ = ["Algorithm", "make_algorithm"]
