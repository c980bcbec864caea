"""The learner: a network, its scales and its optimiser, and the road from a rollout to an update."""

import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from arena.environments import EnvironmentSpec
from arena.errors import CheckpointError
from arena.policies import ActorCritic, Architecture
from arena.policies.checkpoint import load_strictly
from arena.policies.module_checks import check_module
from arena.seeding import derive
from trainer import board, schedules
from trainer.advantages import Turns, estimate, own_turns
from trainer.averaging import WeightAverage
from trainer.board import Setup
from trainer.diagnostics import continuous_heads
from trainer.distributed import ALONE, Ranks, any_of
from trainer.errors import ConfigError, StateError
from trainer.losses import explained_variance
from trainer.magnet import Magnet
from trainer.normalization import (
    Moments,
    ObservationNormalizer,
    RewardScaler,
    ValueNormalizer,
    normalise_advantages,
    normalise_by_role,
)
from trainer.objective import Coefficients
from trainer.owed import Owed
from trainer.partners import Partners
from trainer.ppo import PPO, Renew
from trainer.rollout import Rollout
from trainer.samples import Targets
from trainer.settings import NetworkSettings, TrainerConfig
from trainer.settings.learning import MEMBER_SIZE

logger = logging.getLogger(__name__)

FEWEST_DECISIONS = 256
"""Decisions of a minibatch below which a process of its own costs more than it brings."""


