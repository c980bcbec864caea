"""A game and players whose every number a test can predict."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from arena.environments import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock
from arena.environments.base import Actions, Observation, Outcome, StepResult
from arena.policies import State
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.pool import Opponent

HEADS = (
    ActionHead("move", HeadKind.GAUSSIAN, 2, masked=True),
    ActionHead("switch", HeadKind.BERNOULLI, 2, masked=True),
    ActionHead("choice", HeadKind.CATEGORICAL, 3, masked=True),
)
BLOCKS = ("row", "decision", "seed", "agent")


def fake_spec(
    agents_per_side: tuple[int, int] = (1, 1),
    *,
    turn_based: bool = False,
    limit_decides: bool = False,
    name: str = "fake",
):
    return EnvironmentSpec(
        name=name,
        agents_per_side=agents_per_side,
        roles=("player",) * sum(agents_per_side),
        observation=tuple(ObservationBlock(block, (1,), -1e6, 1e6) for block in BLOCKS),
        heads=HEADS,
        max_decisions=100,
        turn_based=turn_based,
        reproducible=True,
        limit_decides=limit_decides,
        reasons=("over", "limit"),
        rules={},
    )


class FakeGame:
    """Matches whose length, end and reward follow from their seed.

    The observation says row, decision, seed and agent; the reward is 1000 row + 10 decision + agent. Seed s lasts
    `length(s)` decisions and is cut by the limit where `limited(s)`. In teams agent i is dead from decision 2 + i on.
    """

    def __init__(
        self,
        num_envs: int,
        agents_per_side: tuple[int, int] = (1, 1),
        *,
        turn_based: bool = False,
        limit_decides: bool = False,
        length: Callable[[int], int] = lambda seed: 2 + seed % 7,
        limited: Callable[[int], bool] = lambda seed: seed % 2 == 0,
    ) -> None:
        self.spec = fake_spec(agents_per_side, turn_based=turn_based, limit_decides=limit_decides)
        self.num_envs, self.device = num_envs, torch.device("cpu")
        self.seeds = torch.zeros(num_envs, dtype=torch.int64)
        self.next_seeds = torch.arange(num_envs)
        self.decision = torch.zeros(num_envs, dtype=torch.int64)
        self.played: list[Actions] = []
        self._length, self._limited = length, limited

    def reset(self, seeds: Tensor | None = None) -> Observation:
        self.seeds = (self.next_seeds if seeds is None else seeds).clone()
        self.decision.zero_()
        return self._observe()

    def step(self, actions: Actions) -> StepResult:
        self.played.append({name: action.clone() for name, action in actions.items()})
        agents = torch.arange(self.spec.num_agents)
        rows = torch.arange(self.num_envs)
        reward = (1000.0 * rows + 10.0 * self.decision).unsqueeze(1) + agents
        self.decision = self.decision + 1
        final, decisions = self._observe(), self.decision.clone()
        if self.spec.turn_based:  # it would have gone on for who waits as well
            final = replace(final, active=torch.ones_like(final.active))
        ended = self.decision >= torch.tensor([self._length(int(seed)) for seed in self.seeds])
        limited = torch.tensor([self._limited(int(seed)) for seed in self.seeds])
        score = (self.seeds % 3).double() / 2.0
        self.seeds = torch.where(ended, self.next_seeds, self.seeds)
        self.decision = self.decision.masked_fill(ended, 0)
        return StepResult(
            observation=self._observe(),
            reward=reward.float(),
            terminated=ended & ~limited,
            truncated=ended & limited,
            final_observation=final,
            outcome=Outcome(score, (ended & limited).long(), decisions),
        )

    def _observe(self) -> Observation:
        agents = self.spec.num_agents
        columns = (torch.arange(self.num_envs), self.decision, self.seeds % 1000)
        facts = torch.stack([*columns], dim=-1).float().unsqueeze(1).expand(-1, agents, -1)
        numbers = torch.arange(agents).float().view(1, -1, 1).expand(self.num_envs, -1, -1)
        return Observation(torch.cat([facts, numbers], dim=-1), self._masks(), self._active())

    def _masks(self) -> dict[str, Tensor]:
        rng = torch.Generator().manual_seed(int(self.decision.sum()) + 7)
        shape = (self.num_envs, self.spec.num_agents)
        masks = {head.name: torch.rand(*shape, head.size, generator=rng) < 0.6 for head in HEADS}
        masks["choice"][..., 0] |= ~masks["choice"].any(dim=-1)
        return masks

    def _active(self) -> Tensor:
        agents = torch.arange(self.spec.num_agents)
        home = self.spec.agents_per_side[0]
        if self.spec.turn_based:
            return (agents < home) == (self.decision.unsqueeze(1) % 2 == 0)
        place = torch.where(agents < home, agents, agents - home)
        alone = max(self.spec.agents_per_side) == 1
        return (self.decision.unsqueeze(1) < 2 + place) | torch.tensor(alone)


class TaggedPolicy:
    """Always moves by its tag, and counts the decisions of every row's episode in its state."""

    def __init__(self, tag: float) -> None:
        self.tag = tag
        self.calls: list[tuple[Observation, Tensor, Tensor]] = []

    def initial_state(self, rows: int) -> State:
        return (torch.zeros(rows, 1),)

    def act(self, observation: Observation, state: State, episode_start: Tensor, rng: torch.Generator):
        count = state[0].masked_fill(episode_start.unsqueeze(1), 0.0)
        self.calls.append((observation, count.clone(), episode_start.clone()))
        rows = len(observation.values)
        actions = {
            "move": torch.full((rows, 2), self.tag),
            "switch": torch.zeros(rows, 2, dtype=torch.bool),
            "choice": torch.zeros(rows, dtype=torch.int64),
        }
        return actions, (count + 1.0,)


class ScriptedDealer:
    """Deals opponents in turn, on alternating sides, by seeds that count up."""

    def __init__(self, opponents: list[Opponent], *, sides: int = 2) -> None:
        self.opponents, self.sides = opponents, sides
        self.dealt: list[tuple[int, MatchAssignment]] = []

    def next_match(self, row: int) -> MatchAssignment:
        number = len(self.dealt)
        opponent = self.opponents[number % len(self.opponents)]
        assignment = MatchAssignment(opponent, bool(number % self.sides), number, None, number, self_play_match=False)
        self.dealt.append((row, assignment))
        return assignment


def tagged(tag: float) -> Opponent:
    return Opponent(f"tag{tag}", f"player {tag}", TaggedPolicy(tag))


def never() -> bool:
    return False
