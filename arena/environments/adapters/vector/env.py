"""E matches of a vector game as an arena environment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from arena.environments.adapters.calls import STEP, unpack
from arena.environments.adapters.sides import END, LIMIT
from arena.environments.adapters.spaces.actions import require_no_addend
from arena.environments.adapters.spaces.flatten import ACTION_MASK
from arena.environments.adapters.vector.actions import check_legal, read
from arena.environments.adapters.vector.declare import Declared, info_of, split
from arena.environments.adapters.vector.game import Autoreset
from arena.environments.base import Actions, Observation, Outcome, StepResult
from arena.environments.seeded import SeededBatch
from arena.errors import ArenaError, GameError
from arena.seeding import derive

ACTIVE, SCORE, FINAL = "active", "score", "final_obs"
"""Info keys: active agents (E, N), home's score (E,), and final observations of matches that have just ended."""

LARGEST_SEED = 2**31 - 1
"""Largest seed; games with autoreset get one seed for all matches, which must fit C code."""

DRAWN = 0.5


@dataclass(frozen=True)
class _Ends:
    """Matches that ended in a step.

    Attributes:
        over: (E,) true if terminated by the game.
        cut: (E,) true if truncated by a limit.
        score: (E,) home's score. 0.5 for other matches.
        decisions: (E,) lengths of the matches.
        final: Final observations.
    """

    over: Bool[Tensor, " E"]
    cut: Bool[Tensor, " E"]
    score: Float[Tensor, " E"]
    decisions: Int[Tensor, " E"]
    final: Observation

    @property
    def rows(self) -> Bool[Tensor, " E"]:
        """(E,) true for matches that ended."""
        return self.over | self.cut


