"""Single-match games as a batch with the `Environment` interface."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from arena.environments.adapters.match import BoolArray, ObservationBuffer, SingleMatchGame
from arena.environments.adapters.subprocess.buffers import GOING_ON, TRUNCATED, Buffers
from arena.environments.adapters.subprocess.pool import StepHandle, Workers
from arena.environments.adapters.subprocess.rows import Part, Rows
from arena.environments.base import NOTHING_LEGAL, Actions, AwaitedEnvironment, Observation, Outcome, RoundResult
from arena.environments.seeded import SeededBatch
from arena.environments.spec import ActionHead, EnvironmentSpec, HeadKind
from arena.errors import CallOrderError, InvalidActionError
from arena.seeding import derive


@runtime_checkable
class Stepper(Protocol):
    """Steps the matches of a batch.

    Attributes:
        buffers: Arrays of the matches.
    """

    buffers: Buffers

    def open(self) -> None:
        """Open a match in every row, by `buffers.seeds`."""
        ...

    def send(self) -> None:
        """Start one decision of every row."""
        ...

    def receive(self) -> BoolArray:
        """Wait for the decision to finish.

        Returns:
            (E,) rows whose match was lost and has been restarted with the same seed.
        """
        ...


class InProcess:
    """Steps all matches in this process."""

    def __init__(self, game: SingleMatchGame, num_envs: int) -> None:
        memory = memoryview(bytearray(Buffers.size_bytes(game.spec, num_envs)))
        self.buffers = Buffers.over(game.spec, num_envs, memory)
        self._rows = Rows(game, self.buffers, 0, num_envs)
        self._nothing_lost = np.zeros(num_envs, dtype=np.bool_)

    def open(self) -> None:
        """Open a match in every row."""
        self._rows.open(Part.ALL)

    def send(self) -> None:
        """Play one decision of every row."""
        self._rows.step(Part.ALL)

    def receive(self) -> BoolArray:
        """Return that no match was lost."""
        return self._nothing_lost


class SyncBatch(SeededBatch):
    """E matches of a game that plays one at a time.

    If the worker process of a match dies, the episode is truncated, but the match is not over. It restarts with the
    same seed, the same players and the same lease. The episode's final observation is then the last one shown to each
    agent.

    Args:
        spec: Spec of the game.
        host: Creates the stepper for a number of matches.
        num_envs: E.
        device: Device of the returned tensors.
        seed: The environment's seed.
    """

    def __init__(
        self, spec: EnvironmentSpec, host: Callable[[int], Stepper], *, num_envs: int, device: str, seed: int
    ) -> None:
        super().__init__(spec, num_envs=num_envs, device=device, seed=seed)
        self._stepper = host(num_envs)
        self._buffers = self._stepper.buffers
        self._categorical = [head for head in spec.heads if head.kind is HeadKind.CATEGORICAL]
        self._masked_switches = [head for head in spec.heads if head.kind is HeadKind.BERNOULLI and head.masked]
        self._recent = self._buffers.seen.copy()
        self._sides = np.arange(spec.num_agents) >= spec.agents_per_side[0]

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row (see `Environment.reset`)."""
        self._open_all(seeds)
        self._buffers.seeds[:] = self.seeds.cpu().numpy()
        self._stepper.open()
        seen = self._buffers.seen.copy()
        self._remember(seen, np.ones(self.num_envs, dtype=np.bool_))
        return self._observation(seen)

    def step(self, actions: Actions) -> RoundResult:
        """Play one decision of every row (see `Environment.step`).

        Raises:
            InvalidActionError: Actions have the wrong shape, or an active agent chose an illegal one.
            LostMatchesError: Worker processes die repeatedly.
        """
        self._begin(actions)
        return self._finish()

    def _begin(self, actions: Actions) -> None:
        self._require_fit(actions)
        for name, array in self._buffers.actions.items():
            array[:] = actions[name].cpu().numpy()
        self._require_legal()
        self._buffers.next_seeds[:] = self.next_seeds.cpu().numpy()
        self._stepper.send()

    def _finish(self) -> RoundResult:
        lost = self._stepper.receive()
        return self._result(lost, (self._buffers.ending != GOING_ON) & ~lost)

    def _result(self, lost: BoolArray, over: BoolArray) -> RoundResult:
        buffers = self._buffers
        # Copies, because the next decision overwrites the shared arrays while callers still hold the results.
        seen, final = buffers.seen.copy(), self._final(lost, over)
        self._remember(seen, over | lost)
        # A lost match is truncated for learning, so that its returns bootstrap, but it has no result.
        truncated = (buffers.ending == TRUNCATED) | lost
        if over.any():
            self._open_episodes(self._tensor(over))
            buffers.seeds[:] = self.seeds.cpu().numpy()
        observation = self._observation(seen)
        return RoundResult(
            observation=observation,
            reward=self._tensor(buffers.reward.copy()),
            terminated=self._tensor(over & ~truncated),
            truncated=self._tensor(truncated),
            final_observation=observation if final is None else self._observation(final),
            outcome=Outcome(
                score=self._tensor(buffers.score.copy()),
                reason=self._tensor(buffers.reason.copy()),
                decisions=self._tensor(buffers.decisions.copy()),
            ),
            match_over=self._tensor(over),
        )

    def _final(self, lost: BoolArray, over: BoolArray) -> ObservationBuffer | None:
        """Return the final observations of episodes that have ended; None if none has."""
        if not (over | lost).any():
            return None
        final = self._buffers.seen.copy()
        final.take(over, self._buffers.final)
        final.take(lost, self._recent)
        return final

    def _remember(self, seen: ObservationBuffer, opened: BoolArray) -> None:
        """Store the latest observations for matches that may be lost; in turn-based games the latest of each agent."""
        if not self.spec.turn_based:
            # Every agent is shown at every decision, so the newest observation of all is the last of each.
            self._recent = seen
            return
        if opened.any():
            self._recent.hide(opened)
        self._recent.remember(seen)

    def _require_legal(self) -> None:
        active = self._buffers.seen.active
        for head in self._categorical:
            chosen = self._buffers.actions[head.name]
            legal = (chosen >= 0) & (chosen < head.size)
            if head.masked:
                options = self._buffers.seen.masks[head.name]
                # Choices out of range look up option 0, which cannot raise, and stay illegal.
                legal &= np.take_along_axis(options, np.where(legal, chosen, 0)[..., None], axis=-1)[..., 0]
            if not (legal | ~active).all():
                row, agent = np.argwhere(active & ~legal)[0].tolist()
                self._refuse(head, row, agent)

        for head in self._masked_switches:
            forbidden = self._buffers.actions[head.name] & ~self._buffers.seen.masks[head.name] & active[..., None]
            if forbidden.any():
                row, agent, switch = np.argwhere(forbidden)[0].tolist()
                raise InvalidActionError(
                    f"agent {agent} ({self._side(agent)}) put on switch {switch} of head {head.name!r} in match {row} "
                    f"of {self.spec.name}: its mask forbids that"
                )

    def _side(self, agent: int) -> str:
        return ("home", "away")[int(self._sides[agent])]

    def _refuse(self, head: ActionHead, row: int, agent: int) -> None:
        masks = self._buffers.seen.masks
        allowed = np.flatnonzero(masks[head.name][row, agent]).tolist() if head.masked else range(head.size)
        options = ", ".join(map(str, allowed)) or NOTHING_LEGAL
        side, chosen = self._side(agent), int(self._buffers.actions[head.name][row, agent])
        raise InvalidActionError(
            f"agent {agent} ({side}) chose {chosen} of head {head.name!r} in match {row} of {self.spec.name}: "
            f"allowed is {options}"
        )

    def _tensor(self, array: NDArray[np.generic]) -> Tensor:
        """Move an array without other references to the batch's device."""
        return torch.from_numpy(array).to(self.device)

    def _observation(self, sight: ObservationBuffer) -> Observation:
        masks = {name: self._tensor(mask) for name, mask in sight.masks.items()}
        return Observation(self._tensor(sight.values), masks, self._tensor(sight.active))


