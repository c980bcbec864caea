"""A game that prints whatever it does."""

import numpy as np
from misfit_games import Fitting


def lazy(batch):
    return {"action": np.zeros(len(batch.observation), np.int64)}


class Loud(Fitting):
    def __init__(self):
        print("making")  # noqa: T201

    def reset(self, seed=None, options=None):
        print("opening")  # noqa: T201
        return super().reset()

    def step(self, actions):
        print("playing")  # noqa: T201
        return super().step(actions)