class Learner:
    """Everything that changes by learning.

    Args:
        config: Settings; every rank has the same.
        spec: Of what is played.
        ranks: With whom it learns; the weights of all ranks are the same at any time.

    Attributes:
        network: The weights that act and learn.
        steps: Environment steps learned from.
        updates: Updates made.
        began_step: Step at which the present weights began; schedules count from there.
        rng: Chance of acting; the update has its own.
    """

    def __init__(self, config: TrainerConfig, spec: EnvironmentSpec, ranks: Ranks = ALONE) -> None:
        self._config, self._spec, self._ranks = config, spec, ranks
        device = torch.device(config.run.device)
        self.network = build_network(config.network, spec, config.run.seed).to(device).eval()
        self.rng = _generator(device, derive(config.run.seed, "acting", ranks.number))
        self._update_rng = _generator(device, derive(config.run.seed, "update", ranks.number))
        played = config.environment
        self.rows = (played.num_envs + len(played.self_play_rows)) * max(spec.agents_per_side)
        self.ppo = PPO(self.network, config.ppo, config.optimizer, self._update_rng, ranks)
        horizon = config.league.average_steps / self.env_steps_per_update
        self._average = WeightAverage(self.network, horizon) if config.league.averages else None
        pulls = self._average is not None and config.ppo.magnet > 0.0
        self._magnet = Magnet(config.ppo.magnet, self.rows, self.network) if pulls else None
        scales = config.normalization
        self._observations = ObservationNormalizer(
            self.network.architecture, scales.observation_std_floor, device, ranks
        )
        self._rewards = RewardScaler(self.rows, config.ppo.gamma, scales.reward_clip, device, ranks)
        self._values = ValueNormalizer(device, ranks)
        self._owed = Owed(max(spec.agents_per_side), device, ranks)
        self._role = _role_of_row(spec, self.rows).to(device) if scales.advantage_role_samples else None
        self.steps = 0
        self.updates = 0
        self.began_step = 0

    def allocate(self) -> Rollout:
        """Memory for this learner's rollouts; where several processes make its updates, the others begin to start."""
        shape = self._config.rollout
        if self.update_processes > 1:
            partners = self.update_processes - 1
            setup = Setup(self.network.architecture, self._config.ppo, shape.steps, self.rows, shape.chunk, partners)
            try:
                self.ppo.share_with(Partners(setup, self.network, self.ppo.auxiliary, self.ppo.optimizer))
            except OSError as error:
                logger.warning("updates are made in one process: no other can be started (%s)", error)
        return self.ppo.partners.rollout or Rollout.allocate(
            self.network, steps=shape.steps, rows=self.rows, chunk=shape.chunk
        )

    @property
    def published(self) -> ActorCritic:
        """What others play, and what is left behind: the mean of the last weights if settings say so, or these."""
        return self.network if self._average is None else self._average.network

    @property
    def env_steps_per_update(self) -> int:
        """Decisions of the environments of all ranks in a rollout."""
        return self._config.rollout.steps * self._config.environment.num_envs * self._ranks.count

    @property
    def update_processes(self) -> int:
        """Processes that are to share every minibatch, this one among them."""
        return update_processes(self._config, self.rows)

    def learn(self, rollout: Rollout, stopping: Callable[[], bool]) -> dict[str, float | None]:
        """Update the weights, then the statistics that the next rollout is normalised by.

        A rollout with anything that is not finite is dropped whole: neither weights nor statistics see it.

        Raises:
            DivergedError: That happened too often in a row.
        """
        self.steps += self.env_steps_per_update
        self.updates += 1
        strange = rollout.not_finite
        if any_of(self._ranks, bool(strange), self.network.observation_mean.device):
            where = ", ".join(strange) or "the rollout of another rank"
            logger.warning("update %d learns nothing: there is NaN or infinity in %s", self.updates, where)
            self.ppo.reject()
            return {"losses/rejected_steps": float(self.ppo.rejected_steps)}
        pull, pulled = self._pull(rollout)
        renew = self._renewal(rollout, pull) if self._config.ppo.renewed else None
        targets, metrics = self.targets(rollout, pull)
        coefficients = self.coefficients()
        metrics |= self.ppo.update(rollout, targets, coefficients, stopping, renew)
        metrics |= continuous_heads(self.network, rollout)
        self._observations.update_where(rollout.active, rollout.observation)
        self._observations.write_to(self.network)
        return metrics | {
            **pulled,
            **self._averaged(),
            **self._normalizers(),
            "charts/learning_rate": coefficients.learning_rate,
            "charts/entropy_coefficient": coefficients.entropy,
        }

    def coefficients(self) -> Coefficients:
        """What the schedules say now."""
        settings, steps = self._config.schedules, self.steps - self.began_step
        done = schedules.progress(steps, settings.horizon_steps)
        rate = schedules.falling(settings.shape, settings.learning_rate, settings.learning_rate_final, done)
        return Coefficients(
            learning_rate=rate * schedules.warm_up(steps, settings.learning_rate_warm_up_steps),
            entropy=schedules.falling(settings.shape, settings.entropy, settings.entropy_final, done),
            entropy_below_floor=settings.entropy,
            value=self._config.ppo.value_coefficient * schedules.warm_up(steps, settings.value_warm_up_steps),
        )

    def tensors(self) -> dict[str, Tensor]:
        """Weights, optimiser, statistics and generators, by name."""
        named = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        if (auxiliary := self.ppo.auxiliary) is not None:
            named |= {f"auxiliary.{name}": tensor for name, tensor in auxiliary.state_dict().items()}
        named |= {f"adam.{name}": tensor for name, tensor in self.ppo.optimizer.tensors().items()}
        if self._average is not None:
            named |= {f"average.{name}": tensor for name, tensor in self._average.tensors().items()}
        for owner, moments in self._moments().items():
            named |= {f"{owner}.{key}": value for key, value in moments.tensors().items()}
        named |= {f"owed.{key}": value for key, value in self._owed.tensors().items()}
        chance = {"rng.acting": self.rng.get_state(), "rng.update": self._update_rng.get_state()}
        return named | chance | {"under_floor": self.ppo.under_floor}

    def restore(self, tensors: Mapping[str, Tensor], steps: int, updates: int) -> None:
        """Continue from what `tensors` gave.

        Raises:
            StateError: The weights do not fit the configured network, or a tensor is missing.
        """
        device = torch.device(self._config.run.device)
        if "under_floor" in tensors:  # the first format has none
            self.ppo.under_floor = tensors["under_floor"].to(device)
        if owed := _below(tensors, "owed."):
            self._owed.restore(owed)
        try:
            load_strictly(self.network, _below(tensors, "network."), "the saved state")
            self._restore_average(_below(tensors, "average."))
        except CheckpointError as error:
            raise StateError(f"{error}: choose another --run, or the [network] of its config.toml") from error
        if (auxiliary := self.ppo.auxiliary) is not None:
            try:
                load_strictly(auxiliary, _below(tensors, "auxiliary."), "the saved state")
            except CheckpointError as error:
                raise StateError(f"{error}: choose another --run, or its ppo.auxiliary_weight") from error
        self.ppo.optimizer.restore(_below(tensors, "adam."))
        try:
            self._observations.moments = Moments.of(_below(tensors, "observations."), device)
            self._observations.members = [
                Moments.of(_below(tensors, f"members{number}."), device)
                for number in range(len(self._observations.members))
            ]
            self._rewards.moments = Moments.of(_below(tensors, "rewards."), device)
            self._values.moments = Moments.of(_below(tensors, "values."), device)
            self._resume_chance(self.rng, tensors["rng.acting"], "acting", steps)
            self._resume_chance(self._update_rng, tensors["rng.update"], "update", steps)
        except KeyError as error:
            raise StateError(f"the saved state lacks {error}: start in another run folder") from error
        self.steps, self.updates = steps, updates

    def begin_anew(self, start: ActorCritic | None = None) -> None:
        """Forget what was learned; steps and updates are counted on, and chance is drawn on.

        Args:
            start: Weights to begin with, and what is known of observations then stays; None for a new run's.
        """
        own = self.tensors()
        tensors = Learner(self._config, self._spec, self._ranks).tensors()
        kept: tuple[str, ...] = ("rng.",)
        if start is not None:
            tensors |= {f"network.{name}": tensor for name, tensor in start.state_dict().items()}
            kept += ("observations.", "members")
        tensors |= {name: tensor for name, tensor in own.items() if name.startswith(kept)}
        self.restore(tensors, self.steps, self.updates)
        if start is not None:
            self._observations.write_to(self.network)
        self._restore_average({})
        self.began_step = self.steps

    def _restore_average(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on with the mean of weights; where none was saved it begins with the present ones."""
        if self._average is None:
            return
        if tensors:
            self._average.restore(tensors)
        else:
            self._average.begin(self.network)

    def _resume_chance(self, rng: torch.Generator, saved: Tensor, purpose: str, steps: int) -> None:
        """Draw on where `saved` stopped; that of another kind of device cannot be gone on with, and begins anew."""
        if saved.shape == rng.get_state().shape:
            rng.set_state(saved)
        else:
            rng.manual_seed(derive(self._config.run.seed, purpose, self._ranks.number, steps))

    def _moments(self) -> dict[str, Moments]:
        return {
            "observations": self._observations.moments,
            "rewards": self._rewards.moments,
            "values": self._values.moments,
            **{f"members{number}": moments for number, moments in enumerate(self._observations.members)},
        }

    def targets(self, rollout: Rollout, pull: Tensor | None = None) -> tuple[Targets, dict[str, float | None]]:
        """What to learn from a rollout, and the scales that it came at; takes it into the statistics of rewards.

        Args:
            rollout: What was collected.
            pull: What is added to normalised advantages (T, R); None for nothing.
        """
        turns = self._own_turns(rollout, self._values, self._owed)
        self._rewards.update(turns.reward, turns.known, turns.valid, turns.episode_end)
        reward, value = self._rewards.scale(turns.reward), turns.value
        advantage = self._estimate(turns, reward)
        returns = advantage + value
        if not self._spec.turn_based:
            self._owed.update(turns.restore(value), turns.restore(returns), rollout.active, rollout.episode_start)
        self._values.update(returns[turns.valid])
        scales = _scales(advantage[turns.valid], returns[turns.valid], value[turns.valid], reward[turns.valid])
        return self._targets(turns, advantage, pull), scales

    def _pull(self, rollout: Rollout) -> tuple[Tensor | None, dict[str, float]]:
        """What the mean of the last weights adds to advantages, and how far the policy that acted is from it."""
        if self._magnet is None:
            return None, {}
        pull, distance = self._magnet.pull(self.published, rollout)
        return pull, {"losses/magnet_kl": distance}

    def _averaged(self) -> dict[str, float]:
        """Take the weights after an update into their mean; how far they are from it."""
        if self._average is None:
            return {}
        self._average.take(self.network)
        return {"charts/average_distance": self._average.distance(self.network)}

    def _normalizers(self) -> dict[str, float]:
        """What rewards are divided by, and the mean and the deviation that are 0 and 1 in the critic's units."""
        returns = self._values.moments
        return {
            "scales/reward_divisor": self._rewards.deviation,
            "scales/critic_mean": float(returns.mean),
            "scales/critic_std": float(returns.variance.sqrt()),
        }

    def _renewal(self, rollout: Rollout, pull: Tensor | None) -> Renew:
        """How to take other values of a rollout's decisions for targets.

        Call it before `targets`: those values come in the units that the rollout's own have. The bootstraps behind the
        rollout's end and its limits stay those of the weights that acted, since their observations are not kept.
        """
        values, owed = copy.deepcopy(self._values), copy.deepcopy(self._owed)

        def renew(value: Tensor) -> Targets:
            turns = self._own_turns(replace(rollout, value=value), values, owed)
            return self._targets(turns, self._estimate(turns, self._rewards.scale(turns.reward)), pull)

        return renew

    def _estimate(self, turns: Turns, reward: Tensor) -> Tensor:
        settings = self._config.ppo
        return estimate(turns, reward, turns.value, turns.next_value, gamma=settings.gamma, lam=settings.gae_lambda)

    def _targets(self, turns: Turns, advantage: Tensor, pull: Tensor | None) -> Targets:
        valid = turns.restore(turns.valid)
        normalised = self._normalised(turns.restore(advantage), valid)
        return Targets(
            advantage=normalised if pull is None else normalised + pull,
            value=turns.restore(self._values.normalise(advantage + turns.value)),
            valid=valid,
        )

    def _normalised(self, advantages: Tensor, valid: Tensor) -> Tensor:
        scales = self._config.normalization
        if self._role is None:
            return normalise_advantages(advantages, valid, scales.advantage_std_floor, self._ranks)
        return normalise_by_role(
            advantages, valid, self._role, scales.advantage_std_floor, scales.advantage_role_samples, self._ranks
        )

    def _own_turns(self, rollout: Rollout, values: ValueNormalizer, owed: Owed) -> Turns:
        value, final_value, last_value = (
            values.denormalise(each) for each in (rollout.value, rollout.final_value, rollout.last_value)
        )
        if not self._spec.turn_based:
            value = owed.fill(value, rollout.active)
            last_value = owed.fill(last_value, rollout.last_active)
        return own_turns(
            rollout.reward,
            value,
            final_value,
            rollout.terminated,
            rollout.truncated,
            rollout.active,
            last_value,
            rollout.last_active,
            turn_based=self._spec.turn_based,
            limit_decides=self._spec.limit_decides,
        )


def build_network(settings: NetworkSettings, spec: EnvironmentSpec, seed: int) -> ActorCritic:
    """The configured network with fresh weights; torch's global generator is left as it was.

    Raises:
        ConfigError: The environment shows no sets.
        NetworkModuleError: The user's module is not there, or does not do what a network has to.
    """
    architecture = Architecture.of(
        spec,
        encoder=settings.encoder,
        encoder_sizes=settings.encoder_sizes,
        core=settings.core,
        recurrent_size=settings.recurrent_size,
        initial_log_std=settings.initial_log_std,
        member_size=MEMBER_SIZE if settings.member_size is None else settings.member_size,
        image_channels=settings.image_channels,
        embedding_size=settings.embedding_size,
        module=settings.module,
    )
    if settings.member_size and not architecture.sets:
        raise ConfigError(f"network.member_size is {settings.member_size}, but {spec.name} shows no sets: set it to 0")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "weights"))
        if architecture.module is not None:
            check_module(architecture, spec)
            torch.manual_seed(derive(seed, "weights"))
        return ActorCritic(architecture)


