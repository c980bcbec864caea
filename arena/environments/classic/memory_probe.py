"""Memory probe: a cue is shown once and asked for after a delay. Without memory a policy cannot beat chance."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from arena.environments import counter_rng as randomness
from arena.environments.base import Actions, Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind, ObservationBlock

CUES = 4
DELAY = 6
"""Decisions between the one with the cue and the one with the question."""

DECISIONS = DELAY + 2
WRONG_REWARD = -1.0 / (CUES - 1)
"""A right answer earns 1, so guessing earns 0 on average."""

WAIT = 0
"""Option of the head `answer` before the question; options 1 to CUES answer it."""

PURPOSE_CUE, PURPOSE_DISTRACTOR = 0, 1


class Recall(SeededBatch):
    """Each side observes a private cue at its first decision, noise during the delay, and a flag at the question.

    The observation is the one-hot cue (zero after the first decision), the flag, and a random bit.
    """

    def __init__(self, spec: EnvironmentSpec, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self._decision = torch.zeros_like(self.seeds)

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        self._decision.zero_()
        return self._observe()

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every row (see `Environment.step`)."""
        self._require_fit(actions)
        asked = self._decision == DECISIONS - 1
        right = actions["answer"] == self._draw(PURPOSE_CUE, CUES) + 1
        reward = torch.where(right, 1.0, WRONG_REWARD) * asked.unsqueeze(-1)
        self._decision += 1
        decisions, final = self._decision.clone(), self._observe()
        score = 0.5 + 0.5 * (right[:, 0].double() - right[:, 1].double()) * asked
        return StepResult(
            observation=self._reopen(asked) if bool(asked.any()) else final,
            reward=reward,
            terminated=asked,
            truncated=torch.zeros_like(asked),
            final_observation=final,
            outcome=Outcome(score=score, reason=torch.zeros_like(decisions), decisions=decisions),
        )

    def _reopen(self, rows: Bool[Tensor, " E"]) -> Observation:
        self._open_episodes(rows)
        self._decision.masked_fill_(rows, 0)
        return self._observe()

    def _observe(self) -> Observation:
        first = (self._decision == 0).view(-1, 1, 1)
        asked = self._decision == DECISIONS - 1
        cue = F.one_hot(self._draw(PURPOSE_CUE, CUES), CUES) * first
        flag = asked.view(-1, 1, 1).expand(-1, self.spec.num_agents, 1)
        distractor = self._draw(PURPOSE_DISTRACTOR, 2, self._decision).unsqueeze(-1)
        return Observation(
            values=torch.cat([cue, flag, distractor], dim=-1).float(),
            masks={"answer": _options(asked, self.spec.num_agents)},
            active=torch.ones(self.num_envs, self.spec.num_agents, dtype=torch.bool, device=self.device),
        )

    def _draw(self, purpose: int, options: int, *keys: Tensor) -> Int[Tensor, "E N"]:
        """Return a random number in [0, options) for every agent of the current episode."""
        agents = torch.arange(self.spec.num_agents, device=self.device)
        derived = randomness.derive(self.seeds.unsqueeze(-1), purpose, *(key.unsqueeze(-1) for key in keys), agents)
        return (randomness.uniform(derived) * options).long()


def _options(asked: Bool[Tensor, " E"], agents: int) -> Bool[Tensor, "E N K"]:
    """Return the action mask: only WAIT before the question, all options except WAIT at it."""
    mask = asked.unsqueeze(-1).repeat(1, CUES + 1)
    mask[:, WAIT] = ~asked
    return mask.unsqueeze(1).expand(-1, agents, -1)


def make_recall(name: str, *, num_envs: int, device: str, seed: int) -> Recall:
    """Make the memory probe, with one agent per side."""
    return Recall(declare_recall(name), num_envs=num_envs, device=device, seed=seed)


def declare_recall(name: str) -> EnvironmentSpec:
    """Return the spec of the memory probe."""
    return EnvironmentSpec(
        name=name,
        agents_per_side=(1, 1),
        roles=("player", "player"),
        observation=(
            ObservationBlock("cue", (CUES,), 0.0, 1.0),
            ObservationBlock("asked", (1,), 0.0, 1.0),
            ObservationBlock("distractor", (1,), 0.0, 1.0),
        ),
        heads=(ActionHead("answer", HeadKind.CATEGORICAL, CUES + 1, masked=True),),
        max_decisions=DECISIONS,
        turn_based=False,
        reproducible=True,
        limit_decides=False,
        reasons=("answer",),
        rules={"cues": CUES, "delay": DELAY},
        chance=True,
    )
