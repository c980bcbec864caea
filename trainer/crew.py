"""Environments that are stepped together, with everybody who acts in them: what one thread has to do."""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import torch

from arena.environments.protocol import Environment, Observation, StepResult
from arena.policies import ActorCritic, RecurrentState
from trainer.acting import Acting
from trainer.earnings import Earnings
from trainer.errors import TrainerError
from trainer.opponents import Opponent
from trainer.opposition import Opponents
from trainer.rollout import Rollout
from trainer.seats import Seats

HOST = torch.device("cpu")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ended:
    """A match that has ended in this step.

    Attributes:
        row: Its environment.
        truncated: A limit ended it.
        score: Home's score.
        reason: Why it ended, as an index of the spec's reasons.
        decisions: Its length.
        sums: What the learner's side earned, in all and by component.
    """

    row: int
    truncated: bool
    score: float
    reason: int
    decisions: int
    sums: tuple[float, ...]


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
        self._self_play = [row for row in range(environment.num_envs) if first + row in self_play]
        self.seats = Seats(environment.spec, environment.num_envs, environment.device, self._self_play)
        self.acting = Acting(network, self.seats.rows)
        self.opponents = Opponents(self.seats, device_cache_bytes)
        self.earnings = Earnings(environment, self.seats)
        self._seeds = torch.zeros(environment.num_envs, dtype=torch.int64)
        self.ended: list[Ended] = []

    @property
    def state(self) -> RecurrentState:
        """Memory of the learner's rows."""
        return self.acting.state

    @torch.inference_mode()
    def open(self, seeds: Sequence[int]) -> None:
        """Open a match in every environment."""
        device = self.environment.device
        self._observation = self._checked(self.environment.reset(torch.tensor(seeds, device=device)))
        self._starts = torch.ones(len(seeds), dtype=torch.bool, device=device)

    def seat(self, away: Mapping[int, bool], opponents: Mapping[int, Opponent]) -> None:
        """Take up the matches of some environments: the learner's side, and whom it plays unless itself."""
        others = away.keys() - self._self_play
        moved = self.seats.place({row: away[row] for row in others})
        self.opponents.seat({row: opponents[row] for row in others}, moved)

    def announce(self, seeds: Mapping[int, int]) -> None:
        """Tell the environment by which seeds the next matches of some rows open."""
        for row, seed in seeds.items():
            self._seeds[row] = seed
        self.environment.next_seeds.copy_(self._seeds)

    def refresh(self) -> None:
        """Take over what has become of the learner's weights."""
        self.acting.refresh()
        self.opponents.refresh()

    @torch.inference_mode()
    def step(self, rollout: Rollout, t: int, rng: torch.Generator) -> None:
        """Play one decision of every environment into the crew's rows of a rollout."""
        chunk, place = divmod(t, rollout.chunk)
        if place == 0:
            self.acting.open_chunk(rollout, chunk, rng)
        self._perceive(rollout, t)
        raw = self.acting.act(rollout, t)
        actions = self.opponents.act(self._observation, self._starts, rng)
        self.seats.learner.write(actions, self._layout.to_actions(raw))
        step = self.environment.step(self.seats.unflatten(actions))
        self._record(rollout, t, step)
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
    def disown(self, rollout: Rollout) -> None:
        """Let nothing be learned from a rollout in which opponents were shown what is not finite: its values are NaN.

        Native code would make a finite number of it, so that nobody would notice how such an opponent plays.
        """
        misled = self.opponents.take_misled()
        if bool(misled.any()):
            row, agent = divmod(int(misled.nonzero()[0]), self.environment.spec.num_agents)
            logger.warning(
                "%s shows NaN or infinity to agent %d, an opponent, in environment %d: mend its observations",
                self.environment.spec.name,
                agent,
                self.first + row,
            )
            rollout.last_value.fill_(torch.nan)

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
                "environment's masks"
            )

    def _perceive(self, rollout: Rollout, t: int) -> None:
        learner, observation = self.seats.learner, self._observation
        values = observation.values.flatten(0, 1)
        torch.index_select(values, 0, learner.numbers, out=rollout.observation[t])
        if self._layout.mask_size:
            rollout.store("mask", t, learner.pick(self._layout.pack_masks(observation)))
        rollout.store("active", t, learner.active(observation))
        rollout.store("episode_start", t, self.seats.per_agent(self._starts))

    def _record(self, rollout: Rollout, t: int, step: StepResult) -> None:
        reward = self.seats.learner.rewards(step.reward)
        rollout.store("reward", t, reward)
        rollout.store("terminated", t, self.seats.per_agent(step.terminated))
        rollout.store("truncated", t, self.seats.per_agent(step.truncated))
        rollout.final_value[t].zero_()
        self.earnings.add(reward)
        self._observation = self._checked(step.observation)
        self._starts = step.terminated | step.truncated
        self.ended = self._look(step)
        self._value_final(rollout, t, step)

    def _look(self, step: StepResult) -> list[Ended]:
        """Bring to the host what has ended: the one time that a step waits for a device."""
        if self.environment.device == HOST and not bool(self._starts.any()):
            return []
        outcome = step.outcome
        facts = (self._starts, step.truncated, outcome.score, outcome.reason, outcome.decisions)
        columns = torch.cat([torch.stack([each.double() for each in facts], dim=1), self.earnings.sums], dim=1)
        self.earnings.clear(self._starts)
        table = columns.cpu().numpy()
        rows = np.flatnonzero(table[:, 0]).tolist()
        return [
            Ended(row, bool(truncated), score, int(reason), int(decisions), tuple(sums))
            for row, (_, truncated, score, reason, decisions, *sums) in zip(rows, table[rows].tolist(), strict=True)
        ]

    def _value_final(self, rollout: Rollout, t: int, step: StepResult) -> None:
        """Value the final observations of matches that a limit cut off, unless it decides them."""
        spec = self.environment.spec
        cut = [each.row for each in self.ended if each.truncated]
        if not cut or spec.limit_decides:
            return
        rows, seen = self.seats.rows_of(cut), step.final_observation
        values, active = self.seats.learner.pick(seen.values)[rows], self.seats.learner.active(seen)[rows]
        state = RecurrentState(*(part[rows] for part in self.state))
        everybody = torch.ones_like(active)
        rollout.final_value[t, rows] = self.acting.values(values, state, ~everybody, everybody)
        if not spec.turn_based:
            rollout.terminated[t, rows] = ~active

    def _checked(self, observation: Observation) -> Observation:
        spec = self.environment.spec
        expected = (self.environment.num_envs, spec.num_agents, spec.observation_size)
        if tuple(observation.values.shape) != expected:
            raise TrainerError(
                f"observation of {spec.name} has shape {tuple(observation.values.shape)}: its spec declares "
                f"{expected} (environments, agents, floats); mend the environment"
            )
        return observation