def update_processes(config: TrainerConfig, rows: int) -> int:
    """Processes that share every minibatch of `rows` agents: as many as pay, or as the settings say.

    Raises:
        ConfigError: The settings ask for several, and this system has no memory for processes to share.
    """
    run = config.run
    if run.update_processes > 1 and not board.SUPPORTED:
        raise ConfigError(
            f"run.update_processes is {run.update_processes}, but processes share memory on Linux alone: set it to 0"
        )
    if run.update_processes or run.device != "cpu" or not board.SUPPORTED:
        return max(1, run.update_processes)
    decisions = config.rollout.steps * rows // config.ppo.minibatches
    return max(1, min(run.threads, decisions // FEWEST_DECISIONS))


def _role_of_row(spec: EnvironmentSpec, rows: int) -> Tensor:
    """Number of the role (R,) behind each of the learner's rows, whichever side it plays."""
    home, away = (spec.roles[spec.side(side)] for side in (False, True))
    if home != away:
        raise ConfigError(
            f"normalization.advantage_role_samples needs sides of the same roles, and those of {spec.name} differ "
            f"({', '.join(home)}; {', '.join(away)}): set it to 0"
        )
    numbers = [home.index(role) for role in home]
    return torch.tensor(numbers).repeat(rows // len(numbers))


def _generator(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def _below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _scales(advantage: Tensor, returns: Tensor, value: Tensor, reward: Tensor) -> dict[str, float | None]:
    """Means and deviations before anything was normalised: afterwards they say nothing."""
    metrics: dict[str, float | None] = {"losses/explained_variance": explained_variance(value, returns)}
    for name, samples in {"advantage": advantage, "return": returns, "value": value, "reward": reward}.items():
        if samples.numel():
            deviation, mean = torch.std_mean(samples, correction=0)
            metrics |= {f"scales/{name}_mean": float(mean), f"scales/{name}_std": float(deviation)}
    return metrics
