"""Matrix games: one simultaneous choice of both sides with a payoff table."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from arena.environments.base import Actions, Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock
from arena.errors import InvalidActionError

RPS_PAYOFF = ((0.0, -2.0, 1.0), (2.0, 0.0, -3.0), (-1.0, 3.0, 0.0))
"""Home's payoff for rock, paper, scissors (rows) against away's rock, paper, scissors (columns)."""


class MatrixGame(SeededBatch):
    """A zero-sum matrix game of one simultaneous decision.

    The observation is the constant 1. Rewards are payoffs. Home's score is its payoff scaled from the table's range to
    [0, 1], so a payoff of 0 is a score of 0.5.
    """

    def __init__(
        self, spec: EnvironmentSpec, payoff: Float[Tensor, "K K"], *, num_envs: int, device: str, seed: int
    ) -> None:
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self._payoff = payoff.to(self.device)
        self._largest = float(payoff.abs().max())

    @property
    def payoff(self) -> Float[Tensor, "K K"]:
        """Home's payoff for each of its actions (rows) against each of away's (columns)."""
        return self._payoff

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        return self._observe()

    def step(self, actions: Actions) -> StepResult:
        """Play one match in every row (see `Environment.step`).

        Raises:
            InvalidActionError: The choices have the wrong shape or are out of range.
        """
        self._require_fit(actions)
        choice = actions["choice"]
        options = self._payoff.shape[0]
        if bool(((choice < 0) | (choice >= options)).any()):
            raise InvalidActionError(
                f"choices are in [{int(choice.min())}, {int(choice.max())}]: {self.spec.name} takes 0 to {options - 1}"
            )
        payoff = self._payoff[choice[:, 0], choice[:, 1]]
        ended = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        self._open_episodes(ended)
        return StepResult(
            observation=self._observe(),
            reward=torch.stack([payoff, -payoff], dim=-1),
            terminated=ended,
            truncated=torch.zeros_like(ended),
            final_observation=self._observe(),
            outcome=Outcome(
                score=0.5 + payoff.double() / (2.0 * self._largest),
                reason=torch.zeros_like(self.seeds),
                decisions=torch.ones_like(self.seeds),
            ),
        )

    def _observe(self) -> Observation:
        shape = (self.num_envs, self.spec.num_agents)
        return Observation(
            values=torch.ones(*shape, 1, device=self.device),
            masks={},
            active=torch.ones(shape, dtype=torch.bool, device=self.device),
        )


def make_rps(name: str, *, num_envs: int, device: str, seed: int) -> MatrixGame:
    """Make biased rock-paper-scissors: rock beats scissors for 1, paper beats rock for 2, scissors beat paper for 3.

    The unique equilibrium plays rock with probability 1/2, paper with 1/6, scissors with 1/3.
    """
    payoff = torch.tensor(RPS_PAYOFF)
    return MatrixGame(declare_rps(name), payoff, num_envs=num_envs, device=device, seed=seed)


def declare_rps(name: str) -> EnvironmentSpec:
    """Return the spec of biased rock-paper-scissors."""
    return EnvironmentSpec(
        name=name,
        agents_per_side=(1, 1),
        roles=("player", "player"),
        observation=(ObservationBlock("constant", (1,), 1.0, 1.0),),
        heads=(ActionHead("choice", HeadKind.CATEGORICAL, 3, masked=False),),
        max_decisions=1,
        turn_based=False,
        reproducible=True,
        limit_decides=False,
        reasons=("choice",),
        rules={"payoff": RPS_PAYOFF},
        zero_sum=True,
        chance=False,
    )