class TensorMatches(SeededBatch):
    """Environment of a vector game.

    With next-step autoreset, a row has no active agents for one decision after an end. That decision is not counted,
    and the end is reported with it.
    """

    def __init__(self, declared: Declared, *, num_envs: int, device: str, seed: int) -> None:
        super().__init__(declared.spec, num_envs=num_envs, device=device, seed=seed)
        self._declared, self._game = declared, declared.game.open(declared.spec.name, num_envs=num_envs, device=device)
        self._autoreset, self._shape = declared.autoreset, (num_envs, declared.spec.num_agents)
        away = torch.arange(declared.spec.num_agents, device=self.device) >= declared.spec.agents_per_side[0]
        self._away = away.float().expand(self._shape).unsqueeze(-1)
        self._decisions = self._zeros(torch.int64)
        self._returns = self._zeros(torch.float64, declared.spec.num_agents)

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        takes_seeds = self._autoreset is Autoreset.DISABLED
        # With autoreset the game accepts a single seed, which must differ between batches of environments.
        together = derive(int(self.seeds[0]), "tensor game", int(self.seeds[-1])) & LARGEST_SEED
        result = self._game.reset(seed=self._copy_for_game(self.seeds) if takes_seeds else together)
        self._decisions.zero_()
        self._returns.zero_()
        self._seen = self._see(*split(self.spec.name, result))
        self._held = self._no_ends()
        return self._seen

    def step(self, actions: Actions) -> StepResult:
        """Play one decision of every row (see `Environment.step`).

        Raises:
            InvalidActionError: Actions have the wrong shape, or an active agent chose an illegal one.
            ArenaError: The game's result does not match its spec.
        """
        self._require_fit(actions)
        check_legal(self.spec, actions, self._seen)
        taken = read(self._declared.space, self.spec.heads, actions, self._seen.active)
        returned = unpack(self.spec.name, "step", self._game.step(self._copy_for_game(taken)), STEP)
        observation, rewards, terminated, truncated, raw_info = returned
        info = info_of(self.spec.name, "step", raw_info)
        # With next-step autoreset the game ignores the actions of rows that have just ended and resets them instead.
        plays = ~self._held.rows
        reward = self._take(rewards, "rewards", self._shape, torch.float32) * plays.unsqueeze(1)
        self._decisions += plays
        self._returns += reward
        over = self._take(terminated, "terminated", self._shape[:1], torch.bool) & plays
        # A game may report both; an end by the rules takes precedence, because it has no future return to bootstrap.
        cut = self._take(truncated, "truncated", self._shape[:1], torch.bool) & plays & ~over
        seen = self._see(observation, info)
        cut = cut | self._beyond_the_limit(plays & ~over & ~cut)
        # A copy of the counts, because the next step adds to them in place.
        ends = _Ends(
            over, cut, self._score(info, over | cut), self._decisions.clone(), self._final(info, seen, over, cut)
        )
        if self._autoreset is Autoreset.NEXT_STEP:
            ends, self._held = self._held, ends
            return self._result(_seen_by(seen, ~self._held.rows.unsqueeze(1)), reward, ends)
        return self._result(self._reopened(seen, ends.rows), reward, ends)

    def _result(self, seen: Observation, reward: Float[Tensor, "E N"], ends: _Ends) -> StepResult:
        """Return the result of a decision, with the ends to report now."""
        self._seen = seen
        decisions = ends.decisions.where(ends.rows, self._decisions)
        if bool(ends.rows.any()):
            self._open_episodes(ends.rows)
            self._decisions *= ~ends.rows
            self._returns *= ~ends.rows.unsqueeze(1)
        return StepResult(
            observation=seen,
            reward=reward,
            terminated=ends.over,
            truncated=ends.cut,
            final_observation=_choose(ends.rows, ends.final, seen),
            outcome=Outcome(ends.score, torch.where(ends.cut, LIMIT, END), decisions),
        )

    def _beyond_the_limit(self, going_on: Bool[Tensor, " E"]) -> Bool[Tensor, " E"]:
        overdue = going_on & (self._decisions >= self.spec.max_decisions)
        if self._autoreset is not Autoreset.DISABLED and bool(overdue.any()):
            raise GameError(
                f"{self.spec.name} plays on after {self.spec.max_decisions} decisions, its longest match, and opens "
                "matches by itself: give TensorGame its right max_decisions"
            )
        return overdue

    def _reopened(self, seen: Observation, ended: Bool[Tensor, " E"]) -> Observation:
        """Return the result after resetting the rows that ended."""
        if self._autoreset is Autoreset.SAME_STEP or not bool(ended.any()):
            return seen
        seeds = self.next_seeds.where(ended, self.seeds)
        result = self._game.reset(seed=self._copy_for_game(seeds), options={"reset_mask": self._copy_for_game(ended)})
        return _choose(ended, self._see(*split(self.spec.name, result)), seen)

    def _final(
        self, info: Mapping[str, Any], seen: Observation, over: Bool[Tensor, " E"], cut: Bool[Tensor, " E"]
    ) -> Observation:
        """Return the final observations; agents of truncated matches are active."""
        values, active_mask = seen.values, seen.active
        if self._autoreset is Autoreset.SAME_STEP:
            active_mask = self._seen.active
            if FINAL in info:
                values = self._flat(info[FINAL])
            elif bool(cut.any()):
                raise GameError(
                    f"{self.spec.name} truncates a match without a final observation: return it in info[{FINAL!r}]"
                )
        # An agent that is not to move has a value too, and truncation bootstraps from it.
        if self._declared.game.turn_based:
            active_mask = torch.ones_like(active_mask)
        shown = Observation(values, {name: torch.ones_like(mask) for name, mask in seen.masks.items()}, active_mask)
        return replace(_seen_by(shown, cut.unsqueeze(1)), values=values * (over | cut)[:, None, None])

    def _score(self, info: Mapping[str, Any], ended: Bool[Tensor, " E"]) -> Float[Tensor, " E"]:
        """Return home's score of matches that have ended; 0.5 for others."""
        score = torch.full_like(ended, DRAWN, dtype=torch.float64)
        if SCORE in info:
            given = self._take(info[SCORE], f"info[{SCORE!r}]", self._shape[:1], torch.float64)
            score = given.where(ended, score)
            if bool(((score < 0.0) | (score > 1.0) | score.isnan()).any()):
                raise GameError(f"{self.spec.name} scores {given[ended].tolist()}: home's score is from 0 to 1")
            return score
        if not bool(ended.any()):
            return score
        home = self.spec.agents_per_side[0]
        sides = (self._returns[ended, :home], self._returns[ended, home:])
        pairs = zip(*(side.mean(dim=1).tolist() for side in sides), strict=True)
        scores = [self._declared.game.scoring.score(*pair) for pair in pairs]
        score[ended] = torch.tensor(scores, dtype=torch.float64, device=self.device)
        return score

    def _see(self, observation: Any, info: Mapping[str, Any]) -> Observation:  # noqa: ANN401  any observation
        values, masks = self._flat(observation), {}
        masked = [head for head in self.spec.heads if head.masked]
        active = torch.ones(self._shape, dtype=torch.bool, device=self.device)
        if masked:
            mask = self._part(
                observation if isinstance(observation, Mapping) and ACTION_MASK in observation else info, ACTION_MASK
            )
            shape = (*self._shape, sum(head.size for head in masked))
            parts = torch.split(self._mask_as_booleans(mask, shape), [head.size for head in masked], -1)
            masks = {head.name: part for head, part in zip(masked, parts, strict=True)}
            active = torch.stack([part.any(dim=-1) for part in parts]).any(dim=0)
        if ACTIVE in info:
            active = self._take(info[ACTIVE], f"info[{ACTIVE!r}]", self._shape, torch.bool)
        return _seen_by(Observation(values, masks, active), active.new_ones(()))

    def _flat(self, observation: Any) -> Float[Tensor, "E N D"]:  # noqa: ANN401
        parts = []
        for path, block in zip(self._declared.paths, self.spec.observation[:-1], strict=True):
            part = observation if path is None else self._part(observation, path)
            shape = (*self._shape, block.size)
            flat = self._tensor(part, block.name).float()
            if flat.shape[:2] != self._shape or flat.numel() != np.prod(shape):
                raise GameError(
                    f"{self.spec.name} shows {block.name} of shape {tuple(flat.shape)}: its first two axes are matches "
                    f"and agents, {self._shape}, and the rest {block.shape}"
                )
            parts.append(flat.reshape(shape))
        return torch.cat([*parts, self._away], dim=-1)

    def _part(self, observation: Any, key: str) -> Any:  # noqa: ANN401  any observation
        """Return the entry of an observation or info that was present at declaration."""
        if isinstance(observation, Mapping) and key in observation:
            return observation[key]
        names = (
            ", ".join(map(str, observation)) if isinstance(observation, Mapping) else f"a {type(observation).__name__}"
        )
        raise GameError(
            f"{self.spec.name} shows no {key} ({names or 'nothing'}): give one with every reset and every step"
        )

    def _take(self, given: Any, what: str, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:  # noqa: ANN401
        """Validate the shape of a value from the game and return it as an independent tensor."""
        taken = self._tensor(given, what)
        if taken.shape != shape:
            raise GameError(f"{self.spec.name} returns {what} of shape {tuple(taken.shape)}: give {shape}")
        # A copy, because games may reuse their buffers in the next step.
        return taken.to(kind, copy=True)

    def _mask_as_booleans(self, mask: Any, shape: tuple[int, ...]) -> Bool[Tensor, "E N K"]:  # noqa: ANN401  any value
        """Return an action mask as booleans."""
        taken = self._tensor(mask, ACTION_MASK)
        if taken.numel() and taken.element_size() > 1:  # most masks are bytes, which cannot be additive logits
            try:
                require_no_addend(float(taken.min()))
            except ArenaError as error:
                raise GameError(f"{self.spec.name} shows {error}") from error
        return self._take(taken, ACTION_MASK, shape, torch.bool)

    def _tensor(self, given: Any, what: str) -> Tensor:  # noqa: ANN401
        try:
            return torch.as_tensor(given, device=self.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise GameError(
                f"{self.spec.name} returns {what} as a {type(given).__name__} that is not a tensor ({error}): "
                "return numbers"
            ) from error

    def _copy_for_game(self, tensor: Tensor) -> Any:  # noqa: ANN401
        """Return a copy for the game: a tensor if its constructor takes a device, else an array."""
        return tensor.clone() if self._declared.tensors else tensor.cpu().numpy().copy()

    def _no_ends(self) -> _Ends:
        nothing = self._zeros(torch.bool)
        return _Ends(nothing, nothing, self._zeros(torch.float64) + DRAWN, self._decisions.clone(), self._seen)


def _seen_by(seen: Observation, rows: Bool[Tensor, "..."]) -> Observation:
    """Return the observation with some agents inactive: zero values and nothing legal."""
    active = seen.active & rows
    active_mask = active.unsqueeze(-1)
    return Observation(
        seen.values * active_mask, {name: mask & active_mask for name, mask in seen.masks.items()}, active
    )


def _choose(rows: Bool[Tensor, " E"], some: Observation, others: Observation) -> Observation:
    """Select rows from two observations."""
    where = rows[:, None, None]
    return Observation(
        torch.where(where, some.values, others.values),
        {name: torch.where(where, mask, others.masks[name]) for name, mask in some.masks.items()},
        torch.where(rows.unsqueeze(1), some.active, others.active),
    )
