"""A player that always plays the same option of a categorical head."""

import torch

from arena.environments.base import Actions, Observation
from arena.policies import State


class Always:
    """Plays one option of rps for ever."""

    def __init__(self, option: int) -> None:
        self.option = option

    def initial_state(self, rows: int) -> State:
        return ()

    def act(
        self, observation: Observation, state: State, episode_start: torch.Tensor, rng: torch.Generator
    ) -> tuple[Actions, State]:
        return {"choice": torch.full((len(observation.values),), self.option)}, state
