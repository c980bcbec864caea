"""Steps environments: the learner on one side of each, its own opponent on the other, for a rollout at a time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from arena.environments.protocol import Environment, Observation, StepResult
from arena.policies import ActorCritic, RecurrentState
from trainer.earnings import Earnings
from trainer.errors import TrainerError
from trainer.leases import Assignment
from trainer.opposition import Opponents
from trainer.rollout import Rollout
from trainer.seats import Seats


@dataclass(frozen=True)
class Episode:
    """A match that was played to its end.

    Attributes:
        assignment: What was played, against whom.
        score: Home's score in [0, 1].
        reason: Why it ended.
        decisions: Its length.
        earned: Reward of an agent of the learner, on average.
        components: What `earned` is made of, by name; empty where the environment does not say.
    """

    assignment: Assignment
    score: float
    reason: str
    decisions: int
    earned: float
    components: Mapping[str, float]

    @property
    def learner_score(self) -> float:
        """The learner's score in [0, 1]."""
        return 1.0 - self.score if self.assignment.away else self.score


@runtime_checkable
class Dealer(Protocol):
    """Where environments get their matches from."""

    def draw(self, row: int) -> Assignment:
        """The next match of an environment."""
        ...


class Collector:
    """Plays E environments with the learner's present weights.

    Every environment knows its current match and its next one. At its own episode's end it takes up the next: its
    opponent changes and that row's memory is opened anew, nobody else's. Recurrent state crosses rollout borders
    inside an episode.

    Args:
        environment: E matches.
        network: The learner.
        dealer: Deals matches.
        on_episode: Called with every finished match.
        rng: Chance of the learner's and the opponents' actions.
        device_cache_bytes: Most bytes of weights that stay on the device for opponents that nobody plays just now.
    """

    def __init__(
        self,
        environment: Environment,
        network: ActorCritic,
        dealer: Dealer,
        on_episode: Callable[[Episode], None],
        rng: torch.Generator,
        *,
        device_cache_bytes: int,
    ) -> None:
        self._env, self._network, self._dealer = environment, network, dealer
        self._on_episode, self._rng = on_episode, rng
        self._seats = Seats(environment.spec, environment.num_envs, environment.device)
        self._opponents = Opponents(self._seats, device_cache_bytes)
        self._earnings = Earnings(environment, self._seats)
        self._current = [dealer.draw(row) for row in range(environment.num_envs)]
        self._next: list[Assignment] = []
        self._state = network.initial_state(self._seats.rows)
        self._open_all()

    @property
    def rows(self) -> int:
        """R: learning agents."""
        return self._seats.rows

    @property
    def pending(self) -> list[tuple[Assignment, Assignment]]:
        """For every environment the match that it plays and its next one."""
        return list(zip(self._current, self._next, strict=True))

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stopping: Callable[[], bool]) -> bool:
        """Fill a rollout; false if `stopping` said so first, and the rollout is then of no use.

        Raises:
            TrainerError: What the environment showed does not fit its spec.
        """
        self._opponents.refresh()
        steps, chunk = len(rollout.reward), len(rollout.reward) // len(rollout.hidden)
        for t in range(steps):
            if stopping():
                return False
            if t % chunk == 0:
                rollout.store("hidden", t // chunk, self._state.hidden)
                rollout.store("cell", t // chunk, self._state.cell)
            self._step(rollout, t)
        self._bootstrap(rollout)
        self._require_options(rollout)
        return True

    @torch.inference_mode()
    def _open_all(self) -> None:
        rows, device = list(range(self._env.num_envs)), self._env.device
        self._take_seats(rows)
        seeds = torch.tensor([each.seed for each in self._current], dtype=torch.int64, device=device)
        self._observation = self._checked(self._env.reset(seeds))
        self._starts = torch.ones(len(rows), dtype=torch.bool, device=device)
        self._next = [self._dealer.draw(row) for row in rows]
        self._announce(rows)

    def _step(self, rollout: Rollout, t: int) -> None:
        raw = self._act(rollout, t)
        actions = self._opponents.act(self._observation, self._starts, self._rng)
        self._seats.learner.write(actions, self._network.layout.to_actions(raw))
        step = self._env.step(self._seats.unflatten(actions))
        self._record(rollout, t, step)
        self._observation = self._checked(step.observation)
        self._starts = step.terminated | step.truncated
        if bool(self._starts.any()):
            self._turn_over(step)

    def _act(self, rollout: Rollout, t: int) -> Tensor:
        seen = self._seats.learner.view(self._observation)
        starts = self._seats.per_agent(self._starts)
        output = self._network.step(seen.values, self._state, starts, seen.active)
        mask = self._network.layout.pack_masks(seen)
        distribution = self._network.distribution(output.parameters, mask)
        raw = distribution.sample(self._rng)
        self._state = output.state
        rollout.store("observation", t, seen.values)
        rollout.store("mask", t, mask)
        rollout.store("active", t, seen.active)
        rollout.store("episode_start", t, starts)
        rollout.store("raw", t, raw)
        rollout.store("log_prob", t, distribution.log_prob(raw))
        rollout.store("value", t, output.value)
        return raw

    def _record(self, rollout: Rollout, t: int, step: StepResult) -> None:
        reward = self._seats.learner.rewards(step.reward)
        rollout.store("reward", t, reward)
        rollout.store("terminated", t, self._seats.per_agent(step.terminated))
        rollout.store("truncated", t, self._seats.per_agent(step.truncated))
        self._earnings.add(reward)
        rollout.final_value[t].zero_()
        if bool(step.truncated.any()):
            self._value_final(rollout, t, step)

    def _value_final(self, rollout: Rollout, t: int, step: StepResult) -> None:
        rows = self._seats.per_agent(step.truncated).nonzero().squeeze(1)
        seen = self._seats.learner.view(step.final_observation).rows(rows)
        state = RecurrentState(*(part[rows] for part in self._state))
        value = self._network.step(seen.values, state, torch.zeros_like(seen.active), seen.active).value
        rollout.final_value[t, rows] = value
        if not self._env.spec.turn_based:
            rollout.terminated[t, rows] = ~seen.active

    def _bootstrap(self, rollout: Rollout) -> None:
        seen = self._seats.learner.view(self._observation)
        output = self._network.step(seen.values, self._state, self._seats.per_agent(self._starts), seen.active)
        rollout.last_value.copy_(output.value)
        rollout.last_active.copy_(seen.active)

    def _turn_over(self, step: StepResult) -> None:
        ended: list[int] = self._starts.nonzero().squeeze(1).tolist()
        outcome = step.outcome
        for row in ended:
            reason = self._env.spec.reasons[int(outcome.reason[row])]
            score, decisions = float(outcome.score[row]), int(outcome.decisions[row])
            earned, components = self._earnings.per_agent(row, away=self._current[row].away)
            self._on_episode(Episode(self._current[row], score, reason, decisions, earned, components))
            self._current[row] = self._next[row]
        self._earnings.clear(self._starts)
        self._take_seats(ended)
        for row in ended:
            self._next[row] = self._dealer.draw(row)
        self._announce(ended)

    def _take_seats(self, rows: list[int]) -> None:
        self._seats.place({row: self._current[row].away for row in rows})
        self._opponents.seat({row: self._current[row].opponent for row in rows})

    def _announce(self, rows: list[int]) -> None:
        """Tell the environment by which seeds the next matches of some rows open."""
        seeds = torch.tensor([self._next[row].seed for row in rows], dtype=torch.int64, device=self._env.device)
        self._env.next_seeds[rows] = seeds

    def _require_options(self, rollout: Rollout) -> None:
        """Refuse masks that leave no option to somebody who acts; once a rollout, since looking costs."""
        stuck = self._network.layout.stuck(rollout.mask) & rollout.active.unsqueeze(-1)
        if bool(stuck.any()):
            t, row, head = stuck.nonzero()[0].tolist()
            spec, (environment, agent) = self._env.spec, divmod(row, self._seats.agents)
            raise TrainerError(
                f"{spec.name} leaves no legal option of head {spec.heads[head].name!r} to agent {agent} of the learner "
                f"in environment {environment} at decision {t} of a rollout: whoever acts needs at least one; mend the "
                "environment's masks"
            )

    def _checked(self, observation: Observation) -> Observation:
        spec = self._env.spec
        expected = (self._env.num_envs, spec.num_agents, spec.observation_size)
        if tuple(observation.values.shape) != expected:
            raise TrainerError(
                f"observation of {spec.name} has shape {tuple(observation.values.shape)}: its spec declares "
                f"{expected} (environments, agents, floats); mend the environment"
            )
        return observation