class SubprocessBatch(SyncBatch):
    """E matches stepped by worker processes; see `SyncBatch`, and `AwaitedEnvironment` for the asynchronous interface.

    Args:
        workers: The worker processes.
        part: The rows of this batch.
        device: Device of the returned tensors.
        seed: The environment's seed.
    """

    capabilities: tuple[type, ...] = (AwaitedEnvironment,)

    def __init__(self, spec: EnvironmentSpec, workers: Workers, part: Part, *, device: str, seed: int) -> None:
        shift = StepHandle(workers, part)
        super().__init__(spec, lambda _: shift, num_envs=shift.buffers.num_envs, device=device, seed=seed)
        self._workers, self._part, self._seed, self._under_way = workers, part, seed, False

    def halves(self) -> "list[SubprocessBatch]":
        """Split into even and odd rows (see `AwaitedEnvironment.halves`)."""
        # A half cannot be halved again: its rows have no two parts of their own.
        if self._part is not Part.ALL or self.num_envs == 1:
            return [self]
        return [
            SubprocessBatch(
                self.spec, self._workers, part, device=str(self.device), seed=derive(self._seed, "half", number)
            )
            for number, part in enumerate((Part.EVEN, Part.ODD))
        ]

    def reset(self, seeds: Int[Tensor, " E"] | None = None) -> Observation:
        """Start a new match in every row; the result of a decision in progress is discarded."""
        if self._under_way:
            self.receive()
        return super().reset(seeds)

    def step(self, actions: Actions) -> RoundResult:
        """Play one decision of every row (see `SyncBatch.step`)."""
        self.send(actions)
        return self.receive()

    def send(self, actions: Actions) -> None:
        """Start a decision of every row (see `AwaitedEnvironment.send`)."""
        if self._under_way:
            raise CallOrderError(
                f"{self.spec.name} was sent actions while a decision was under way: receive() it first"
            )
        self._begin(actions)
        self._under_way = True

    def receive(self) -> RoundResult:
        """Wait for the decision (see `AwaitedEnvironment.receive`)."""
        if not self._under_way:
            raise CallOrderError(f"{self.spec.name} has no decision under way: send() actions first")
        self._under_way = False
        return self._finish()
