"""Environments that are stepped together, with everybody who acts in them: what one thread has to do."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Shaped
from numpy.typing import NDArray
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.guard import require_finite, staying
from arena.environments.protocol import Actions, AwaitedEnvironment, Environment, Observation, StepResult
from arena.policies import ActorCritic, RecurrentState
from trainer.acting import Acting
from trainer.earnings import Earnings
from trainer.errors import TrainerError
from trainer.opponents import Opponent
from trainer.opposition import Opponents
from trainer.rollout import Rollout
from trainer.seats import Seats

HOST = torch.device("cpu")


@dataclass(frozen=True)
class Ended:
    """A match that has ended in this step.

    Attributes:
        row: Its environment.
        score: Home's score.
        reason: Why it ended, as an index of the spec's reasons.
        decisions: Its length.
        sums: What the learner's side earned, in all and by component.
    """

    row: int
    score: float
    reason: int
    decisions: int
    sums: tuple[float, ...]


@dataclass(frozen=True)
class _Endings:
    """What has ended in a step.

    Attributes:
        episodes: Whether any episode has.
        cut: Environments whose episode a limit ended.
        matches: Matches that are over.
    """

    episodes: bool
    cut: Sequence[int]
    matches: Sequence[Ended]


NO_ENDINGS = _Endings(False, (), ())


class Crew:
    """E environments, the learner's rows in them and their opponents.

    Between two steps somebody has to take `ended` and say, with `seat` and `announce`, what these environments play
    now and next.

    Args:
        environment: E matches.
        network: The learner.
        first: Number of the first of them among all of a run; here they are rows from 0 on.
        self_play: Numbers of environments in which both sides are the learner's, be they in this batch or not.
        device_cache_bytes: Most bytes of weights that stay on the device for opponents that nobody plays just now.

    Attributes:
        seats: Who sits where.
        acting: Acts for the learner's rows.
        opponents: Act for all others.
        earnings: What the learner earns.
        ended: Matches that ended in the last step.
    """

    def __init__(
        self,
        environment: Environment,
        network: ActorCritic,
        *,
        first: int,
        self_play: Set[int],
        device_cache_bytes: int,
    ) -> None:
        self.environment, self.first, self._layout = environment, first, network.layout
        self._awaited = environment if isinstance(environment, AwaitedEnvironment) else None
        self._self_play = [row for row in range(environment.num_envs) if first + row in self_play]
        self.seats = Seats(environment.spec, environment.num_envs, environment.device, self._self_play)
        self.acting = Acting(network, self.seats.rows, environment.spec.num_agents)
        self.opponents = Opponents(self.seats, device_cache_bytes)
        self.earnings = Earnings(environment, self.seats)
        self._seeds = torch.zeros(environment.num_envs, dtype=torch.int64)
        self._shapes = _Shapes.of(environment.spec, environment.num_envs)
        self._actions: Actions = {}
        self.ended: Sequence[Ended] = ()

    @property
    def state(self) -> RecurrentState:
        """Memory of the learner's rows."""
        return self.acting.state

    @torch.inference_mode()
    def open(self, seeds: Sequence[int]) -> None:
        """Open a match in every environment."""
        device = self.environment.device
        with staying(self.environment.spec.name):
            seen = self.environment.reset(torch.tensor(seeds, device=device))
        self._observation = self._checked(seen)
        require_finite(self.environment, seen, first=self.first)
        self._starts = torch.ones(len(seeds), dtype=torch.bool, device=device)

    def seat(self, away: Mapping[int, bool], opponents: Mapping[int, Opponent]) -> None:
        """Take up the matches of some environments: the learner's side, and whom it plays unless itself."""
        others = away.keys() - self._self_play
        moved = self.seats.place({row: away[row] for row in others})
        self.opponents.seat({row: opponents[row] for row in others}, moved)

    def announce(self, seeds: Mapping[int, int]) -> None:
        """Tell the environment by which seeds the next matches of some rows open."""
        by_row = self._seeds.numpy()
        for row, seed in seeds.items():
            by_row[row] = seed
        self.environment.next_seeds.copy_(self._seeds)

    def refresh(self) -> None:
        """Take over what has become of the learner's weights."""
        self.acting.refresh()
        self.opponents.refresh()

    @property
    def awaited(self) -> bool:
        """Whether others play what is decided, between `decide` and `conclude`."""
        return self._awaited is not None

    def step(self, rollout: Rollout, t: int, rng: torch.Generator) -> None:
        """Play one decision of every environment into the crew's rows of a rollout."""
        self.decide(rollout, t, rng)
        self.conclude(rollout, t)

    @torch.inference_mode()
    def decide(self, rollout: Rollout, t: int, rng: torch.Generator) -> None:
        """Act in every environment, and note it in the crew's rows of a rollout; `conclude` has to follow."""
        chunk, place = divmod(t, rollout.chunk)
        if place == 0:
            self._open_chunk(rollout, chunk)
            self.acting.open_chunk(rollout, chunk, rng)
        actions = self.opponents.act(self._observation, self._starts, rng)
        if self.acting.in_one_piece:
            self.acting.decide(rollout, t, self.seats.learner.look(self._observation, self._starts), actions)
        else:
            self._perceive(rollout, t)
            self.seats.learner.write(actions, self._layout.to_actions(self.acting.act(rollout, t)))
        self._actions = self.seats.unflatten(actions)
        if self._awaited is not None:
            self._awaited.send(self._actions)

    @torch.inference_mode()
    def conclude(self, rollout: Rollout, t: int) -> None:
        """Play what was decided, or wait until it is played, and note what came of it."""
        with staying(self.environment.spec.name):
            step = self.environment.step(self._actions) if self._awaited is None else self._awaited.receive()
        self._record(rollout, t, step)
        chunk, place = divmod(t, rollout.chunk)
        if place == rollout.chunk - 1:
            self.acting.close_chunk(rollout, chunk)

    @torch.inference_mode()
    def bootstrap(self, rollout: Rollout) -> None:
        """Value the observation after the last decision."""
        values, active = self.seats.learner.pick(self._observation.values), self.seats.learner.active(self._observation)
        starts = self.seats.per_agent(self._starts)
        rollout.last_value.copy_(self.acting.values(values, self.state, starts, active))
        rollout.last_active.copy_(active)

    @torch.inference_mode()
    def require_options(self, rollout: Rollout) -> None:
        """Refuse masks that leave no option to somebody who acts; once a rollout, since looking costs.

        Raises:
            TrainerError: There are such.
        """
        if not self._layout.mask_size:
            return
        stuck = self._layout.stuck(rollout.mask) & rollout.active.unsqueeze(-1)
        if bool(stuck.any()):
            t, row, head = stuck.nonzero()[0].tolist()
            spec, agent = self.environment.spec, row % self.seats.agents
            number = self.first + int(self.seats.environment_of_row[row])
            raise TrainerError(
                f"{spec.name} leaves no legal option of head {spec.heads[head].name!r} to agent {agent} of the learner "
                f"in environment {number} at decision {t} of a rollout: whoever acts needs at least one; mend the "
                "environment's masks, in which 1 is legal and 0 is not"
            )

    def _open_chunk(self, rollout: Rollout, chunk: int) -> None:
        """Say of a chunk's decisions what holds of most: no episode ends with them."""
        decisions = slice(chunk * rollout.chunk, (chunk + 1) * rollout.chunk)
        for rare in (rollout.terminated, rollout.truncated, rollout.final_value):
            rare[decisions].zero_()

    def _perceive(self, rollout: Rollout, t: int) -> None:
        learner, observation = self.seats.learner, self._observation
        learner.pick(observation.values, into=rollout.observation[t])
        learner.active(observation, into=rollout.active[t])
        if self._layout.mask_size:
            learner.pick(self._layout.pack_masks(observation), into=rollout.mask[t])
        self.seats.per_agent(self._starts, into=rollout.episode_start[t])

    def _record(self, rollout: Rollout, t: int, step: StepResult) -> None:
        self._require_shape("reward", step.reward, self._shapes.agents)
        self._require_shape("terminated", step.terminated, self._shapes.matches)
        self._require_shape("truncated", step.truncated, self._shapes.matches)
        reward = self.seats.learner.rewards(step.reward.float(), into=rollout.reward[t])
        self.earnings.add(reward)
        self._observation = self._checked(step.observation)
        self._starts = step.ended
        endings = self._look(step)
        self.ended = endings.matches
        if endings.episodes:
            self.seats.per_agent(step.terminated, into=rollout.terminated[t])
            self.seats.per_agent(step.truncated, into=rollout.truncated[t])
            self._value_final(rollout, t, step, endings.cut)

    def _look(self, step: StepResult) -> _Endings:
        """Bring to the host what has ended, and whether all is finite: the one time that a step waits for a device."""
        total = step.observation.values.sum() + step.reward.sum()
        if self.environment.device == HOST and not bool(self._starts.any() | ~total.isfinite()):
            return NO_ENDINGS
        total = total + step.final_observation.values.sum()
        over, outcome = step.over, step.outcome
        self._require_shape("over", over, self._shapes.matches)
        facts = (self._starts, step.truncated, total.expand(len(over)), over, outcome.score, outcome.reason)
        columns = _on_host([*facts, outcome.decisions, *self.earnings.sums.unbind(1)])
        starts, truncated, totals, closed, *columns = columns
        if not np.isfinite(totals[0]):
            for seen in (step.observation, step.final_observation):
                require_finite(self.environment, seen, step, first=self.first)
        rows = np.flatnonzero(closed)
        table = zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True)
        matches = [
            Ended(row, score, int(reason), int(decisions), tuple(sums))
            for row, score, reason, decisions, *sums in table
        ]
        self.earnings.clear(over)
        return _Endings(bool(starts.any()), np.flatnonzero(truncated).tolist(), matches)

    def _value_final(self, rollout: Rollout, t: int, step: StepResult, cut: Sequence[int]) -> None:
        """Value the final observations of episodes that a limit cut off, unless it decides them.

        For who is not active in them the limit is the end of the game: it would not have gone on for those.
        """
        spec = self.environment.spec
        if not cut or spec.limit_decides:
            return
        rows, seen = self.seats.rows_of(cut), self._checked(step.final_observation)
        values, active = self.seats.learner.pick(seen.values)[rows], self.seats.learner.active(seen)[rows]
        state = RecurrentState(*(part[rows] for part in self.state))
        everybody = torch.ones_like(active)
        rollout.final_value[t, rows] = self.acting.values(values, state, ~everybody, everybody)
        rollout.terminated[t, rows] = ~active

    def _checked(self, observation: Observation) -> Observation:
        self._require_shape("observation", observation.values, self._shapes.observation)
        self._require_shape("activity", observation.active, self._shapes.agents)
        for name, shape in self._shapes.masks.items():
            if name not in observation.masks:
                raise TrainerError(
                    f"{self.environment.spec.name} shows no mask of head {name!r}, which its spec declares; mend the "
                    "environment"
                )
            self._require_shape(f"mask of head {name!r}", observation.masks[name], shape)
        return observation

    def _require_shape(self, what: str, shown: Tensor, expected: torch.Size) -> None:
        if shown.shape != expected:
            raise TrainerError(
                f"{what} of {self.environment.spec.name} has shape {tuple(shown.shape)}: its spec declares "
                f"{tuple(expected)} (environments, agents, numbers of each); mend the environment"
            )


def _on_host(columns: Sequence[Shaped[Tensor, " E"]]) -> list[NDArray[np.generic]]:
    """Numbers of every environment; a device sends all of them in one piece."""
    if columns[0].device == HOST:
        return [column.numpy() for column in columns]
    return list(torch.stack([column.double() for column in columns]).cpu().numpy())


@dataclass(frozen=True)
class _Shapes:
    """Shapes that an environment's spec declares."""

    matches: torch.Size
    agents: torch.Size
    observation: torch.Size
    masks: Mapping[str, torch.Size]

    @classmethod
    def of(cls, spec: EnvironmentSpec, num_envs: int) -> "_Shapes":
        agents = torch.Size((num_envs, spec.num_agents))
        masks = {head.name: torch.Size((*agents, head.size)) for head in spec.heads if head.masked}
        return cls(torch.Size((num_envs,)), agents, torch.Size((*agents, spec.observation_size)), masks)
