"""What agents that are out of a game are still owed by it.

A side's victory is also that of its dead. So an environment may go on paying who is out of the game, and the turn in
which an agent fell has to hear of it, discounted as for everybody else, also where the match ends in a later rollout.
For that the decisions that it no longer makes need a value. Its own critic sees nothing any more. Its living mates'
critics see the match, but value what they will earn themselves as well. What the dead are owed is therefore taken to be
a straight line over the mean value of their living mates, fitted to the returns that the dead did get. Where they earn
nothing, the line is 0 everywhere, exactly, and a death is what it would be without: the end.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from trainer.process_group import SINGLE_PROCESS, ProcessGroup

KEPT = 0.95
"""What a rollout's weight falls to with every later one: the critic and the play that it is of are changing."""
RIDGE = 1.0
"""Pulls the line towards 0 like one sample would: before anything was seen it is 0."""


class DeadAgentValue:
    """Values who is out of the game by what the living of its side expect.

    Rows come side by side: `agents` rows, one after the other, are one side of one match.

    Args:
        agents: Rows of a side.
        device: Where the statistics live.
        ranks: Whose matches the line is fitted to.
    """

    def __init__(self, agents: int, device: torch.device, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        self._agents, self._ranks = agents, ranks
        self._played = torch.zeros((), dtype=torch.bool, device=device)
        self.squares = torch.zeros(2, 2, dtype=torch.float64, device=device)
        self.products = torch.zeros(2, dtype=torch.float64, device=device)

    def fill(self, value: Float[Tensor, "*T R"], active: Bool[Tensor, "*T R"]) -> Float[Tensor, "*T R"]:
        """Values with those of the inactive replaced by what they are owed; nothing where no mate is left.

        Args:
            value: V of the living, in units of scaled rewards.
            active: Who lives.
        """
        mates, supported = self._mates(value, active)
        offset, slope = self._line.to(value.dtype)
        return torch.where(active, value, (offset + slope * mates).where(supported, 0.0))

    def update(
        self,
        value: Float[Tensor, "T R"],
        returns: Float[Tensor, "T R"],
        active: Bool[Tensor, "T R"],
        episode_start: Bool[Tensor, "T R"],
    ) -> None:
        """Fit the line to a rollout and, ever less, to those before it.

        Args:
            value: V of the living, in units of scaled rewards.
            returns: What was to come at each decision by the estimate of advantages, in the same units.
            active: Who lives.
            episode_start: Where matches begin. Who never acts in one, such as a spare row, is not owed anything.
        """
        mates, supported = self._mates(value, active)
        chosen = self._fallen(active, episode_start) & supported
        mean = mates[chosen].double()
        design = torch.stack([torch.ones_like(mean), mean])
        seen = torch.cat([design @ design.T, (design @ returns[chosen].double()).unsqueeze(1)], dim=1)
        squares, products = torch.split(self._ranks.all_reduce_sum(seen), [2, 1], dim=1)
        self.squares = KEPT * self.squares + squares
        self.products = KEPT * self.products + products.squeeze(1)

    def rescale(self, factor: float) -> None:
        """Take values and returns seen so far over into other units: each is `factor` times what it was."""
        units = self.products.new_tensor([1.0, factor])
        self.squares = self.squares * torch.outer(units, units)
        self.products = self.products * units * factor

    def tensors(self) -> dict[str, Tensor]:
        """Everything needed to continue with new matches."""
        return {"squares": self.squares, "products": self.products}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from what `tensors` gave."""
        self.squares = tensors["squares"].to(self.squares.device)
        self.products = tensors["products"].to(self.products.device)

    @property
    def _line(self) -> Float[Tensor, "2"]:
        ridge = RIDGE * torch.eye(2, dtype=torch.float64, device=self.squares.device)
        line: Tensor = torch.linalg.solve(self.squares + ridge, self.products)
        return line

    def _mates(self, value: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        """Mean value of the living of each row's side, and whether there are any."""
        sides = (*active.shape[:-1], -1, self._agents)
        living = active.view(sides)
        count = living.sum(dim=-1, keepdim=True)
        total = (value.view(sides) * living).sum(dim=-1, keepdim=True)
        mean = (total / count.clamp(min=1)).expand(living.shape)
        return mean.reshape(active.shape), (count > 0).expand(living.shape).reshape(active.shape)

    def _fallen(self, active: Bool[Tensor, "T R"], episode_start: Bool[Tensor, "T R"]) -> Bool[Tensor, "T R"]:
        """Who is out of a match in which it has acted, in this rollout or before."""
        times = torch.arange(1, len(active) + 1, device=active.device).unsqueeze(1)
        acted, opened = ((times * flags).cummax(dim=0).values for flags in (active, episode_start))
        played = torch.where(opened > 0, acted >= opened, self._played | (acted > 0))
        self._played = played[-1]
        return played & ~active
