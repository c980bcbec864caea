"""Vector worker: steps one batch of environments and writes every observation, action and reward into the buffer.

Observations: `send` lets opponents and learner act on the current observation, which `RolloutActor` stores, and passes
the actions on. `receive` steps the environment, stores rewards and endings, and holds
the next observation together with `episode_start`, by which learner and opponents reset their recurrent states.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.environments.base import Actions, AwaitedEnvironment, Environment, Observation, StepResult, supports
from arena.environments.guards import forbid_exit, require_finite
from arena.policies import ActorCritic, RecurrentState
from trainer.config.algorithm import CompileBackend
from trainer.errors import EnvironmentFaultError
from trainer.opponents.agent_index import AgentIndex
from trainer.opponents.assignment import MatchAssignment
from trainer.opponents.batch import OpponentBatch
from trainer.rollout.actor import RolloutActor
from trainer.rollout.buffer import RolloutBuffer
from trainer.rollout.episode_returns import EpisodeReturns

HOST = torch.device("cpu")


@dataclass(frozen=True)
class FinishedMatches:
    """The m matches that ended in the last step, in columns on the host.

    Attributes:
        rows: Environments within the batch.
        scores: Home's scores in [0, 1].
        reasons: Indices into the spec's reasons.
        decisions: Lengths in steps.
        sums: Returns of the learner's side: the total, then each component.
    """

    rows: Int[np.ndarray, " m"]
    scores: Float[np.ndarray, " m"]
    reasons: Int[np.ndarray, " m"]
    decisions: Int[np.ndarray, " m"]
    sums: Float[np.ndarray, "m _"]

    @classmethod
    def of(cls, rows: NDArray[np.int64], *columns: NDArray[np.generic]) -> "FinishedMatches | None":
        """Select the matches of some rows from columns of all environments, in the order of the attributes."""
        if not len(rows):
            return None
        scores, reasons, decisions, *sums = (column[rows] for column in columns)
        return cls(rows, scores, reasons.astype(np.int64), decisions.astype(np.int64), np.stack(sums, axis=1))


@dataclass(frozen=True)
class _Endings:
    """Episodes and matches that ended in one step.

    Attributes:
        any_episode: Whether any episode ended.
        truncated: Environments whose episode was truncated.
        matches: Matches that are over; None if there are none.
    """

    any_episode: bool
    truncated: Sequence[int]
    matches: FinishedMatches | None


NO_ENDINGS = _Endings(False, (), None)


class VectorWorker:
    """E environments with the learner's actor and the opponents that play in them.

    After every step the caller reads `finished` and calls `assign_matches` and `set_next_seeds` for these environments.

    Args:
        environment: E matches.
        network: The learner's network.
        first: Number of the first environment within the run. Within this class environments are numbered from 0.
        self_play: Numbers, within the run, of the environments where the learner plays both sides.
        device_cache_bytes: Weights that stay on the device for opponents that are not playing.
        compile_backend: Backend of torch.compile for the learner's decisions.

    Attributes:
        agents: Sides of the learner and its opponents.
        actor: Acts for the learner's rows.
        opponents: Acts for all other agents.
        returns: Returns of the running matches.
        finished: Matches that ended in the last step; None if there are none.
    """

    def __init__(
        self,
        environment: Environment,
        network: ActorCritic,
        *,
        first: int,
        self_play: Set[int],
        device_cache_bytes: int,
        compile_backend: CompileBackend = CompileBackend.NONE,
    ) -> None:
        self.environment, self.first, self._layout = environment, first, network.layout
        self._async_environment = environment if supports(environment, AwaitedEnvironment) else None
        own_play = [row for row in range(environment.num_envs) if first + row in self_play]
        self._self_play = frozenset(own_play)
        self.agents = AgentIndex(environment.spec, environment.num_envs, environment.device, own_play)
        self.actor = RolloutActor(network, self.agents.rows, environment.spec.num_agents, compile_backend)
        self.opponents = OpponentBatch(self.agents, device_cache_bytes)
        self.returns = EpisodeReturns(environment, self.agents)
        self._shapes = _Shapes.from_spec(environment.spec, environment.num_envs)
        self._actions: Actions = {}
        self.finished: FinishedMatches | None = None

    @property
    def state(self) -> RecurrentState:
        """Recurrent state of the learner's rows."""
        return self.actor.state

    @property
    def is_async(self) -> bool:
        """Whether the environment steps in the background between `send` and `receive`."""
        return self._async_environment is not None

    @torch.inference_mode()
    def reset(self, seeds: Sequence[int]) -> None:
        """Start a match in every environment."""
        device = self.environment.device
        with forbid_exit(self.environment.spec.name):
            observation = self.environment.reset(torch.tensor(seeds, device=device))
        self._observation = self._check_observation(observation)
        require_finite(self.environment, observation, first=self.first)
        self._episode_start = torch.ones(len(seeds), dtype=torch.bool, device=device)

    def assign_matches(self, matches: Mapping[int, MatchAssignment]) -> None:
        """Set the learner's side and the opponent in some environments; both are ignored in self-play."""
        matches = {row: match for row, match in matches.items() if row not in self._self_play}
        side_changed = self.agents.assign_sides({row: match.away for row, match in matches.items()})
        self.opponents.assign({row: match.opponent for row, match in matches.items()}, side_changed)

    def set_next_seeds(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Set the seeds with which the next matches of some environments start."""
        changes = torch.from_numpy(np.array([*rows, *seeds], dtype=np.int64)).to(self.environment.device)
        self.environment.next_seeds.index_copy_(0, *changes.view(2, -1))

    def refresh_weights(self) -> None:
        """Act with the learner's current weights from now on."""
        self.actor.refresh_weights()
        self.opponents.refresh_weights()

    def step(self, buffer: RolloutBuffer, t: int, rng: torch.Generator) -> None:
        """Act in every environment and store step t in this worker's rows of a rollout."""
        self.send(buffer, t, rng)
        self.receive(buffer, t)

    @torch.inference_mode()
    def send(self, buffer: RolloutBuffer, t: int, rng: torch.Generator) -> None:
        """Choose all actions for step t, store observations and actions, and start the step; `receive` must follow."""
        chunk, index = divmod(t, buffer.bptt_horizon)
        if index == 0:
            self._clear_endings(buffer, chunk)
            self.actor.begin_chunk(buffer, chunk, rng)
        actions = self.opponents.act(self._observation, self._episode_start, rng)
        learner = self.agents.learner
        if self.actor.has_native_step:
            view = learner.view(self._observation, self._episode_start)
            self.actor.act_native(buffer, t, view, actions.heads_for(learner))
        else:
            raw = self.actor.act(buffer, t, learner, self._observation, self._episode_start)
            actions.put_raw(learner, raw)
        self._actions = self.agents.unflatten(actions.by_head())
        if self._async_environment is not None:
            self._async_environment.send(self._actions)

    @torch.inference_mode()
    def receive(self, buffer: RolloutBuffer, t: int) -> None:
        """Step the environment, or wait for its step, and store rewards and endings of step t."""
        with forbid_exit(self.environment.spec.name):
            if self._async_environment is None:
                step = self.environment.step(self._actions)
            else:
                step = self._async_environment.receive()
        self._store_step(buffer, t, step)
        chunk, index = divmod(t, buffer.bptt_horizon)
        if index == buffer.bptt_horizon - 1:
            self.actor.finish_chunk(buffer, chunk)

    @torch.inference_mode()
    def bootstrap(self, buffer: RolloutBuffer) -> None:
        """Store the value of the observation after the last step."""
        values = self.agents.learner.gather(self._observation.values)
        active = self.agents.learner.gather_active(self._observation)
        episode_start = self.agents.expand_to_rows(self._episode_start)
        buffer.last_value.copy_(self.actor.predict_values(values, self.state, episode_start, active))
        buffer.last_active.copy_(active)

    @torch.inference_mode()
    def check_masks(self, buffer: RolloutBuffer) -> None:
        """Check that the masks leave every active agent an option; once per rollout, because it waits for the device.

        Raises:
            EnvironmentFaultError: An active agent has no legal option.
        """
        if not self._layout.mask_size:
            return
        stuck = self._layout.no_legal_option(buffer.action_mask) & buffer.active.unsqueeze(-1)
        if bool(stuck.any()):
            t, row, head = stuck.nonzero()[0].tolist()
            spec, agent = self.environment.spec, row % self.agents.agents_per_side
            number = self.first + int(self.agents.environment_of_row[row])
            raise EnvironmentFaultError(
                f"{spec.name} leaves no legal option of head {spec.heads[head].name!r} to agent {agent} of the learner "
                f"in environment {number} at step {t} of a rollout: an active agent needs at least one; correct the "
                "environment's masks (1 is legal, 0 is not)"
            )

    def _clear_endings(self, buffer: RolloutBuffer, chunk: int) -> None:
        # Few steps end an episode: clear whole chunks here, and write only the steps that do.
        steps = slice(chunk * buffer.bptt_horizon, (chunk + 1) * buffer.bptt_horizon)
        for field in (buffer.terminated, buffer.truncated, buffer.final_value):
            field[steps].zero_()

    def _store_step(self, buffer: RolloutBuffer, t: int, step: StepResult) -> None:
        self._check_shape("reward", step.reward, self._shapes.agents)
        self._check_shape("terminated", step.terminated, self._shapes.matches)
        self._check_shape("truncated", step.truncated, self._shapes.matches)
        reward = self.agents.learner.gather_rewards(step.reward.float(), out=buffer.reward[t])
        self.returns.add(reward)
        self._observation = self._check_observation(step.observation)
        self._episode_start = step.ended
        # After the rewards are stored, because the endings include the returns of finished matches.
        endings = self._fetch_endings(step)
        self.finished = endings.matches
        if endings.any_episode:
            self.agents.expand_to_rows(step.terminated, out=buffer.terminated[t])
            self.agents.expand_to_rows(step.truncated, out=buffer.truncated[t])
            self._store_final_values(buffer, t, step, endings.truncated)

    def _fetch_endings(self, step: StepResult) -> _Endings:
        """Copy end flags, outcomes and a finiteness check to the host.

        All of it is one transfer, which is the only device synchronisation of a step.

        Raises:
            ArenaError: An observation or a reward is NaN or infinite.
        """
        total = step.observation.values.sum() + step.reward.sum()
        # x - x is 0 unless x is NaN or infinite; `isfinite` takes four times as long on a single number.
        if self.environment.device == HOST and not bool(self._episode_start.any() | (total - total != 0.0)):
            return NO_ENDINGS
        total = total + step.final_observation.values.sum()
        over, outcome = step.over, step.outcome
        self._check_shape("over", over, self._shapes.matches)
        flags = (self._episode_start, step.truncated, total.expand(len(over)), over)
        columns = [*flags, outcome.score, outcome.reason, outcome.decisions, *self.returns.sums.unbind(1)]
        self.returns.reset(over)
        ended, truncated, totals, is_over, *outcomes = _to_host(columns)
        if not np.isfinite(totals[0]):
            for observation in (step.observation, step.final_observation):
                require_finite(self.environment, observation, step, first=self.first)
        matches = FinishedMatches.of(np.flatnonzero(is_over), *outcomes)
        return _Endings(bool(ended.any()), np.flatnonzero(truncated).tolist(), matches)

    def _store_final_values(self, buffer: RolloutBuffer, t: int, step: StepResult, truncated: Sequence[int]) -> None:
        """Store the value of truncated episodes' final observations, unless the limit decides the match.

        For an agent that is inactive in its final observation the episode counts as terminated: its game was over
        before the limit.
        """
        spec = self.environment.spec
        if not truncated or spec.limit_decides:
            return
        rows, observation = self.agents.learner_rows(truncated), self._check_observation(step.final_observation)
        values = self.agents.learner.gather(observation.values)[rows]
        active = self.agents.learner.gather_active(observation)[rows]
        state = RecurrentState(*(part[rows] for part in self.state))
        # The final observation continues its episode, so no state is reset before the value is predicted.
        all_rows = torch.ones_like(active)
        buffer.final_value[t, rows] = self.actor.predict_values(values, state, ~all_rows, all_rows)
        # An agent that was dead at the limit has no state to bootstrap from.
        buffer.terminated[t, rows] = ~active

    def _check_observation(self, observation: Observation) -> Observation:
        self._check_shape("observation", observation.values, self._shapes.observation)
        self._check_shape("activity", observation.active, self._shapes.agents)
        for name, shape in self._shapes.masks.items():
            if name not in observation.masks:
                raise EnvironmentFaultError(
                    f"{self.environment.spec.name} shows no mask of head {name!r}, which its spec declares; correct "
                    "the environment"
                )
            self._check_shape(f"mask of head {name!r}", observation.masks[name], shape)
        return observation

    def _check_shape(self, name: str, tensor: Tensor, expected: torch.Size) -> None:
        if tensor.shape != expected:
            raise EnvironmentFaultError(
                f"{name} of {self.environment.spec.name} has shape {tuple(tensor.shape)}: its spec declares "
                f"{tuple(expected)} (environments, agents, numbers of each); correct the environment"
            )


def _to_host(columns: Sequence[Shaped[Tensor, " E"]]) -> list[NDArray[np.generic]]:
    """Copy columns to the host; from a device in one transfer."""
    if columns[0].device == HOST:
        return [column.numpy() for column in columns]
    # Stacked as float64, which represents every flag, count and score of the columns exactly.
    return list(torch.stack([column.double() for column in columns]).cpu().numpy())


@dataclass(frozen=True)
class _Shapes:
    """Shapes that an environment's spec declares."""

    matches: torch.Size
    agents: torch.Size
    observation: torch.Size
    masks: Mapping[str, torch.Size]

    @classmethod
    def from_spec(cls, spec: EnvironmentSpec, num_envs: int) -> "_Shapes":
        agents = torch.Size((num_envs, spec.num_agents))
        masks = {head.name: torch.Size((*agents, head.size)) for head in spec.heads if head.masked}
        return cls(torch.Size((num_envs,)), agents, torch.Size((*agents, spec.observation_size)), masks)
