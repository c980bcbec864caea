"""Expected return of agents that are out of the game: ridge regression on the values of their teammates.

A team's win also pays its dead agents. An environment may therefore go on rewarding an agent after its death, and the
decision that led to the death must get these rewards, discounted as usual, even if the match ends in a later rollout.
This needs a value for the steps after the death. The dead agent's own critic no longer observes the match, and the
critics of its living teammates include rewards that only they will get. So the expected return is a linear function of
the mean value of the living teammates, fitted to the returns that dead agents did get. If dead agents earn nothing, the
function is exactly 0, and a death is a plain termination.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from trainer.process_group import SINGLE_PROCESS, ProcessGroup

DECAY = 0.95
"""Factor on the weight of earlier rollouts at each update: critic and policy change."""
RIDGE = 1.0
"""Ridge penalty, with the weight of one sample; the fit is 0 before the first sample."""


class DeadAgentValue:
    """Expected return of dead agents, by ridge regression on the mean value of their living teammates.

        V(dead) = offset + slope mean(V of living teammates)

    Rows of a rollout are grouped: each `agents` consecutive rows are one side of one match. Values and returns are in
    units of scaled rewards.

    Args:
        agents: Rows of a side.
        device: Device of the statistics.
        ranks: The process group; the fit is over the matches of all ranks.

    Attributes:
        gram: X^T X of the regression, with rows (1, mean value) in X.
        cross: X^T y, with returns in y.
    """

    def __init__(self, agents: int, device: torch.device, ranks: ProcessGroup = SINGLE_PROCESS) -> None:
        self._agents, self._ranks = agents, ranks
        self._has_acted = torch.zeros((), dtype=torch.bool, device=device)
        self.gram = torch.zeros(2, 2, dtype=torch.float64, device=device)
        self.cross = torch.zeros(2, dtype=torch.float64, device=device)

    def fill(self, value: Float[Tensor, "*T R"], active: Bool[Tensor, "*T R"]) -> Float[Tensor, "*T R"]:
        """Replace the values of inactive agents by their expected returns, or by 0 if no teammate is alive.

        Args:
            value: V of living agents; other entries are ignored.
            active: Whether the agent is alive.
        """
        mean, has_living = self._teammate_value(value, active)
        offset, slope = self._coefficients.to(value.dtype)
        return torch.where(active, value, (offset + slope * mean).where(has_living, 0.0))

    def update(
        self,
        value: Float[Tensor, "T R"],
        returns: Float[Tensor, "T R"],
        active: Bool[Tensor, "T R"],
        episode_start: Bool[Tensor, "T R"],
    ) -> None:
        """Fit the regression to a rollout and, with decaying weight, to earlier ones.

        Args:
            value: V of living agents.
            returns: Estimated return of each step.
            active: Whether the agent is alive.
            episode_start: Whether an episode starts. A row that never acts in a match, such as a spare row, is ignored.
        """
        mean, has_living = self._teammate_value(value, active)
        samples = (self._dead(active, episode_start) & has_living).double()
        design = torch.stack([samples, samples * mean]).flatten(1)  # rows of 0 add nothing
        # In double precision, because the normal equations square the condition number.
        sums = torch.cat([design @ design.T, (design @ returns.double().flatten()).unsqueeze(1)], dim=1)
        gram, cross = torch.split(self._ranks.all_reduce_sum(sums), [2, 1], dim=1)
        self.gram = DECAY * self.gram + gram
        self.cross = DECAY * self.cross + cross.squeeze(1)

    def rescale(self, factor: Float[Tensor, ""]) -> None:
        """Convert the statistics to units in which values and returns are `factor` times as large."""
        units = torch.stack([torch.ones_like(factor), factor])
        self.gram = self.gram * torch.outer(units, units)
        self.cross = self.cross * units * factor

    def tensors(self) -> dict[str, Tensor]:
        """Return the statistics by name, for a saved state."""
        # Saved states depend on these older names.
        return {"owed.squares": self.gram, "owed.products": self.cross}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue from the result of `tensors`."""
        self.gram = tensors["owed.squares"].to(self.gram.device)
        self.cross = tensors["owed.products"].to(self.cross.device)

    @property
    def _coefficients(self) -> Float[Tensor, "2"]:
        # Keeps the system solvable before any agent has died.
        ridge = RIDGE * torch.eye(2, dtype=torch.float64, device=self.gram.device)
        # The ridge keeps the matrix regular. `solve` would wait for the device to check that.
        coefficients: Tensor = torch.linalg.solve_ex(self.gram + ridge, self.cross).result
        return coefficients

    def _teammate_value(self, value: Tensor, active: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean value of the living agents of each row's side, and whether there are any."""
        sides = (*active.shape[:-1], -1, self._agents)
        living = active.view(sides)
        count = living.sum(dim=-1, keepdim=True)
        total = (value.view(sides) * living).sum(dim=-1, keepdim=True)
        # 0 without living agents: `update` multiplies by a mask, which would keep the NaN of 0 / 0.
        mean = (total / count.clamp(min=1)).expand(living.shape)
        return mean.reshape(active.shape), (count > 0).expand(living.shape).reshape(active.shape)

    def _dead(self, active: Bool[Tensor, "T R"], episode_start: Bool[Tensor, "T R"]) -> Bool[Tensor, "T R"]:
        """Find agents that are out of a match in which they have acted, in this rollout or an earlier one."""
        times = torch.arange(1, len(active) + 1, device=active.device).unsqueeze(1)
        # Running maxima find the last action and the last start before each step without a loop over time.
        last_action, last_start = ((times * flags).cummax(dim=0).values for flags in (active, episode_start))
        has_acted = torch.where(last_start > 0, last_action >= last_start, self._has_acted | (last_action > 0))
        self._has_acted = has_acted[-1]
        return has_acted & ~active
